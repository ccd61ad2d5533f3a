"""Two models on the same task: for each score that is a mean over examples, the paired difference and its tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..metrics._storage import write_text
from ..metrics.aro import SYMMETRIC
from ..metrics.errors import SheetError
from ..metrics.inputs import option_names
from ..metrics.modules import load_metric
from ..metrics.paired import paired_difference
from ..metrics.ranking import HitRanks, credit_at, tied_at
from ..metrics.results import code_version, is_lower_better
from ..metrics.sheet_rows import AnswerRow, DetectionRow, RetrievalRow, Row
from ..metrics.sheets import Sheet, file_hash, read_sheet
from ..metrics.summary import category_rows
from ._benchmarks import get_task
from ._judging import DEFAULTS, RESAMPLES, _compute, check_options, metric_inputs

SCHEMA = "vl-assay/comparison"
VERSION = 1

_SAID = ("scores", "score", "boxes", "images")
# 2 MB of scores at a time, for a pool may have 125 million.
_BLOCK_SCORES = 2**18
_POWER = 0.8
_AVERAGE = "micro average"


@dataclass(frozen=True)
class Difference:
    """How much one score differs between two models.

    Args:
        metric, score: the metric's name, and the score's among those that it gives.
        lower_is_better: whether the model with the lower score is the better one, as in brittleness.
        ties: what a tie counts; None where there are none, as in answers.
        left_out: examples that both models scored and the metric does not count (symmetric relations).
        result: what ``metrics.paired.paired_difference`` returns, with ``tie_rate1`` and ``tie_rate2``, also in the
            categories. `accuracy1` and `accuracy2` are the two models' scores, `difference` is the first less the
            second, and `wins` are the examples on which the first model is the better one.
    """

    metric: str
    score: str
    lower_is_better: bool
    ties: str | None
    left_out: int
    result: dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """Two models on one task.

    Args:
        models: both models, as their sheets describe them.
        benchmark: the benchmark, as the first sheet describes it.
        sheets: name and SHA-256 of both files.
        unscored: examples that lack their image in either sheet, and are in no difference.
        options: level of the intervals, resamples, permutations, power and seed.
        differences: one for each score that is a mean over examples.
        not_compared: scores of the task that are none, such as macro F1.
    """

    models: list[dict[str, Any]]
    benchmark: dict[str, Any]
    sheets: list[dict[str, str]]
    unscored: int
    options: dict[str, Any]
    differences: list[Difference]
    not_compared: list[str]


class _Earned(NamedTuple):
    """What examples earned in a score, whether a tie decided it, and their clusters and categories."""

    credit: NDArray[np.float64]
    tied: NDArray[np.bool_]
    clusters: Sequence[int]
    categories: Sequence[Any] | None


def compare(
    sheet: str | Path,
    other: str | Path,
    *,
    ties: str | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    permutations: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare two models on the examples that both have scored.

    Args:
        sheet: the first model's score sheet.
        other: the second model's, of the same task and data.
        ties: what a tie counts: wrong, half or right; by default as each metric's paper has it.
        confidence, resamples, permutations, seed: see ``metrics.paired.paired_difference``.

    Returns:
        The differences, over all examples (micro) and by category, with intervals and tests that take the examples of
        one image together, and p-values corrected for the number of categories (Holm).

    Raises:
        SheetError: the sheets are of different tasks, data or examples, share no scored one, or have boxes, whose
            scores are no means over examples.
        UnknownNameError, ScoresError: an option's value does not exist.
    """
    check_options(ties=ties, confidence=confidence, resamples=resamples, seed=seed)
    paths = (Path(sheet), Path(other))
    first, second = (read_sheet(path) for path in paths)
    pairs = _pairs(first, second, paths)
    options = {"confidence": confidence, "resamples": resamples, "permutations": permutations, "seed": seed}
    options["power"] = _POWER
    differences, not_compared = [], []
    for metric, settings in get_task(first.benchmark, first.task).metrics.items():
        module: Any = load_metric(metric)
        counted = [pair for pair in pairs if not _is_symmetric(pair[0], metric, settings)]
        if not counted:
            raise SheetError(f"{paths[0]} holds nothing but symmetric relations, which {metric} does not count")
        policy = (ties or getattr(module, "ties", "wrong")) if "ties" in option_names(module.function) else None
        rows = zip(*counted, strict=True)
        one, two = (
            _earned(sheet_, side, metric, settings, policy) for sheet_, side in zip((first, second), rows, strict=True)
        )
        for name in one:
            result = _difference(name, one[name], two[name], options)
            left_out = len(pairs) - len(counted)
            differences.append(Difference(metric, name, is_lower_better(name), policy, left_out, result))
        not_compared += [name for name in getattr(module, "shown", ()) if name.isidentifier() and name not in one]
    return Comparison(
        models=[first.metadata["model"], second.metadata["model"]],
        benchmark=first.metadata["benchmark"],
        sheets=[{"file": path.name, "sha256": file_hash(path)} for path in paths],
        unscored=len(first.rows) - len(pairs),
        options=options,
        differences=differences,
        not_compared=not_compared,
    )


def _pairs(first: Sheet, second: Sheet, paths: tuple[Path, Path]) -> list[tuple[Row, Row]]:
    """The rows that both models scored, in the first sheet's order, after all checks."""
    tasks = [f"{sheet.benchmark} ({sheet.task})" for sheet in (first, second)]
    if tasks[0] != tasks[1] or first.kind != second.kind:
        raise SheetError(
            f"{paths[0]} is of {tasks[0]} and {paths[1]} of {tasks[1]}; compare two sheets of the same task"
        )
    kind = get_task(first.benchmark, first.task).kind
    if first.kind != kind:
        raise SheetError(f"{paths[0]} is a sheet of the kind {first.kind}, but {tasks[0]} is of the kind {kind}")
    if kind == DetectionRow.kind:
        raise SheetError(
            f"{paths[0]} and {paths[1]} hold boxes: average precision and recall over phrases are no means over "
            "examples, so that there is no paired difference; set them side by side with `vl-assay report`"
        )
    prints = [sheet.metadata["benchmark"].get("fingerprint") for sheet in (first, second)]
    if prints[0] != prints[1]:
        raise SheetError(
            f"{paths[0]} and {paths[1]} were scored on different data (fingerprints {prints[0]!s:.12} and "
            f"{prints[1]!s:.12}); score both models on the same build of the benchmark"
        )
    one, two = ({row.id: row for row in sheet.rows} for sheet in (first, second))
    for path, mine, others in ((paths[0], one, two), (paths[1], two, one)):
        alone = [name for name in mine if name not in others]
        if alone:
            raise SheetError(
                f"{len(alone):,} of the {len(mine):,} examples of {path} are not in the other sheet, such as "
                f"{alone[0]!r}; score both models on the same configurations"
            )
    pairs = [(row, two[name]) for name, row in one.items() if row.is_scored and two[name].is_scored]
    for row, partner in pairs:
        if _question(row) != _question(partner):
            raise SheetError(
                f"the example {row.id!r} is another in {paths[0]} than in {paths[1]} (its category, right answer or "
                "number of captions differs); score both models on the same build of the benchmark"
            )
    if not pairs:
        raise SheetError(f"{paths[0]} and {paths[1]} share no example that both scored; each lacks the other's images")
    return pairs


def _question(row: Row) -> dict[str, Any]:
    """What was asked of a model, but for the names of the images."""
    asked = {name: value for name, value in vars(row).items() if name not in _SAID}
    return {**asked, "images": len(row.images), "shape": np.shape(getattr(row, "scores", ()))}


def _is_symmetric(row: Row, metric: str, settings: Mapping[str, Any]) -> bool:
    """Whether both captions of an example are true, so that its metric leaves it out."""
    return metric == "aro_itm" and settings.get("task") == "relation" and row.category in SYMMETRIC


def _earned(
    sheet: Sheet, rows: Sequence[Any], metric: str, settings: Mapping[str, Any], ties: str | None
) -> dict[str, _Earned]:
    """What each example earned, by the score's name."""
    module: Any = load_metric(metric)
    columns, labels = metric_inputs(rows, getattr(module, "takes", None), metric)
    if isinstance(rows[0], RetrievalRow):
        scores, right = columns
        return _recalls(scores, right, settings.get("ks", (1, 5, 10)), ties or "wrong", labels["clusters"])
    known = {"clusters": labels["clusters"], "categories": labels["categories"]}
    if isinstance(rows[0], AnswerRow):
        credit = np.equal(*columns).astype(np.float64)
        return {"accuracy": _Earned(credit, np.zeros(len(rows), dtype=bool), **known)}
    # With each example a category of its own, a metric's categories are the examples.
    names = [str(number) for number in range(len(rows))]
    alone = [replace(row, category=name, tags=[]) for row, name in zip(rows, names, strict=True)]
    forms = {"forms": dict.fromkeys(names, "all")} if "forms" in option_names(module.function) else {}
    options = {**DEFAULTS, "ties": ties, "confidence": None}
    result = _compute(sheet, alone, {}, metric, {**settings, **forms}, options)
    parts = [result.scores["per_category"][name] for name in names]
    tied = np.array([part["tie_rate"] > 0 for part in parts])
    return {score: _Earned(np.array([part[score] for part in parts]), tied, **known) for score in result.shown}


def _recalls(
    scores: NDArray[Any], right: Sequence[Sequence[int]], ks: Sequence[int], ties: str, clusters: Sequence[int]
) -> dict[str, _Earned]:
    """Recall of each image's captions, and of each caption's images, in a pool that all share."""
    hits = np.zeros(scores.shape, dtype=bool)
    for number, columns in enumerate(right):
        hits[number, columns] = True
    # A caption belongs to the first image that it is true of; one without an image asks for nothing.
    asking = np.flatnonzero(hits.any(axis=0))
    owners = np.asarray(clusters)[hits.argmax(axis=0)[asking]]
    found = {}
    for name, ranks, queries, cluster in (
        ("text", _ranks(scores, hits), np.arange(len(scores)), clusters),
        ("image", _ranks(scores.T, hits.T), asking, owners.tolist()),
    ):
        for k in ks:
            credit, tied = credit_at(ranks, k, ties)[queries], tied_at(ranks, k)[queries]
            found[f"{name}_recall_at_{k}"] = _Earned(credit, tied, cluster, None)
    return found


def _ranks(scores: NDArray[Any], hits: NDArray[np.bool_]) -> HitRanks:
    """What stands above and beside the best right candidate of each row, without a copy of all scores."""
    step = max(1, _BLOCK_SCORES // scores.shape[1])
    counts = []
    for start in range(0, len(scores), step):
        block, right = scores[start : start + step], hits[start : start + step]
        best = np.where(right, block, -np.inf).max(axis=1, keepdims=True)
        beside = block == best
        counts.append([(block > best).sum(axis=1), (beside & ~right).sum(axis=1), (beside & right).sum(axis=1)])
    higher, wrong, alike = np.concatenate(counts, axis=1)
    return HitRanks(higher, wrong, alike, alike > 0)


def _difference(name: str, one: _Earned, two: _Earned, options: Mapping[str, Any]) -> dict[str, Any]:
    """The paired difference in a score, with the tie rates of both models, and wins counted for the better one."""
    result = paired_difference(one.credit, two.credit, categories=one.categories, clusters=one.clusters, **options)
    n = len(one.credit)
    parts = [(result, np.arange(n))]
    parts += [(result["per_category"][label], rows) for label, rows in category_rows(one.categories, n).items()]
    for part, rows in parts:
        part |= {"tie_rate1": float(one.tied[rows].mean()), "tie_rate2": float(two.tied[rows].mean())}
        if is_lower_better(name):
            part["wins"], part["losses"] = part["losses"], part["wins"]
    return result


def to_json(comparison: Comparison) -> str:
    """The comparison as JSON: `schema`, `version`, `code`, and the fields of `Comparison`."""
    document = {"schema": SCHEMA, "version": VERSION, "code": code_version(), **asdict(comparison)}
    return json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"


def to_markdown(comparison: Comparison) -> str:
    """The comparison as Markdown, a table for each score."""
    blocks = []
    for difference in comparison.differences:
        columns = ["", *_cells(difference.result)]
        table = ["| " + " | ".join(columns) + " |", "|---" + "|---:" * (len(columns) - 1) + "|"]
        for name, part in _lines(difference):
            cells = [name, *_cells(part).values()]
            table.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        note = _footnote(comparison, difference)
        blocks.append(f"### {_title(comparison, difference)}\n\n" + "\n".join(table) + f"\n\n{note}\n")
    return "\n".join(blocks)


def print_comparison(comparison: Comparison) -> None:
    """Print a table for each score to the terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    for difference in comparison.differences:
        title, note = escape(_title(comparison, difference)), escape(_footnote(comparison, difference))
        table = Table(title=title, caption=note, title_justify="left", caption_justify="left")
        for header in ("", "first\n%", "second\n%", "difference\ninterval", "p", "p\n(Holm)", "wins\nlosses"):
            table.add_column(header, justify="right" if header else "left", overflow="fold")
        for name, part in _lines(difference):
            if name == _AVERAGE:
                table.add_section()
            cells = _cells(part)
            stacked = [f"{cells['difference']}\n{cells['interval']}", cells["p"], cells["p (Holm)"]]
            stacked.append(f"{cells['wins']}\n{cells['losses']}")
            style = "bold" if name == _AVERAGE else None
            table.add_row(escape(name), cells["first, %"], cells["second, %"], *stacked, style=style)
        console.print(table)


def write_comparison(comparison: Comparison, out: str | Path) -> list[Path]:
    """Write ``comparison.json`` and ``comparison.md`` to a folder, each whole or not at all; the files' paths."""
    files = [Path(out) / "comparison.json", Path(out) / "comparison.md"]
    for file, text in zip(files, (to_json(comparison), to_markdown(comparison)), strict=True):
        write_text(file, text)
    return files


def _lines(difference: Difference) -> list[tuple[str, dict[str, Any]]]:
    """The categories and the micro average; a set of one category, or of none, has one line."""
    parts = list(difference.result["per_category"].items())
    if len(parts) == 1:
        return parts
    return [*parts, (_AVERAGE if parts else "all", difference.result)]


def _cells(part: Mapping[str, Any]) -> dict[str, str]:
    """The cells of a line by their column, but for its name."""
    low, high = part["difference_interval"]
    least = part["smallest_detectable_difference"]
    return {
        "first, %": f"{100 * part['accuracy1']:.1f}",
        "second, %": f"{100 * part['accuracy2']:.1f}",
        "difference": f"{100 * part['difference']:+.1f}",
        "interval": f"{100 * low:+.1f} – {100 * high:+.1f}",
        "p": _p_value(part["permutation_p_value"]),
        "p (Holm)": _p_value(part.get("p_value_holm")),
        "p (McNemar)": _p_value(part["mcnemar_p_value"]),
        "detectable": "" if least is None else f"{100 * least:.1f}",
        "wins": f"{part['wins']:,}",
        "losses": f"{part['losses']:,}",
        "ties of first, %": f"{100 * part['tie_rate1']:.1f}",
        "ties of second, %": f"{100 * part['tie_rate2']:.1f}",
        "n": f"{part['n']:,}",
    }


def _title(comparison: Comparison, difference: Difference) -> str:
    first, second = (model["name"] for model in comparison.models)
    task = f"{comparison.benchmark['name']} ({comparison.benchmark['task']})"
    lower = ", lower is better" if difference.lower_is_better else ""
    return f"{first} and {second} on {task}: {difference.score.replace('_', ' ')} ({difference.metric}{lower})"


def _footnote(comparison: Comparison, difference: Difference) -> str:
    """How the numbers were made and what is not in them."""
    cells, options = _cells(difference.result), comparison.options
    text = (
        f"Difference: first less second, in points; intervals {100 * options['confidence']:g} %, bootstrap over "
        "images; p by exchanging the models on whole images, then corrected for the number of categories (Holm)."
    )
    if cells["p (McNemar)"]:
        text += f" Over all {cells['n']} examples McNemar's p is {cells['p (McNemar)']}."
    if cells["detectable"]:
        text += f" A true difference of {cells['detectable']} points would be found in four of five cases."
    if difference.ties:
        text += (
            f" Ties count as {difference.ties}; they decide {cells['ties of first, %']} % for the first model and "
            f"{cells['ties of second, %']} % for the second."
        )
    if comparison.unscored:
        text += f" {comparison.unscored:,} examples lack their image in a sheet and are in no score."
    if difference.left_out:
        text += f" {difference.left_out:,} examples of symmetric relations are in no score."
    if comparison.not_compared:
        text += f" Not compared, being no mean over examples: {', '.join(comparison.not_compared)}."
    return text


def _p_value(value: float | None) -> str:
    return "" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
