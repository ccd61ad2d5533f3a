"""Audits of every benchmark whose texts are there: a folder for each, and one table over all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common import documents
from ....metrics.common.errors import DataError, VLAssayError
from ....metrics.common.formatting import words
from ...core.benchmarks import Task, benchmark_names, get_benchmark
from ...core.build import MissingSourceError, sources_folder
from ...core.examples import load_examples
from ...core.repository import newest_build
from ...sources.network import without_network
from ..data.pairs import Pair, has_pairs, task_pairs
from .audit import audit, failures
from .report import accuracy, write_audit, write_report
from .summaries import verdict

SCHEMA = "vl-assay/audits"
VERSION = 1
SUMMARY_FILE = "audits"
_NO_PAIRS = "no pairs of a caption and a hard negative of one image"


class AuditOutcome(NamedTuple):
    """The audit of a benchmark, or of one of its tasks.

    Attributes:
        part: the benchmark, or ``benchmark/task`` where several tasks have pairs.
        record: the record of `audit`; None if the audit failed.
        problem: why the audit failed; empty if there is a record.
        is_damaged: whether it failed for another reason than missing sources or a benchmark without pairs.
    """

    part: str
    record: Mapping[str, Any] | None = None
    problem: str = ""
    is_damaged: bool = False


def audit_all(out: Path, *, data_dir: Path | None = None, **options: Any) -> Iterator[AuditOutcome]:
    """Audit the tasks of all benchmarks that are scored by default and have pairs, and write each to a folder of `out`.

    Nothing is downloaded: texts are generated, come with the package, or are in `data_dir`, in the cache of downloads
    or in the newest build in the cache. An error in one does not stop the others.

    Args:
        out: the folder; an audit is in the folder of its `AuditOutcome.part`.
        data_dir: the user's copies of the sources, see `sources_folder`.
        options: `confidence` and `seed` of `audit`.

    Raises:
        DataError: `data_dir` is not a folder.
        StorageError: a report could not be written.
    """
    for name in benchmark_names():
        folder = sources_folder(name, data_dir)
        tasks = [task for task in get_benchmark(name).tasks if task.by_default and has_pairs(task)]
        if not tasks:
            yield AuditOutcome(name, problem=_NO_PAIRS)
        for task in tasks:
            reference = f"{name}/{task.name}" if len(tasks) > 1 else name
            try:
                record = audit(read_here(name, task, folder), reference, **options)
            except (VLAssayError, OSError) as error:
                yield AuditOutcome(reference, problem=str(error), is_damaged=not isinstance(error, MissingSourceError))
            else:
                write_audit(record, out / reference)
                yield AuditOutcome(reference, record)


def read_here(name: str, task: Task, data_dir: Path | None) -> list[Pair]:
    """Read the pairs of a task from its sources without downloading, or else from its newest builds in the cache.

    Raises:
        DataError: neither the sources nor the builds are available; the message is about the sources.
    """
    try:
        with without_network():
            tasks = load_examples(f"{name}/{task.name}", data_dir=data_dir, needs_images=False)
    except DataError:
        split = get_benchmark(name).split_for(task)
        builds = [newest_build(name, config, split) for config in task.configs]
        if None in builds:
            raise
        tasks = [data for folder in builds for data in load_examples(str(folder), needs_images=False)]
    return [pair for data in tasks if data.task.name == task.name for pair in task_pairs(data)]


def write_summary(outcomes: Sequence[AuditOutcome], out: Path, max_blind_accuracy: float | None = None) -> list[Path]:
    """Write ``audits.json`` and ``audits.md`` into a folder; raises `StorageError`."""
    audits = []
    for reference, record, problem, _ in outcomes:
        entry: dict[str, Any] = {"part": reference}
        if record is None:
            audits.append(entry | {"problem": problem})
            continue
        entry["verdict"], entry["is_warning"] = verdict(record)
        if max_blind_accuracy is not None:
            entry["failures"] = failures(record, max_blind_accuracy)
        shown = ("kind", "accuracy", "accuracy_interval")
        scorers = {name: {key: scorer[key] for key in shown} for name, scorer in record["scorers"].items()}
        audits.append(entry | {"pairs": record["pairs"], "scorers": scorers})
    markdown = documents.to_markdown(summary_parts(outcomes), "Audits of the benchmarks")
    return write_report(out / SUMMARY_FILE, {"schema": SCHEMA, "version": VERSION, "audits": audits}, markdown)


def summary_parts(outcomes: Sequence[AuditOutcome]) -> list[documents.Part]:
    """Return the verdict on all, a line for each audit, and what was not audited, with the reason."""
    audited = {outcome.part: outcome.record for outcome in outcomes if outcome.record is not None}
    parts_of: dict[str, list[str]] = {}
    for reference, record, problem, _ in outcomes:
        if record is None:
            parts_of.setdefault(problem, []).append(reference)
    without_pairs = parts_of.pop(_NO_PAIRS, [])
    problems: list[documents.Part] = [f"{', '.join(of)} not audited: {problem}" for problem, of in parts_of.items()]
    problems += [f"{_NO_PAIRS}: {', '.join(without_pairs)}"] if without_pairs else []
    if not audited:
        return [documents.Verdict("No benchmark could be audited: no texts are here."), *problems]
    warned = [reference for reference, record in audited.items() if verdict(record)[1]]
    text = f"{len(warned)} of {len(audited)} audited parts give captions away without the image"
    table = documents.simple_table(
        ["benchmark", "pairs", "best rule, %", "best learned probe, %", "verdict"],
        [
            [reference, f"{record['pairs']:,}", _best(record, "rule"), _best(record, "probe"), verdict(record)[0]]
            for reference, record in audited.items()
        ],
        note="How often the positive caption of a pair is preferred without the image, over all pairs, with its "
        "interval; chance is 50. The verdict is about categories.",
    )
    return [documents.Verdict(": ".join(filter(None, [text, ", ".join(warned)])) + ".", bool(warned)), table, *problems]


def _best(record: Mapping[str, Any], kind: str) -> str:
    """Return the accuracy of the best scorer of a kind, and its name."""
    of_kind = ((name, scorer) for name, scorer in record["scorers"].items() if scorer["kind"] == kind)
    name, scorer = max(of_kind, key=lambda item: item[1]["accuracy"])
    return f"{words(name)} {accuracy(scorer)}"
