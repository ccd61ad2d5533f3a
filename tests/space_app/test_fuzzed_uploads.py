"""Broken, odd and hostile versions of good predictions: none is taken wrongly, and none harms the server."""

from __future__ import annotations

import io
import json
import math
import pickle
import random
import re
import resource
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from submission_support import changed

from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.space_app.submissions.uploads import SANDBOX, check_upload

TASKS = ("order", "groups", "detection", "vqa", "retrieval")
SCRIPT = "<script>alert(1)</script>"


class Evil:
    """Says so where something unpickles it."""

    def __reduce__(self):
        return exec, ("raise SystemExit('unpickled')",)


ODD = (
    *(None, True, -1, 0, 7, 1e308, 2**70, "", SCRIPT, "../../etc/passwd", "a\nb"),
    *([], {}, [[[[[1]]]]], {"a": {"b": []}}),
)
NAMES = ("s.parquet", "../../etc/passwd", "/dev/zero", f"{SCRIPT}.parquet", "a\x00b", "CON", "~/.netrc", "x" * 5000)


def mutated(rng, goods):
    """A broken, odd or hostile version of good predictions, and its name."""
    content = rng.choice(goods)
    how = rng.choice(HOW)
    return how(rng, content), rng.choice(NAMES)


def truncated(rng, content):
    kept = content[: rng.randrange(len(content))]
    return kept + b"PAR1" if rng.random() < 0.7 else kept


def flipped(rng, content):
    """Some bits are others, in half of the cases within the footer, where counts and types are."""
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little") if rng.random() < 0.5 else 4
    changed_bytes = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        changed_bytes[rng.randrange(start, len(content) - 4)] ^= 1 << rng.randrange(8)
    return bytes(changed_bytes)


def overwritten(rng, content):
    start = rng.randrange(4, len(content) - 8)
    filler = rng.choice((b"\0", b"\xff", b"\x7f", SCRIPT.encode(), pickle.dumps(Evil())))
    return content[:start] + (filler * 60)[: len(content) - 4 - start][:200] + content[start + 200 :][-(10**9) :]


def odd_metadata(rng, content):
    def change(metadata):
        section = rng.choice(("benchmark", "model", "run", None))
        place = metadata if section is None else metadata[section]
        place[rng.choice([*place, "new", SCRIPT])] = rng.choice(ODD)

    return changed(content, metadata=change)


def odd_rows(rng, content):
    def change(rows):
        row = rng.choice(rows)
        key = rng.choice(list(row))
        payload = rng.choice((math.nan, math.inf, -math.inf, 1e308))
        row[key] = {
            float: payload,
            bool: not row[key],
            str: rng.choice((SCRIPT, "", "../x", "\u202e", "x" * 10_000)),
            list: rng.choice(([], row[key] * 2, row[key][::-1], [*row[key][:-1]])),
        }.get(type(row[key]), row[key])
        if key == "scores" and rng.random() < 0.7:
            row[key] = [[payload] * len(scores) for scores in row[key]] if isinstance(row[key][0], list) else [payload]

    try:
        return changed(content, rows=change)
    except (pa.ArrowException, IndexError, TypeError):
        return content[: len(content) // 2]


def odd_columns(rng, content):
    def change(table):
        place = rng.randrange(table.num_columns)
        nested = pa.array([1] * len(table))
        for _ in range(rng.choice((0, 30))):
            nested = pa.ListArray.from_arrays(pa.array(range(len(table) + 1), pa.int32()), nested)
        column = rng.choice((nested, pa.nulls(len(table)), pa.array([pickle.dumps(Evil())] * len(table))))
        return table.set_column(place, table.schema.names[place], column)

    return changed(content, table=change)


def wrapped(rng, content):
    body = rng.choice((pickle.dumps(Evil()), SCRIPT.encode(), rng.randbytes(500), content))
    length = rng.choice((0, 1, len(body), 2**31 - 1, 2**32 - 1)).to_bytes(4, "little")
    return b"PAR1" + body + length + b"PAR1"


HOW = (
    *(truncated, flipped, flipped, flipped, overwritten, odd_metadata),
    *(odd_rows, odd_columns, wrapped),
)


def is_right(predictions, goods):
    """Whether a predictions file that was taken says of its task what a good one says, by other code than the check."""
    [good] = [good for good in map(described, goods) if good["benchmark"]["task"] == predictions.task]
    ours = {row["id"]: row for row in good["rows"]}
    said_by_model = {"scores", "score", "boxes", "images"}
    for row in predictions.rows:
        for key in ours[row.id].keys() - said_by_model:
            assert getattr(row, key) == ours[row.id][key], (row.id, key)
        numbers = re.findall(r"nan|inf", str([getattr(row, key, None) for key in ("scores", "score", "boxes")]))
        assert numbers == []
    assert predictions.metadata["benchmark"]["fingerprint"] == good["benchmark"]["fingerprint"]
    return sorted(row.id for row in predictions.rows) == sorted(ours)


def described(content):
    table = pq.read_table(io.BytesIO(content))
    return json.loads(table.schema.metadata[b"vl_assay"]) | {"rows": table.to_pylist()}


def fuzz(goods, seeds):
    """Try hostile uploads; return how many were taken, all of them rightly."""
    for good in goods:
        check_upload(good)
    before, taken, memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0, 0
    for seed in seeds:
        content, name = mutated(random.Random(seed), goods)
        told = ""
        try:
            predictions = check_upload(content, name)
            taken += 1
            assert is_right(predictions, goods), seed
        except PredictionsError as error:
            told = str(error)
        assert told.isprintable(), seed
        assert len(told) < 1500, seed
        assert "vl-assay-upload" not in told, seed
        memory = max(memory, peak(SANDBOX.pid))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024)
    assert grown < 200e6
    assert memory < 600e6
    return taken


def peak(pid):
    """The most memory that a process has had, where the system tells."""
    status = Path(f"/proc/{pid}/status") if pid else Path()
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.is_file() else None
    return 1024 * int(found[1]) if found else 0


@pytest.mark.parametrize("seeds", [range(150), pytest.param(range(1000, 11_000), marks=pytest.mark.slow)], ids=len)
def test_hostile_uploads_are_refused_and_harm_nothing(toy, seeds):
    taken = fuzz([toy.predictions(task) for task in TASKS], seeds)
    assert taken < len(seeds) / 3  # such as those with a flipped bit in a score
