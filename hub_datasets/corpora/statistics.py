"""Statistics of the captions of a corpus: lengths, words, typing, and captions that recur.

The output of a shard has the number of each caption and of each word, by its key. Keys are evenly distributed, so that
outputs are partitioned by ranges of keys on the disk and merged a partition at a time, in bounded memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...metrics.common.documents import HtmlFigure, Part, Verdict, simple_table
from ...metrics.common.figures import COLOURS, Sample, histogram_html
from ...metrics.common.formatting import percent
from ...metrics.common.wording import words
from ...metrics.records.schema import caption_key
from .running import ShardOutcome, Step, total_counts
from .shards import ROWS_AT_ONCE, Batch

# Captions, or rows of outputs, that are held at once.
_AT_ONCE = 1 << 16
# The merge holds the keys of one partition; there are up to 512, so that it holds more of more than 3·10⁷ rows.
_KEYS_PER_PARTITION = 1 << 16
_MOST_BITS = 9
_KEY_BITS = 48
_LONGEST = 200
_SHOWN = 20
_QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class CaptionStatistics(Step):
    """The step: numbers of captions and words by key; and counts of rows, of lengths in words, and of typing."""

    caption: str = "caption"

    @property
    def columns(self) -> dict[str, str]:
        """The captions."""
        return {"caption": self.caption}

    def schema(self) -> Any:
        """A caption has its text only where it recurs in the shard."""
        import pyarrow as pa

        return pa.schema([("kind", pa.string()), ("key", pa.uint64()), ("text", pa.string()), ("count", pa.uint64())])

    def run(self, batches: Iterator[Batch], counts: Counter[str]) -> Iterator[Mapping[str, Any]]:
        """See `Step`."""
        from ..authoring.audit.features import formatting

        captions = _captions(batches, counts)
        while part := list(islice(captions, _AT_ONCE)):
            vocabulary: Counter[str] = Counter()
            keys = np.empty(len(part), np.uint64)
            for number, caption in enumerate(part):
                found = words(caption)
                counts[f"length {min(len(found), _LONGEST)}"] += 1
                vocabulary.update(found)
                keys[number] = int(caption_key(caption), 16)
            for start in range(0, len(part), ROWS_AT_ONCE):
                measured = formatting(part[start : start + ROWS_AT_ONCE])
                for name, total in zip(measured.names, np.asarray(measured.values.sum(axis=0)).ravel(), strict=True):
                    counts[f"typing {name}"] += total.item()
            distinct, first, repeats = np.unique(keys, return_index=True, return_counts=True)
            texts = [part[at] if many > 1 else None for at, many in zip(first, repeats, strict=True)]
            yield _columns("caption", distinct, texts, repeats)
            named = sorted((int(caption_key(word), 16), word) for word in vocabulary)
            texts = [word for _, word in named]
            yield _columns("word", [key for key, _ in named], texts, [vocabulary[word] for word in texts])


def _captions(batches: Iterator[Batch], counts: Counter[str]) -> Iterator[str]:
    for batch in batches:
        for caption in batch.texts["caption"]:
            kind = "without a caption" if caption is None else "captions" if caption.strip() else "empty captions"
            counts[kind] += 1
            if caption is not None and kind == "captions":
                yield caption


def _columns(kind: str, keys: Any, texts: Sequence[str | None], counts: Any) -> dict[str, Any]:
    return {"kind": [kind] * len(texts), "key": np.asarray(keys, np.uint64), "text": texts, "count": counts}


def merge(outcomes: Sequence[ShardOutcome]) -> dict[str, Any]:
    """The statistics of all shards, from their outputs.

    Returns:
        `rows`; `captions`, those that have text; `empty` and `without`, rows with an empty caption and with none;
        `distinct`, captions that differ in their words in lower case (by `caption_key`, whose 48 bits take about
        2,000 of 10⁹ captions for others); `lengths`, captions by number of words, `_LONGEST` or more together;
        `quantiles` of these; `vocabulary`, distinct words, and `once`, those that occur once; `typing`, means over the
        captions of the features of an audit; `common`, the most frequent captions and words with their numbers.
    """
    counts = total_counts(outcomes)
    whole = counts["captions"]
    lengths = np.array([counts[f"length {words}"] for words in range(_LONGEST + 1)])
    reached = np.cumsum(lengths) / max(whole, 1)
    keyed = _merge_keys([outcome.file for outcome in outcomes if not outcome.problem])
    typing = {name.removeprefix("typing "): total / whole for name, total in counts.items() if name[:7] == "typing "}
    return {
        "rows": whole + counts["empty captions"] + counts["without a caption"],
        "captions": whole,
        "empty": counts["empty captions"],
        "without": counts["without a caption"],
        "distinct": keyed["caption"]["distinct"],
        "lengths": {int(words): int(lengths[words]) for words in np.flatnonzero(lengths)},
        "mean_length": float(lengths @ np.arange(_LONGEST + 1)) / max(whole, 1),
        "quantiles": {str(share): int(np.searchsorted(reached, share)) for share in _QUANTILES},
        "vocabulary": keyed["word"]["distinct"],
        "once": keyed["word"]["once"],
        "typing": typing,
        "common": {kind: keyed[kind]["common"] for kind in keyed},
    }


def _merge_keys(files: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """For captions and words, how many differ, how many occur once, and the most frequent."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: dict[str, dict[str, Any]] = {kind: {"distinct": 0, "once": 0, "common": []} for kind in ("caption", "word")}
    if not files:
        return found
    with TemporaryDirectory(prefix=".merge", dir=files[0].parent) as folder:
        for part in _partitions(files, Path(folder)):
            with pa.memory_map(str(part)) as source:
                rows = pa.ipc.open_stream(source).read_all()
            totals = rows.group_by(["kind", "key"], use_threads=False).aggregate([("count", "sum"), ("text", "max")])
            for kind, own in found.items():
                _add(own, totals.filter(pc.field("kind") == kind))
    return found


def _add(own: dict[str, Any], totals: Any) -> None:
    """Add the totals of a partition to those of its kind."""
    sums = totals["count_sum"].to_numpy().astype(np.int64)
    own["distinct"] += len(sums)
    own["once"] += int((sums == 1).sum())
    first = [row for row in np.argsort(-sums, kind="stable")[:_SHOWN].tolist() if sums[row] > 1]
    own["common"] += [[totals["text_max"][row].as_py(), int(sums[row])] for row in first]
    own["common"] = sorted(own["common"], key=lambda each: (-each[1], each[0] or ""))[:_SHOWN]


def _partitions(files: Sequence[Path], folder: Path) -> list[Path]:
    """Files of Arrow with the rows of all outputs, each with those of a range of keys; outputs are read once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = sum(pq.read_metadata(file).num_rows for file in files)
    bits = min(max(rows // _KEYS_PER_PARTITION, 1).bit_length(), _MOST_BITS)
    paths = [folder / f"{number}.arrow" for number in range(2**bits)]
    with ExitStack() as stack:
        schema = pq.read_schema(files[0]).remove_metadata()
        writers = [stack.enter_context(pa.ipc.new_stream(str(path), schema)) for path in paths]
        for table in _tables(files):
            numbers = table["key"].to_numpy() >> np.uint64(_KEY_BITS - bits)
            order = np.argsort(numbers, kind="stable")
            borders = np.searchsorted(numbers[order], np.arange(2**bits + 1, dtype=np.uint64)).tolist()
            ordered = table.take(order)
            for writer, (start, end) in zip(writers, pairwise(borders), strict=True):
                if end > start:
                    writer.write_table(ordered.slice(start, end - start))
    return paths


def _tables(files: Sequence[Path]) -> Iterator[Any]:
    """The rows of the outputs in tables of about `_AT_ONCE`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    waiting, rows = [], 0
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(_AT_ONCE, use_threads=False):
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= _AT_ONCE:
                yield pa.Table.from_batches(waiting).combine_chunks()
                waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()


def report_parts(record: Mapping[str, Any]) -> list[Part]:
    """The statistics as a document, its verdict first."""
    captions, rows = record["captions"], record["rows"]
    repeated = 1 - record["distinct"] / captions if captions else float("nan")
    quantiles = ", ".join(f"{100 * float(share):g} % have at most {n}" for share, n in record["quantiles"].items())
    figures = [
        ("rows", rows, rows),
        ("with a caption", captions, rows),
        ("with an empty caption", record["empty"], rows),
        ("without a caption", record["without"], rows),
        ("distinct captions", record["distinct"], captions),
        ("distinct words", record["vocabulary"], None),
        ("of which occur once", record["once"], record["vocabulary"]),
    ]
    return [
        Verdict(
            f"{captions:,} captions of {record['mean_length']:.1f} words on average; {percent(repeated)} % repeat the "
            "words of another one."
        ),
        simple_table(
            ["what", "number", "%"],
            [(name, f"{n:,}", percent(n / of) if of else "") for name, n, of in figures],
            numbers=True,
            note=f"Lengths in words: {quantiles}. Captions are the same if their words are, in lower case.",
        ),
        HtmlFigure(_figure(record["lengths"]), title="Lengths in words"),
        simple_table(
            ["feature", "mean"],
            [(name, f"{mean:.3f}") for name, mean in record["typing"].items()],
            title="Typing",
            numbers=True,
            note="Means over captions of the features with which `vl-assay audit` tells typing apart.",
        ),
        *(
            simple_table(
                [kind, "number"],
                [(text or "–", f"{n:,}") for text, n in rows],
                title=f"Most frequent {kind}s",
                numbers=True,
            )
            for kind, rows in record["common"].items()
            if rows
        ),
    ]


def _figure(lengths: Mapping[int, int]) -> str:
    numbers = np.array([*lengths], np.float64)
    sample = Sample(numbers, COLOURS[0], COLOURS[0], np.array([*lengths.values()], np.int64))
    edges = np.arange(-0.5, numbers.max(initial=1) + 1, dtype=np.float64)
    return histogram_html("captions by their number of words", [sample], edges)
