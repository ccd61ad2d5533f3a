"""Compare two or more models on the same examples: the paired difference of every score with its tests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..common.documents import INTERVAL, Cell, Column, Document, Part, Table, TableRow, Verdict, bullets
from ..common.errors import PredictionsError
from ..common.formatting import distinct_labels, distinguished, interval, p_value, percent, points, words
from ..common.storage import write_text
from ..estimation.aggregate import RESAMPLES
from ..estimation.differences import differences
from ..estimation.paired import PERMUTATIONS, POWER, Resampling
from ..modules.discovery import get_spec
from ..records.agreement import agreement
from ..records.predictions import Predictions, file_hash, prediction_files, read_predictions
from ..records.results import to_json
from ..records.schema import DetectionRow, Row
from .compute import Parts, check_options, cluster_numbers, declared_metrics, examples_of, no_parts, tie_policy
from .scores import ALL, CATEGORIES, MACRO, MICRO, data_facts

VERSION = 3

# With fewer images the test may find a difference by chance in up to nine of twenty cases instead of one.
_FEW_FOR_EXCHANGE = 100
_NESTED = (CATEGORIES, "macro", "difference_interval")
# The fields in which rows of the same example differ between models.
_PREDICTED = ("scores", "score", "boxes", "images")
# The most categories that a verdict names.
_MOST_NAMED = 3


@dataclass(frozen=True)
class Difference:
    """The difference of one score between two models on one task.

    Args:
        benchmark, task: the task.
        models: the labels of both.
        metric, score: the names of the metric and of the score.
        higher_is_better: whether the better model has the higher score.
        is_main: whether it is the metric's main score.
        ties: the tie policy; None for metrics without ties.
        left_out: the number of examples that both models scored and the metric leaves out, by reason.
        unscored: the number of examples without image in some file, which are in no difference.
        unused: the number of files in no difference of the task: the other model has no file of their data, or they
            repeat a run on it.
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
    result: dict[str, Any]
    unused: int = 0
    partial: bool = False
    agreement: dict[str, Any] | None = None

    @property
    def where(self) -> str:
        """The task as text."""
        return f"{self.benchmark} ({self.task})"

    @property
    def lines(self) -> list[tuple[str, dict[str, Any]]]:
        """The categories and the averages over them by name; a single category has no averages."""
        categories = list(self.result[CATEGORIES].items())
        if len(categories) == 1:
            return categories
        macro = self.result.get("macro")
        averages = [(MICRO if categories else ALL, self.result), *([(MACRO, macro)] if macro else [])]
        return [*categories, *averages]

    def winner(self, numbers: dict[str, Any], level: float) -> str:
        """Return the label of the model that is significantly better over all examples or in a category, or ""."""
        gap = numbers["difference"]
        if not gap or significance(numbers) > level:
            return ""
        return self.models[0 if (gap > 0) == self.higher_is_better else 1]


def significance(numbers: dict[str, Any]) -> float:
    """Return the p-value that decides on significance; of a category the p-value corrected for multiple tests."""
    return numbers.get("p_value_holm", numbers["permutation_p_value"])


@dataclass(frozen=True, repr=False)
class Comparison(Document):
    """Two or more models, pair by pair.

    Args:
        models: their labels, in the order of the files.
        files: name and SHA-256 of each file, by the model's label.
        options: level of the intervals, power and seed; resamples and permutations as requested, of which a
            difference's result has the numbers that were drawn.
        differences: one for each task, pair of models, metric and score.
    """

    models: list[str]
    files: dict[str, list[dict[str, str]]]
    options: dict[str, Any]
    differences: list[Difference]

    @property
    def verdicts(self) -> list[str]:
        """A sentence for each task and pair of models, on the main score of the task's first metric."""
        return [_sentence(difference, self.options["confidence"]) for difference in self._main_differences()]

    @property
    def verdict(self) -> str:
        """The conclusion in one sentence."""
        verdicts = self.verdicts
        if len(verdicts) == 1:
            return verdicts[0]
        level = 1 - self.options["confidence"]
        winners = [difference.winner(difference.result, level) for difference in self._main_differences()]
        counts = [f"{name} in {winners.count(name)}" for name in self.models if name in winners]
        better = f"Better, of {len(winners)} comparisons: {', '.join(counts)}" if counts else "No model is better"
        return f"{better}; no evidence of a difference in {winners.count('')}."

    def __repr__(self) -> str:
        return "\n".join(["Comparison:", *(f"  {verdict}" for verdict in self.verdicts)])

    def data(self) -> list[dict[str, Any]]:
        """One record for each difference and category: every number of the tables, as fractions."""
        records = []
        for difference in self.differences:
            names = ("benchmark", "task", "metric", "score", "higher_is_better")
            facts = {"first": difference.models[0], "second": difference.models[1]}
            facts |= {name: getattr(difference, name) for name in names}
            for category, difference_of_category in difference.lines:
                low, high = difference_of_category["difference_interval"] or (None, None)
                flat = {key: number for key, number in difference_of_category.items() if key not in _NESTED}
                records.append({**facts, "category": category, **flat, "low": low, "high": high})
        return records

    def parts(self) -> list[Part]:
        """Return the verdicts, and a table for each score."""
        verdicts = self.verdicts if len(self.verdicts) > 1 else []
        tables = (_table(difference, self.options) for difference in self.differences)
        return [Verdict(self.verdict), *bullets(verdicts), *tables]

    def to_json(self) -> str:
        """Return the comparison as JSON: `schema`, `version`, `code`, `verdict`, and the fields of `Comparison`."""
        names = ("verdict", "verdicts", "models", "files", "options")
        differences = [asdict(difference) for difference in self.differences]
        return to_json("comparison", VERSION, differences=differences, **{name: getattr(self, name) for name in names})

    def write(self, out: str | Path) -> list[Path]:
        """Write ``comparison.json`` and ``comparison.md`` to a folder atomically, and return their paths."""
        files = [Path(out) / "comparison.json", Path(out) / "comparison.md"]
        for file, text in zip(files, (self.to_json(), self.to_markdown()), strict=True):
            write_text(file, text)
        return files

    def _main_differences(self) -> list[Difference]:
        """Return the main score of the first metric of each task and pair."""
        first: dict[tuple[Any, ...], Difference] = {}
        for difference in self.differences:
            if difference.is_main:
                first.setdefault((difference.benchmark, difference.task, difference.models), difference)
        return list(first.values())


def compare(
    *predictions: str | Path,
    parts: Parts = no_parts,
    ties: str | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Comparison:
    """Compare two or more models on their common examples.

    Args:
        predictions: files of predictions, or folders of them, of two or more models. Versions of a task's data, such
            as seeds of its builder, are compared one by one.
        parts: finds further tasks in the predictions of a file, which are compared as well; by default none.
        ties: the tie policy; by default, and for metrics that do not know it, each metric's paper decides.
        confidence, resamples, permutations, seed: see ``paired.Resampling``.

    Returns:
        The differences of every pair of models in every task that both were evaluated on, over all examples, as macro
        averages and by category, with intervals and tests clustered by image. Each pair, task and score is tested by
        itself; only p-values of categories are corrected, for the number of categories.

    Raises:
        PredictionsError: fewer than two models, no task in common, or files of one task with other data or examples.
        UnknownNameError, ScoresError: an option's value does not exist.
    """
    check_options(ties=ties, confidence=confidence, resamples=resamples, seed=seed)
    resampling = Resampling(confidence, resamples, permutations, POWER, seed)
    models = _models([Path(path) for path in predictions], parts)
    comparisons = [
        difference
        for first, second in combinations(models, 2)
        for task, files in models[first].items()
        if task in models[second]
        for difference in _compare_task(files, models[second][task], (first, second), ties, resampling)
    ]
    if not comparisons:
        described = (
            f"{label}: {', '.join(f'{name} ({task}, {task_type})' for name, task, task_type in tasks)}"
            for label, tasks in models.items()
        )
        raise PredictionsError(
            f"no two models were evaluated on the same task ({'; '.join(described)}); compare predictions of the same "
            "task"
        )
    files = {
        label: [
            {"file": path.name, "sha256": file_hash(path)}
            for path in dict.fromkeys(file.path for of_task in tasks.values() for file in of_task)
        ]
        for label, tasks in models.items()
    }
    return Comparison(list(models), files, resampling._asdict(), comparisons)


class _File(NamedTuple):
    path: Path
    predictions: Predictions

    @property
    def data(self) -> dict[str, Any]:
        return self.predictions.metadata["benchmark"]


# The files of a task, by its benchmark, name and type.
_Tasks = dict[tuple[str, str, str], list[_File]]


def _models(paths: Sequence[Path], parts: Parts) -> dict[str, _Tasks]:
    """Return the files of each model, by its label and task; a file of several tasks belongs to each."""
    files = [
        (_File(file, read_predictions(file)), n) for n, path in enumerate(paths) for file in prediction_files(path)
    ]
    identities = [json.dumps(file.predictions.metadata["model"], sort_keys=True) for file, _ in files]
    if len(set(identities)) == 1:  # a model compared with itself: each argument is a model
        identities = [f"{identity} {argument}" for identity, (_, argument) in zip(identities, files, strict=True)]
    by_model: dict[str, dict[Path, _File]] = {}
    for identity, (file, _) in zip(identities, files, strict=True):
        by_model.setdefault(identity, {}).setdefault(file.path.resolve(), file)
    if len(by_model) < 2:
        raise PredictionsError(f"got predictions of {len(by_model)} model; name those of two or more")
    models = [list(of_model.values()) for of_model in by_model.values()]
    tasks: dict[str, _Tasks] = {}
    labels = distinct_labels([of_model[0].predictions.metadata["model"] for of_model in models])
    for label, of_model in zip(labels, models, strict=True):
        by_task = tasks.setdefault(label, {})
        for file in of_model:
            for task in (file.predictions, *parts(file.predictions)):
                by_task.setdefault((task.benchmark, task.task, task.task_type), []).append(_File(file.path, task))
    return tasks


def _compare_task(
    first: list[_File], second: list[_File], labels: tuple[str, str], ties: str | None, resampling: Resampling
) -> Iterator[Difference]:
    """Yield the differences of one task, for each version of the data that both models have."""
    first_files, second_files = (
        {file.data.get("fingerprint"): file for file in reversed(files)} for files in (first, second)
    )
    shared = [data for data in dict.fromkeys(file.data.get("fingerprint") for file in first) if data in second_files]
    if not shared:
        prints = " and ".join(f"{files[0].data.get('fingerprint')!s:.12}" for files in (first, second))
        raise PredictionsError(
            f"{first[0].path} and {second[0].path} are of different data (fingerprints {prints}); evaluate both models "
            "on the same build of the benchmark"
        )
    unused = len(first) + len(second) - 2 * len(shared)
    for data, facts in zip(shared, distinguished([data_facts(first_files[data].data) for data in shared]), strict=True):
        for difference in _compare_files(first_files[data], second_files[data], labels, ties, resampling):
            task = f"{difference.task}: {facts}" if facts else difference.task
            yield replace(difference, task=task, unused=unused)


def _compare_files(
    first: _File, second: _File, labels: tuple[str, str], ties: str | None, resampling: Resampling
) -> Iterator[Difference]:
    """Yield the differences of each score on the same data."""
    rows, second_rows = _shared_rows(first, second)
    agreed = agreement(rows, second_rows)
    clusters = cluster_numbers(rows)
    for metric, settings in declared_metrics(first.predictions).items():
        spec = get_spec(metric)
        first_examples, second_examples = (
            examples_of(side, metric, settings, ties=ties, clusters=clusters) for side in (rows, second_rows)
        )
        results = differences(first_examples, second_examples, resampling)
        main = spec.main_score if spec.main_score in results else spec.table_scores(list(results))[0]
        for name, result in results.items():
            score = spec.score(name)
            if score is None or not score.in_tables:
                continue
            if not score.higher_is_better:
                for numbers in (result, *result[CATEGORIES].values()):
                    numbers["wins"], numbers["losses"] = numbers["losses"], numbers["wins"]
            yield Difference(
                benchmark=first.predictions.benchmark,
                task=first.predictions.task,
                models=labels,
                metric=metric,
                score=name,
                higher_is_better=score.higher_is_better,
                is_main=name == main,
                ties=tie_policy(spec, ties),
                left_out=dict(Counter(second_examples.left_out.values())),
                unscored=len(first.predictions.rows) - len(rows),
                result=result,
                partial=bool(first.data.get("limit")),
                agreement=agreed._asdict() if agreed and name == main else None,
            )


def _shared_rows(first: _File, second: _File) -> tuple[list[Row], list[Row]]:
    """Return the rows that both models scored, in the first file's order."""
    first_rows, second_rows = ({row.id: row for row in file.predictions.rows} for file in (first, second))
    for ids, other_ids, file in ((first_rows, second_rows, first), (second_rows, first_rows, second)):
        if alone := [id for id in ids if id not in other_ids]:
            raise PredictionsError(
                f"{len(alone):,} of the {len(ids):,} examples of {file.path} are not in the other file, such as "
                f"{alone[0]!r}; evaluate both models on the same configurations"
            )
    scored = {id: None for id in first_rows if first_rows[id].is_scored and second_rows[id].is_scored}
    for id in scored:
        if _question(first_rows[id]) != _question(second_rows[id]):
            raise PredictionsError(
                f"the example {id!r} differs between {first.path} and {second.path} (in category, label or number "
                "of captions); evaluate both models on the same build of the benchmark"
            )
    broken = {row.pair for row in first_rows.values() if isinstance(row, DetectionRow) and row.id not in scored}
    ids = [id for id in scored if getattr(first_rows[id], "pair", None) not in broken]
    if not ids:
        raise PredictionsError(
            f"{first.path} and {second.path} share no example that both scored; each lacks the other's images"
        )
    return [first_rows[id] for id in ids], [second_rows[id] for id in ids]


def _question(row: Row) -> dict[str, Any]:
    """Return a row without predictions and image keys, but with the numbers of images and of scores."""
    fields = {name: value for name, value in vars(row).items() if name not in _PREDICTED}
    shape = () if isinstance(row, DetectionRow) else np.shape(getattr(row, "scores", ()))
    return {**fields, "images": len(row.images), "shape": shape}


def _sentence(difference: Difference, confidence: float) -> str:
    """Return the verdict on a score: over all examples with interval and p-value, then the significant categories.

    Differences are the better model's score minus the other's.
    """
    result, (first, second), level = difference.result, difference.models, 1 - confidence
    gap, bounds = result["difference"], result["difference_interval"] or ()
    winner = difference.winner(result, level)
    score = f"{difference.where}: {words(difference.score)}"
    by_category = list(_category_sentences(difference, level))
    if winner:
        loser = second if winner == first else first
        direction = "higher" if difference.higher_is_better else "lower"
        text = f"{winner} is better than {loser} on {score} {direction} by {percent(abs(gap))} points"
        limits = [percent(bound) for bound in (bounds if gap > 0 else [-bound for bound in reversed(bounds)])]
    else:
        lower = "" if difference.higher_is_better else " (lower is better)"
        overall = " overall" if by_category else ""
        text = f"No evidence of a difference{overall} between {first} and {second} on {score}{lower} "
        text += f"{points(gap)} points ({first} minus {second})"
        limits = [points(bound) for bound in bounds]
    text += f", {100 * confidence:g} % [{', '.join(limits)}]" if limits else ""
    p = p_value(significance(result))
    text += f", p {p if p.startswith('<') else f'= {p}'}"
    least = result["smallest_detectable_difference"]
    text += "" if least is None else f"; smallest detectable {percent(least)}"
    return ". ".join([text, *by_category]) + "."


def _category_sentences(difference: Difference, level: float) -> Iterator[str]:
    """Yield for each model the categories in which it is significantly better, the largest differences first."""
    categories = difference.result[CATEGORIES]
    for model in difference.models if len(categories) > 1 else ():
        better = {
            name: category["difference"]
            for name, category in categories.items()
            if difference.winner(category, level) == model
        }
        names = sorted(better, key=lambda name: -abs(better[name]))
        sign = "+" if difference.higher_is_better else "−"
        listed = ", ".join(f"{name} ({sign}{percent(abs(better[name]))})" for name in names[:_MOST_NAMED])
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        if names:
            yield f"By category {model} is better in {listed}{more}"


def _table(difference: Difference, options: dict[str, Any]) -> Table:
    """Return the table of a difference; a terminal shows the columns that the verdict rests on."""
    first, second = difference.models
    shown = {f"{first}, %": "score1", f"{second}, %": "score2", "difference": "difference", "p": "p"}
    columns = shown | {
        "detectable": "smallest_detectable_difference",
        f"{first} better": "wins",
        f"{second} better": "losses",
        f"ties of {first}, %": "tie_rate1",
        f"ties of {second}, %": "tie_rate2",
        "n": "n",
    }
    lower = "" if difference.higher_is_better else ", lower is better"
    title = f"{first} and {second} on {difference.where}: {words(difference.score)} ({difference.metric}{lower})"
    lines = [(name, _cells(numbers)) for name, numbers in difference.lines]

    def table(headers: dict[str, str]) -> Table:
        rows = (
            TableRow(name, tuple(cells[key] for key in headers.values()), name in (MICRO, MACRO))
            for name, cells in lines
        )
        shown = (Column(header, (INTERVAL,) if key == "difference" else ()) for header, key in headers.items())
        return Table(title, tuple(shown), tuple(rows), _footnote(difference, options))

    return replace(table(columns), compact=table(shown | {"better": "better"}))


def _cells(numbers: dict[str, Any]) -> dict[str, Cell]:
    """Return the cells of a line by the key of their value."""
    counts = {name: "" if numbers[name] is None else f"{numbers[name]:,}" for name in ("wins", "losses")}
    rates = ("score1", "score2", "tie_rate1", "tie_rate2")
    least = numbers["smallest_detectable_difference"]
    texts = {name: percent(numbers[name]) for name in rates} | counts
    texts |= {"smallest_detectable_difference": "" if least is None else percent(least), "n": f"{numbers['n']:,}"}
    texts |= {"p": p_value(significance(numbers)), "better": " : ".join(filter(None, counts.values()))}
    gap = Cell(points(numbers["difference"]), (interval(numbers["difference_interval"], signed=True),))
    return {name: Cell(text) for name, text in texts.items()} | {"difference": gap}


def _footnote(difference: Difference, options: dict[str, Any]) -> str:
    """Return how the numbers were computed and what they leave out."""
    result, (first, second) = difference.result, difference.models
    text = (
        f"Difference: {first} minus {second}, in points; intervals {100 * options['confidence']:g} %, bootstrap over "
        f"images ({result['resamples']:,} resamples). p: exchanging the models on whole images (at most "
        f"{result['permutations']:,} times)"
    )
    text += ", in categories corrected for their number (Holm)." if len(result[CATEGORIES]) > 1 else "."
    if result["wins"] is not None:
        text += f" Better: the examples on which {first} : {second} has the better score."
    if result["n_clusters"] < _FEW_FOR_EXCHANGE:
        text += (
            f" With fewer than {_FEW_FOR_EXCHANGE} images p may be too small if one model is right or wrong on whole "
            "images and the other is not."
        )
    if (least := result["smallest_detectable_difference"]) is not None:
        text += f" A true difference of {percent(least)} points would be found in four of five cases."
    if difference.ties and result["tie_rate1"] is not None:
        text += (
            f" Ties count as {difference.ties}; they decide {percent(result['tie_rate1'])} % for {first} and "
            f"{percent(result['tie_rate2'])} % for {second}."
        )
    if difference.agreement:
        same, n, largest = difference.agreement.values()
        text += f" The models' scores give the same decisions on {percent(same)} % of {n:,} examples"
        text += "." if largest is None else f", and differ by at most {largest:.2g}."
    if difference.partial:
        text += " Partial: a part of the task's examples only (--limit)."
    if difference.unused:
        text += f" {difference.unused:,} files are in no difference: the other model lacks their data, or they repeat "
        text += "a run."
    if difference.unscored:
        text += f" {difference.unscored:,} examples lack their image in a file and are in no score."
    for reason, count in difference.left_out.items():
        text += f" {count:,} examples are in no score: {reason}."
    return text
