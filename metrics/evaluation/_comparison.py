"""Two or more models on the same examples: the paired difference of every score with its tests, as a `Comparison`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..common.documents import INTERVAL, Cell, Column, Document, Part, Table, TableRow, Verdict, bullets
from ..common.errors import PredictionsError
from ..common.formatting import distinct_labels, interval, p_value, percent, points, words
from ..common.storage import write_text
from ..estimation.differences import differences
from ..estimation.paired import PERMUTATIONS, POWER, Resampling, holm
from ..modules.discovery import get_spec
from ..records.agreement import agreement
from ..records.predictions import Predictions, file_hash, prediction_files, read_predictions
from ..records.results import to_json
from ..records.schema import DetectionRow, Row
from ._compute import (
    RESAMPLES,
    Parts,
    check_options,
    cluster_numbers,
    declared_metrics,
    no_parts,
    pooled_examples,
    tie_policy,
)
from ._seeds import data_variant
from ._tables import ALL, CATEGORIES, MACRO, MICRO

if TYPE_CHECKING:
    import pandas

VERSION = 2

_COMPACT = ("first, %", "second, %", "difference", "p", "p (Holm)")
_BOTH = "wins/ losses"
# Of fewer images the test may find a difference by chance in up to nine of twenty cases instead of one.
_FEW_FOR_EXCHANGE = 100
_NESTED = (CATEGORIES, "macro", "difference_interval")
# What differs between models in rows of the same example.
_PREDICTED = ("scores", "score", "boxes", "images")


@dataclass(frozen=True)
class Difference:
    """The difference of one score between two models on one task.

    Args:
        benchmark, task: what they were evaluated on.
        models: the labels of both.
        metric, score: the names of the metric and of the score.
        higher_is_better: whether the better model has the higher score.
        is_main: whether it is the metric's main score.
        ties: the tie policy; None for metrics without ties.
        left_out: the number of examples that both models scored and the metric leaves out, by reason.
        unscored: the number of examples without image in some file, which are in no difference.
        seeds: the number of versions of the data, such as seeds of its builder, that are averaged.
        unused: the number of files in no difference of the task: the other model has no file of their data, or fewer
            runs on it.
        partial: whether the predictions are of a part of the task (``--limit``).
        agreement: the fields of `Agreement`, with the main score of a task of matching or vqa.
        result: what ``differences.differences`` returns: `difference` is the first minus the second; `wins` are the
            examples on which the first model is better.
    """

    benchmark: str
    task: str
    models: tuple[str, str]
    metric: str
    score: str
    higher_is_better: bool
    is_main: bool
    ties: str | None
    left_out: dict[str, int]
    unscored: int
    seeds: int
    result: dict[str, Any]
    unused: int = 0
    partial: bool = False
    agreement: dict[str, Any] | None = None

    @property
    def where(self) -> str:
        """The task in words."""
        return f"{self.benchmark} ({self.task})"


@dataclass(frozen=True, repr=False)
class Comparison(Document):
    """Two or more models, pair by pair.

    Args:
        models: their labels, in the order of the files.
        files: name and SHA-256 of each file, by the model's label.
        options: level of the intervals, power and seed; resamples and permutations as asked for, of which a
            difference's result has those that were drawn.
        differences: one for each task, pair of models, metric and score.
    """

    models: list[str]
    files: dict[str, list[dict[str, str]]]
    options: dict[str, Any]
    differences: list[Difference]

    @property
    def verdicts(self) -> list[str]:
        """A sentence for each task and pair of models, on the main score of the task's first metric."""
        tested = self._tested()
        return [_sentence(each, p, self.options["confidence"], len(tested)) for each, p in tested]

    @property
    def verdict(self) -> str:
        """The outcome in one sentence."""
        verdicts = self.verdicts
        if len(verdicts) == 1:
            return verdicts[0]
        wins = [_winner(each, p, self.options["confidence"]) for each, p in self._tested()]
        counts = [f"{name} in {wins.count(name)}" for name in self.models if name in wins]
        better = f"Better, of {len(wins)} comparisons: {', '.join(counts)}" if counts else "No model is better"
        return f"{better}; no evidence of a difference in {wins.count(None)}."

    def __repr__(self) -> str:
        return "\n".join(["Comparison:", *(f"  {verdict}" for verdict in self.verdicts)])

    def to_pandas(self) -> pandas.DataFrame:
        """Every number of the tables, a row for each difference and category; fractions, NaN where unknown."""
        import pandas

        lines = []
        for each in self.differences:
            about = {"benchmark": each.benchmark, "task": each.task, "first": each.models[0], "second": each.models[1]}
            about |= {"metric": each.metric, "score": each.score, "higher_is_better": each.higher_is_better}
            for name, part in _lines(each):
                low, high = part["difference_interval"] or (None, None)
                facts = {key: value for key, value in part.items() if key not in _NESTED}
                lines.append({**about, "category": name, **facts, "low": low, "high": high})
        return pandas.DataFrame(lines)

    def document(self) -> list[Part]:
        """The verdicts, and a table for each score."""
        verdicts = self.verdicts if len(self.verdicts) > 1 else []
        return [Verdict(self.verdict), *bullets(verdicts), *(_table(each, self.options) for each in self.differences)]

    def to_json(self) -> str:
        """The comparison as JSON: `schema`, `version`, `code`, `verdict`, and the fields of `Comparison`."""
        names = ("verdict", "verdicts", "models", "files", "options")
        differences = [asdict(each) for each in self.differences]
        return to_json("comparison", VERSION, differences=differences, **{name: getattr(self, name) for name in names})

    def write(self, out: str | Path) -> list[Path]:
        """Write ``comparison.json`` and ``comparison.md`` to a folder, each whole or not at all; the files' paths."""
        files = [Path(out) / "comparison.json", Path(out) / "comparison.md"]
        for file, text in zip(files, (self.to_json(), self.to_markdown()), strict=True):
            write_text(file, text)
        return files

    def _tested(self) -> list[tuple[Difference, float]]:
        """The main score of the first metric of each task and pair, with p-values corrected for their number (Holm)."""
        found: dict[tuple[Any, ...], Difference] = {}
        for each in self.differences:
            if each.is_main:
                found.setdefault((each.benchmark, each.task, each.models), each)
        p_values = holm([each.result["permutation_p_value"] for each in found.values()])
        return list(zip(found.values(), p_values.tolist(), strict=True))


def compare(
    *predictions: str | Path,
    parts: Parts = no_parts,
    ties: str | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Comparison:
    """Compare two or more models on the examples that they have in common.

    Args:
        predictions: files of predictions, or folders of them, of two or more models. Several files of one model and
            task are averaged: over versions of the data (seeds of a builder), and over runs of the model on one.
        parts: finds further tasks in the predictions of a file, which are compared as well; by default none.
        ties: the tie policy; by default, and for metrics that do not know it, that of each metric's paper.
        confidence, resamples, permutations, seed: see ``paired.Resampling``.

    Returns:
        The differences of every pair of models in every task that both were evaluated on, over all examples, as macro
        averages and by category, with intervals and tests clustered by image.

    Raises:
        PredictionsError: fewer than two models, no task in common, or files of one task with other data or examples.
        UnknownNameError, ScoresError: an option's value does not exist.
    """
    check_options(ties=ties, confidence=confidence, resamples=resamples, seed=seed)
    how = Resampling(confidence, resamples, permutations, POWER, seed)
    models = _models([Path(path) for path in predictions], parts)
    found = [
        each
        for first, second in combinations(models, 2)
        for task, files in models[first].items()
        if task in models[second]
        for each in _compare_task(files, models[second][task], (first, second), ties, how)
    ]
    if not found:
        described = (
            f"{label}: {', '.join(f'{name} ({task}, {task_type})' for name, task, task_type in tasks)}"
            for label, tasks in models.items()
        )
        raise PredictionsError(
            f"no two models were evaluated on the same task ({'; '.join(described)}); compare predictions of the same "
            "task"
        )
    paths = {label: dict.fromkeys(path for path, _ in chain(*tasks.values())) for label, tasks in models.items()}
    files = {label: [{"file": path.name, "sha256": file_hash(path)} for path in own] for label, own in paths.items()}
    return Comparison(list(models), files, how._asdict(), found)


class _File(NamedTuple):
    path: Path
    predictions: Predictions

    @property
    def data(self) -> dict[str, Any]:
        return self.predictions.metadata["benchmark"]


# The files of a task, by its benchmark, name and type.
_Tasks = dict[tuple[str, str, str], list[_File]]
# The runs of the first and of the second model on one version of the data, equally many.
_Runs = tuple[list[_File], list[_File]]


def _models(paths: Sequence[Path], parts: Parts) -> dict[str, _Tasks]:
    """The files of each model, by its label and task; a file of several tasks is with each."""
    read = [(_File(file, read_predictions(file)), n) for n, path in enumerate(paths) for file in prediction_files(path)]
    identities = [json.dumps(file.predictions.metadata["model"], sort_keys=True) for file, _ in read]
    if len(set(identities)) == 1:  # a model with itself: each argument is a model
        identities = [f"{identity} {argument}" for identity, (_, argument) in zip(identities, read, strict=True)]
    groups: dict[str, dict[Path, _File]] = {}
    for identity, (file, _) in zip(identities, read, strict=True):
        groups.setdefault(identity, {}).setdefault(file.path.resolve(), file)
    if len(groups) < 2:
        raise PredictionsError(f"got predictions of {len(groups)} model; name those of two or more")
    models = [list(files.values()) for files in groups.values()]
    found: dict[str, _Tasks] = {}
    labels = distinct_labels([files[0].predictions.metadata["model"] for files in models])
    for label, files in zip(labels, models, strict=True):
        tasks = found.setdefault(label, {})
        for file in files:
            for each in (file.predictions, *parts(file.predictions)):
                tasks.setdefault((each.benchmark, each.task, each.task_type), []).append(_File(file.path, each))
    return found


def _compare_task(
    first: list[_File], second: list[_File], labels: tuple[str, str], ties: str | None, how: Resampling
) -> Iterator[Difference]:
    """The differences of one task, versions of the data that differ in their seed averaged; see `_compare_versions`."""
    versions = _versions(first, second)
    used = sum(len(one) + len(two) for one, two in versions)
    variants: dict[str, list[_Runs]] = {}
    for version in versions:
        variants.setdefault(data_variant(version[0][0].data), []).append(version)
    for same in variants.values():
        leader = same[0][0][0]
        task, configs = leader.predictions.task, leader.data.get("configs")
        if len(variants) > 1 and configs:
            task += f": {', '.join(map(str, configs))}"
        for difference in _compare_versions(same, labels, ties, how):
            yield replace(difference, task=task, unused=len(first) + len(second) - used)


def _compare_versions(
    versions: list[_Runs], labels: tuple[str, str], ties: str | None, how: Resampling
) -> Iterator[Difference]:
    """Yield the differences of each score, over versions of the data that differ in their seed."""
    runs = [_shared_rows(one, two) for one, two in versions]
    agreed = agreement([row for each in runs for row in each[0][0]], [row for each in runs for row in each[1][0]])
    rows = [row for each in runs for row in each[0][0]]
    clusters = np.array(cluster_numbers(rows))
    predictions = versions[0][0][0].predictions
    for metric, settings in declared_metrics(predictions).items():
        spec = get_spec(metric)
        one, two = (
            pooled_examples([each[model] for each in runs], clusters, metric, [settings] * len(runs), ties)
            for model in (0, 1)
        )
        found = differences(one, two, how)
        main = spec.main_score if spec.main_score in found else spec.table_scores(list(found))[0]
        for name, result in found.items():
            score = spec.score(name)
            if score is not None and score.in_tables:
                if not score.higher_is_better:
                    for part in (result, *result[CATEGORIES].values()):
                        part["wins"], part["losses"] = part["losses"], part["wins"]
                yield Difference(
                    benchmark=predictions.benchmark,
                    task=predictions.task,
                    models=labels,
                    metric=metric,
                    score=name,
                    higher_is_better=score.higher_is_better,
                    is_main=name == main,
                    ties=tie_policy(spec, ties),
                    left_out=dict(Counter(two.left_out.values())),
                    unscored=sum(len(files[0].predictions.rows) for files, _ in versions) - len(rows),
                    seeds=len(versions),
                    result=result,
                    partial=bool(versions[0][0][0].data.get("limit")),
                    agreement=agreed._asdict() if agreed and name == main else None,
                )


def _versions(first: list[_File], second: list[_File]) -> list[_Runs]:
    """The runs of both models on each version of the data that both have."""
    one: dict[Any, list[_File]] = {}
    two: dict[Any, list[_File]] = {}
    for files, by_data in ((first, one), (second, two)):
        for file in files:
            by_data.setdefault(file.data.get("fingerprint"), []).append(file)
    # Equally many runs of both: a mean of several has less spread than one, so exchanging them would not be fair.
    shared = [(runs[: len(two[data])], two[data][: len(runs)]) for data, runs in one.items() if data in two]
    if not shared:
        raise PredictionsError(
            f"{first[0].path} and {second[0].path} are of different data (fingerprints {next(iter(one))!s:.12} and "
            f"{next(iter(two))!s:.12}); evaluate both models on the same build of the benchmark"
        )
    return shared


def _shared_rows(first: list[_File], second: list[_File]) -> tuple[list[list[Row]], list[list[Row]]]:
    """The rows of each run that all runs of both models scored, in the first file's order."""
    leader = first[0]
    runs = [{row.id: row for row in file.predictions.rows} for file in (*first, *second)]
    for file, rows in zip((*first, *second), runs, strict=True):
        for mine, others, path in ((runs[0], rows, leader.path), (rows, runs[0], file.path)):
            alone = [name for name in mine if name not in others]
            if alone:
                raise PredictionsError(
                    f"{len(alone):,} of the {len(mine):,} examples of {path} are not in the other file, such as "
                    f"{alone[0]!r}; evaluate both models on the same configurations"
                )
    kept = [name for name in runs[0] if all(rows[name].is_scored for rows in runs)]
    for file, rows in zip((*first, *second), runs, strict=True):
        for name in kept:
            if _question(runs[0][name]) != _question(rows[name]):
                raise PredictionsError(
                    f"the example {name!r} differs between {leader.path} and {file.path} (in category, label or number "
                    "of captions); evaluate both models on the same build of the benchmark"
                )
    kept_names = set(kept)
    broken = {row.pair for row in runs[0].values() if isinstance(row, DetectionRow) and row.id not in kept_names}
    kept = [name for name in kept if getattr(runs[0][name], "pair", None) not in broken]
    if not kept:
        raise PredictionsError(
            f"{first[0].path} and {second[0].path} share no example that both scored; each lacks the other's images"
        )
    chosen = [[rows[name] for name in kept] for rows in runs]
    return chosen[: len(first)], chosen[len(first) :]


def _question(row: Row) -> dict[str, Any]:
    """A row without what the model predicted and without the keys of its images."""
    asked = {name: value for name, value in vars(row).items() if name not in _PREDICTED}
    shape = () if isinstance(row, DetectionRow) else np.shape(getattr(row, "scores", ()))
    return {**asked, "images": len(row.images), "shape": shape}


def _winner(difference: Difference, p: float, confidence: float) -> str | None:
    """The label of the better model; None without evidence of a difference."""
    gap = difference.result["difference"]
    if p > 1 - confidence or not gap:
        return None
    return difference.models[0 if (gap > 0) == difference.higher_is_better else 1]


def _sentence(difference: Difference, p: float, confidence: float, tests: int) -> str:
    """Return the verdict; its difference is the better model's score minus the other's.

    The p-value is corrected for the number of `tests`, which the sentence tells if there are several.
    """
    result, (first, second) = difference.result, difference.models
    gap, bounds = result["difference"], result["difference_interval"] or ()
    winner, where = _winner(difference, p, confidence), f"{difference.where}: {words(difference.score)}"
    if winner is None:
        lower = "" if difference.higher_is_better else " (lower is better)"
        text = (
            f"No evidence of a difference between {first} and {second} on {where}{lower} {points(gap)} points "
            f"({first} minus {second})"
        )
        limits = [points(bound) for bound in bounds]
    else:
        text = (
            f"{winner} is better than {second if winner == first else first} on {where} "
            f"{'higher' if difference.higher_is_better else 'lower'} by {percent(abs(gap))} points"
        )
        limits = [percent(bound) for bound in (bounds if gap > 0 else [-bound for bound in reversed(bounds)])]
    interval_ = f", {100 * confidence:g} % [{', '.join(limits)}]" if limits else ""
    shown = p_value(p)
    text += f"{interval_}, p {shown if shown.startswith('<') else f'= {shown}'}"
    text += f" (Holm, {tests:,} comparisons)" if tests > 1 else ""
    least = result["smallest_detectable_difference"]
    return text + ("." if least is None else f"; smallest detectable {percent(least)}.")


def _lines(difference: Difference) -> list[tuple[str, dict[str, Any]]]:
    """The categories and the averages over them; with a single category, or none, one line."""
    parts = list(difference.result["per_category"].items())
    if len(parts) == 1:
        return parts
    macro = difference.result.get("macro")
    averages = [(MICRO if parts else ALL, difference.result), *([(MACRO, macro)] if macro else [])]
    return [*parts, *averages]


def _table(difference: Difference, options: dict[str, Any]) -> Table:
    """The table of a difference; a terminal shows the columns that the verdict rests on."""
    lines = [(name, _cells(part)) for name, part in _lines(difference)]
    lower = "" if difference.higher_is_better else ", lower is better"
    models = " and ".join(difference.models)
    title = f"{models} on {difference.where}: {words(difference.score)} ({difference.metric}{lower})"
    table = Table(title, (), (), _footnote(difference, options))

    def shown(columns: Mapping[str, str]) -> Table:
        """The table with some of the cells, and their headers."""
        chosen = (Column(header, (INTERVAL,) if name == "difference" else ()) for name, header in columns.items())
        rows = (TableRow(line, tuple(cells[name] for name in columns), line in (MICRO, MACRO)) for line, cells in lines)
        return replace(table, columns=tuple(chosen), rows=tuple(rows))

    compact = shown({name: name.removesuffix(", %") for name in (*_COMPACT, _BOTH)})
    return replace(shown({name: name for name in lines[0][1] if name != _BOTH}), compact=compact)


def _cells(part: dict[str, Any]) -> dict[str, Cell]:
    """The cells of a line by their column."""
    least = part["smallest_detectable_difference"]
    texts = {
        "first, %": percent(part["score1"]),
        "second, %": percent(part["score2"]),
        "difference": points(part["difference"]),
        "p": p_value(part["permutation_p_value"]),
        "p (Holm)": p_value(part.get("p_value_holm")),
        "p (McNemar)": p_value(part["mcnemar_p_value"]),
        "detectable": "" if least is None else percent(least),
        "wins": "" if part["wins"] is None else f"{part['wins']:,}",
        "losses": "" if part["losses"] is None else f"{part['losses']:,}",
        "ties of first, %": percent(part["tie_rate1"]),
        "ties of second, %": percent(part["tie_rate2"]),
        "n": f"{part['n']:,}",
    }
    texts[_BOTH] = "/".join(filter(None, (texts["wins"], texts["losses"])))
    bounds = interval(part["difference_interval"], signed=True)
    return {name: Cell(text, (bounds,) if name == "difference" else ()) for name, text in texts.items()}


def _footnote(difference: Difference, options: dict[str, Any]) -> str:
    """How the numbers were computed and what is not in them."""
    cells = {name: cell.value for name, cell in _cells(difference.result).items()}
    text = (
        f"Difference: first less second, in points; intervals {100 * options['confidence']:g} %, bootstrap over "
        f"images ({difference.result['resamples']:,} resamples); p by exchanging the models on whole images (at most "
        f"{difference.result['permutations']:,} times), then corrected for the number of categories (Holm)."
    )
    if difference.result["n_clusters"] < _FEW_FOR_EXCHANGE:
        text += (
            f" Of fewer than {_FEW_FOR_EXCHANGE} images p may be too small if one model is right or wrong on whole "
            "images and the other is not."
        )
    if cells["p (McNemar)"]:
        text += f" Over all {cells['n']} examples McNemar's p is {cells['p (McNemar)']}."
    if cells["detectable"]:
        text += f" A true difference of {cells['detectable']} points would be found in four of five cases."
    if difference.ties and difference.result["tie_rate1"] is not None:
        text += (
            f" Ties count as {difference.ties}; they decide {cells['ties of first, %']} % for the first model and "
            f"{cells['ties of second, %']} % for the second."
        )
    if difference.agreement:
        same, n, largest = difference.agreement.values()
        text += f" The models' scores give the same decisions on {percent(same)} % of {n:,} examples"
        text += "." if largest is None else f", and differ by at most {largest:.2g}."
    if difference.partial:
        text += " Partial: a part of the task's examples only (--limit)."
    if difference.seeds > 1:
        text += f" Means over {difference.seeds} versions of the data."
    if difference.unused:
        text += f" {difference.unused:,} files are in no difference: the other model has none to compare them with."
    if difference.unscored:
        text += f" {difference.unscored:,} examples lack their image in a file and are in no score."
    for why, count in difference.left_out.items():
        text += f" {count:,} examples are in no score: {why}."
    return text
