"""From shard to shard: reading, resuming, parts of a run, damaged shards, and what cannot be opened."""

import io
import json
import os
import pickle
import sys
import tarfile
from functools import partial
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from console import invoke
from ray_support import import_ray, nodes_of_which_one_is_killed

from vl_assay.hub_datasets.corpora.candidates import candidate_step
from vl_assay.hub_datasets.corpora.shards import Step, find_shards, read_rows, run
from vl_assay.metrics.common.errors import DataError, StorageError, VLAssayError

CAPTIONS = ["A dog runs.", None, "two cats", "", "a dog runs"]


def copy(rows, counts):
    for text, _ in rows:
        counts["rows"] += 1
        yield {"text": text}


def fail(error, rows, counts):
    yield from copy(rows, counts)
    raise error


def die(rows, counts):
    os._exit(1)


def step(process=copy, seed=0, caption="caption"):
    return Step(process, pa.schema([("text", pa.string())]), {"seed": seed}, caption)


def send_this_module(monkeypatch):
    """Let Ray's workers have the functions of this module, which they cannot import."""
    import_ray(monkeypatch).cloudpickle.register_pickle_by_value(sys.modules[__name__])


def write_tar(path, captions, images=()):
    with fsspec.open(str(path), "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
        for number, caption in enumerate(captions):
            members = {"json": b"{}"}
            if caption is not None:
                members["txt"] = f"{caption}\n".encode()
            if number < len(images):
                members["JPG"] = images[number]
            for suffix, content in members.items():
                member = tarfile.TarInfo(f"part/{number:03d}.{suffix}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def write_parquet(path, captions, **columns):
    pq.write_table(pa.table({"caption": pa.array(captions, pa.string()), **columns}), path, row_group_size=2)


@pytest.fixture
def corpus(tmp_path):
    for number in range(4):
        write_parquet(tmp_path / f"corpus-{number}.parquet", [f"a dog and a cat {number}", *CAPTIONS])
    return f"{tmp_path}/corpus-*.parquet"


def contents(folder):
    """The outputs and the report of a run. What is being written when a node is lost stays as a hidden file."""
    files = [path for path in folder.rglob("[!.]*") if path.suffix in (".json", ".parquet")]
    return {path.name: path.read_bytes() for path in files}


def test_parquet_and_webdataset_give_the_same_rows_here_and_at_an_address(tmp_path):
    images = [b"one", b"two", None, None, None]
    write_parquet(tmp_path / "a.parquet", CAPTIONS, picture=pa.array([image and {"bytes": image} for image in images]))
    write_tar("memory://corpus/b.tar", CAPTIONS, images[:2])
    here, there = find_shards([str(tmp_path), "memory://corpus/*.tar"])
    assert (here, there) == (str(tmp_path / "a.parquet"), "memory:///corpus/b.tar")
    fs = fsspec.filesystem("memory")
    for image, expected in (("picture", images), (None, [None] * 5)):
        rows = [*read_rows(here, "caption", image)]
        assert rows == [*read_rows(there, "caption", image)] == [*zip(CAPTIONS, expected, strict=True)]
    fs.rm("/corpus", recursive=True)


def test_a_finished_shard_is_kept_until_it_or_the_settings_change(corpus, tmp_path):
    def kept(*args, pattern=corpus):
        return [outcome.is_kept for outcome in run(find_shards([pattern]), step(*args), tmp_path / "out")]

    assert kept() == [False] * 4
    assert kept() == [True] * 4
    write_parquet(tmp_path / "corpus-1.parquet", ["another"], other=["a column"])
    assert kept() == [True, False, True, True]
    [*_, last] = (tmp_path / "out" / "shards").iterdir()
    os.truncate(last, last.stat().st_size - 5)
    assert sorted(kept()) == [False, True, True, True]
    pq.write_table(pa.table({"text": ["another program's"]}), last)
    assert sorted(kept()) == [False, True, True, True]
    assert kept(copy, 1) == [False] * 4
    assert kept(copy, 1, "other", pattern=f"{tmp_path}/corpus-1.parquet") == [False]


def test_processes_give_what_one_process_gives(corpus, tmp_path):
    for workers in (1, 2):
        outcomes = run(find_shards([corpus]), step(), tmp_path / f"{workers}", workers=workers)
        assert sorted(outcome.shard for outcome in outcomes) == sorted(find_shards([corpus]))
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_the_step_that_makes_candidates_can_be_sent_to_processes():
    made = candidate_step(["swap_obj"], "caption")
    assert pickle.loads(pickle.dumps(made)).settings == made.settings


def test_parts_give_what_one_run_gives(corpus, tmp_path):
    command = ["corpus", "generate", corpus, "--kind", "swap_obj", "--out"]
    for part, done in {"2/3": 1, "1/3": 2, "3/3": 1, "5/5": 0}.items():
        result = invoke(*command, tmp_path / "parts", "--shard", part)
        assert f"{done} shards done" in result.output, result.output
        assert not (tmp_path / "parts" / "candidates.json").exists()
    assert "0 shards done, 4 were done before" in invoke(*command, tmp_path / "parts").output
    assert "4 shards done" in invoke(*command, tmp_path / "whole").output
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert len(contents(tmp_path / "parts")) == 5


def test_options_that_cannot_be_used_are_refused(corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for words, message in {
        ("--engine", "spark"): "unknown engine 'spark'; known: ray",
        ("--engine", "ray"): "pip install 'vl-assay[ray]'",
        ("--engine", "ray", "--workers", "2"): "not --workers 2; give one of them",
        ("--column", "text=title"): "unknown column 'text'",
    }.items():
        result = invoke("corpus", "generate", corpus, "--out", tmp_path / "out", *words)
        assert isinstance(result.exception, VLAssayError)
        assert message in str(result.exception)


@pytest.mark.slow
@pytest.mark.parametrize("on_ray", [False, True])
def test_a_process_that_dies_is_reported_with_advice(on_ray, corpus, tmp_path, monkeypatch):
    if on_ray:
        send_this_module(monkeypatch)
    with pytest.raises(DataError, match=r"run the same command again|Ray failed: .*Finished work is kept"):
        list(run(find_shards([corpus]), step(die), tmp_path / "out", workers=2, on_ray=on_ray))


@pytest.mark.slow
def test_a_ray_cluster_that_loses_a_node_gives_what_one_process_gives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(60):
        write_parquet(tmp_path / f"corpus-{number}.parquet", [f"a dog and cat {number} {n}" for n in range(20_000)])
    shards = find_shards(["corpus-*.parquet"])  # paths from here
    send_this_module(monkeypatch)
    with nodes_of_which_one_is_killed(tmp_path / "ray", "*.parquet", monkeypatch):
        outcomes = list(run(shards, step(), Path("ray"), on_ray=True))
    assert sorted(outcome.shard for outcome in outcomes) == [*shards]
    list(run(shards, step(), tmp_path / "alone", workers=2))
    assert contents(tmp_path / "ray") == contents(tmp_path / "alone")
    assert len(shards) == 60


def test_damaged_shards_are_named_and_the_others_are_done(corpus, tmp_path):
    for name in ("header.tar", "cut.tar"):
        write_tar(tmp_path / name, CAPTIONS)
    content = bytearray((tmp_path / "header.tar").read_bytes())
    content[2048:2058] = b"\xff" * 10
    (tmp_path / "header.tar").write_bytes(content)
    os.truncate(tmp_path / "cut.tar", 3000)
    os.truncate(tmp_path / "corpus-2.parquet", 100)
    (tmp_path / "corpus-3.parquet").write_bytes(b"")
    write_parquet(tmp_path / "corpus-1.parquet", CAPTIONS)
    pq.write_table(pa.table({"title": ["x"]}), tmp_path / "corpus-4.parquet")
    pq.write_table(pa.table({"caption": [5]}), tmp_path / "corpus-5.parquet")
    write_parquet(tmp_path / "corpus-6.parquet", ["x" * ((1 << 20) + 1)])
    write_tar(tmp_path / "large.tar", ["x" * ((1 << 20) + 1)])
    result = invoke("corpus", "generate", corpus, f"{tmp_path}/*.tar", "--out", tmp_path / "out", width=200)
    assert result.exit_code == 1
    for name, reason in {
        "header.tar": "damaged at byte 2,048",
        "cut.tar": "unexpected end of data",
        "corpus-2.parquet": "Parquet",
        "corpus-3.parquet": "0 bytes",
        "corpus-4.parquet": "it has no column 'caption'; it has title. Name it with --column",
        "corpus-5.parquet": "a cell holds int, not text; name another column with --column",
        "corpus-6.parquet": "text of 1,048,577 bytes; 1,048,576 are allowed",
        "large.tar": "text of 1,048,578 bytes",
    }.items():
        [line] = [line for line in result.output.splitlines() if line.startswith(f"damaged: {tmp_path / name}: ")]
        assert reason in line
    record = json.loads((tmp_path / "out" / "candidates.json").read_text())
    assert (record["counts"]["captions"], len(record["damaged"])) == (7, 8)
    assert len([*(tmp_path / "out" / "shards").iterdir()]) == 2  # nothing half written


def test_a_row_that_breaks_a_step_is_named_and_a_full_disk_stops_the_run(corpus, tmp_path):
    def problems(error):
        return {outcome.problem for outcome in run(find_shards([corpus]), step(partial(fail, error)), tmp_path / "out")}

    assert problems(ZeroDivisionError("bad caption")) == {"ZeroDivisionError: bad caption"}
    with pytest.raises(StorageError, match="No space left"):
        problems(OSError(28, "No space left on device"))
    assert [*(tmp_path / "out" / "shards").iterdir()] == []


def test_shards_that_cannot_be_opened_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("caption")
    write_parquet(tmp_path / "00000.parquet", CAPTIONS)
    (tmp_path / "00000.tar").write_bytes(b"")
    for pattern, message in {
        str(tmp_path / "none.parquet"): "cannot open .*none.parquet",
        f"{tmp_path}/*.npz": "names no shards",
        str(tmp_path / "a.csv"): "a.csv names no shards",
        str(tmp_path): "has Parquet and tar shards, perhaps of the same rows",
        "hf://datasets/me/pairs/*.parquet": "cannot open hf://datasets/me/pairs",
        "nonsense://a.tar": "cannot open nonsense",
    }.items():
        with pytest.raises(DataError, match=message):
            find_shards([pattern])
