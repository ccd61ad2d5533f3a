"""Correlate scores over models, such as recognition with composition: `correlate` returns a `Correlation`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..common.documents import (
    INTERVAL,
    Cell,
    Column,
    Document,
    Markdown,
    Part,
    Table,
    TableRow,
    Verdict,
    in_a_line,
    to_markdown,
)
from ..common.errors import DataError, PredictionsError, UnknownNameError, check_known
from ..common.figures import as_file, colours
from ..common.formatting import MISSING, distinct_labels, interval, p_value, percent, words
from ..common.model_sizes import NOT_STATED, parameter_count, size_class
from ..common.storage import write_atomically, write_text
from ..common.user_files import read_values
from ..estimation.bootstrap import cluster_counts, percentile_interval
from ..estimation.correlation import FEWEST, FEWEST_WITH_INTERVAL, correlation
from ..estimation.spec import Examples
from ..records.predictions import prediction_files, read_predictions
from ..records.results import Result
from ..records.schema import Row
from .compute import Parts, check_options, cluster_numbers, declared_metrics, evaluate, no_parts, scored_rows
from .pairs import base_score, is_costly
from .scores import partial_sentence, task_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Scores such as average precision are computed anew for each resample, so they get fewer.
RESAMPLES, COSTLY_RESAMPLES = 1_000, 200
KINDS = {"pearson": "Pearson's r", "spearman": "Spearman's ρ", "kendall": "Kendall's τ"}
_MOST_FACT_BYTES = 4 << 20
_INTERVALS_NOTE = (
    "{} intervals. Over models: models and images are resampled, each independently: would other models like these, on "
    "other images, show it? These models: images alone are resampled, the same for all models. p: of Spearman's ρ over "
    "orders of the models. Models of one family or of the same training data are no independent sample: both are then "
    "too sure."
)
_FEW_MODELS_NOTE = (
    f" Fewer than {FEWEST} models have no correlation (of three, one order in three rises or falls throughout), and "
    f"fewer than {FEWEST_WITH_INTERVAL} no interval: most resamples of four models hold three or fewer different ones."
)

Floats = NDArray[np.float64]
# Finds a benchmark's main scores by its name: task, metric, and name or pattern of the score.
MainScores = Callable[[str], Sequence[tuple[str, str, str]]]
# The other columns of a table of facts by the name of the model.
Facts = Mapping[str, Mapping[str, str]]


class ScoreName(NamedTuple):
    """A score of a task: over all examples, as macro average (``macro_…``), or of a category.

    `correlate` fills empty fields: the benchmark's main task, its main score, the metric that has the score.
    """

    benchmark: str
    task: str = ""
    metric: str = ""
    score: str = ""
    category: str = ""

    @classmethod
    def parse(cls, text: str) -> ScoreName:
        """Parse ``BENCHMARK[/TASK][:[CATEGORY/]SCORE]``.

        >>> ScoreName.parse("sugarcrepe/itm:swap_obj/accuracy")[1:]
        ('itm', '', 'accuracy', 'swap_obj')
        """
        where, colon, score = text.strip().partition(":")
        benchmark, _, task = where.partition("/")
        category, _, name = score.rpartition("/")
        if not benchmark or (colon and not name) or "/" in task:
            raise UnknownNameError("score", text, ["BENCHMARK", "BENCHMARK/TASK", "BENCHMARK/TASK:[CATEGORY/]SCORE"])
        return cls(benchmark, task, "", name, category)

    def __str__(self) -> str:
        where = f"{self.benchmark} ({self.task})" if self.task else self.benchmark
        return " ".join(filter(None, (where, words(self.category), words(self.score))))


class Value(NamedTuple):
    """A score of a model with its interval over examples; None if resamples do not spread."""

    value: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Point:
    """A model with its group (empty without groups), the score across and the scores up; baselines do not count."""

    model: str
    group: str
    values: tuple[Value, ...]
    is_baseline: bool = False


class Coefficients(NamedTuple):
    """The correlations of a score up with the score across, as returned by ``estimation.correlation.correlation``.

    An empty group stands for all models.
    """

    up: ScoreName
    group: str
    result: dict[str, Any]


@dataclass(frozen=True, repr=False)
class Correlation(Document):
    """Scores of models, and how they correlate.

    Args:
        across: the score of the horizontal axis.
        up: the scores of the vertical axis, each correlated with `across`.
        points: the models that have all scores; baselines are shown but not in the correlations.
        coefficients: for each score up over all models, then within each group.
        by: the property that groups the models; empty without groups.
        left_out: by model, the scores that it lacks.
        notes: sentences on the data.
        options: confidence, resamples and seed.
    """

    across: ScoreName
    up: list[ScoreName]
    points: list[Point]
    coefficients: list[Coefficients]
    by: str
    left_out: dict[str, str]
    notes: list[str]
    options: dict[str, Any]

    @property
    def verdicts(self) -> list[str]:
        """A sentence for each score up, over all models."""
        return [self._sentence(pair) for pair in self.coefficients if not pair.group]

    @property
    def verdict(self) -> str:
        """The conclusion in one sentence."""
        if len(self.up) == 1:
            return self.verdicts[0]
        over_all = [pair for pair in self.coefficients if not pair.group]
        rising = [str(pair.up) for pair in over_all if self._direction(pair.result) == 1]
        names = f": {', '.join(rising)}" if rising else ""
        n = over_all[0].result["n"]
        return f"{len(rising)} of {len(over_all)} scores rise with {self.across} over {n} models{names}."

    def __repr__(self) -> str:
        return "\n".join(["Correlation:", *(f"  {verdict}" for verdict in self.verdicts)])

    def data(self) -> list[dict[str, Any]]:
        """One record for each model: its group, and each score with its interval, as fractions; None if unknown."""
        records = []
        for point in self.points:
            record: dict[str, Any] = {"model": point.model, self.by or "group": point.group}
            record["baseline"] = int(point.is_baseline)
            for name, score in zip((self.across, *self.up), point.values, strict=True):
                low, high = score.interval or (None, None)
                record |= {str(name): score.value, f"{name} low": low, f"{name} high": high}
            records.append(record)
        return records

    def parts(self) -> list[Part]:
        """Return the verdicts, the models with their scores, and the correlations."""
        verdicts = [Verdict(verdict) for verdict in self.verdicts if len(self.up) > 1]
        return [Verdict(self.verdict), *verdicts, self._models_table(), self._correlations_table()]

    def plot(self) -> Figure:
        """Plot the models as labelled points with both intervals; colours are groups, or the scores up."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 5.5), layout="constrained")
        self.draw(figure)
        return figure

    def draw(self, figure: Figure) -> None:
        """Draw `plot` in a figure."""
        axes = figure.subplots()
        several = len(self.up) > 1
        series = [
            (str(up) if several else point.group, point, point.values[0], score)
            for point in self.points
            for up, score in zip(self.up, point.values[1:], strict=True)
        ]
        colour = colours([name for name, *_ in series])
        for name, point, x, y in series:
            style = {"color": colour[name], "marker": "s" if point.is_baseline else "o", "linestyle": "none"}
            errors = {"xerr": _whisker(x), "yerr": _whisker(y), "elinewidth": 0.8, "alpha": 0.85}
            axes.errorbar(100 * x.value, 100 * y.value, **style, **errors, label=name)
        for point in self.points:
            top = 100 * max(score.value for score in point.values[1:])
            position = (100 * point.values[0].value, top)
            axes.annotate(point.model, position, (4, 4), textcoords="offset points", fontsize=7)
        handles, labels = axes.get_legend_handles_labels()
        handle_of = dict(zip(reversed(labels), reversed(handles), strict=True))
        if any(colour):
            title = None if several else words(self.by)
            axes.legend([handle_of[name] for name in colour], [*colour], title=title, fontsize=7)
        tasks = {(up.benchmark, up.task) for up in self.up}
        up = " ".join(next(iter(tasks))) if several and len(tasks) == 1 else "scores" if several else str(self.up[0])
        axes.set(xlabel=f"{self.across}, %", ylabel=f"{up}, %")
        axes.spines[["top", "right"]].set_visible(False)

    def write(self, out: str | Path) -> list[Path]:
        """Write ``correlation.md``, ``.csv`` and ``.png`` to a folder, and return their paths.

        The figure needs matplotlib (the extra ``plots``); without it an earlier figure is removed.
        """
        page, table, picture = (Path(out) / f"correlation.{ending}" for ending in ("md", "csv", "png"))
        write_text(table, self.to_pandas().map(_cell_text).rename(columns=_cell_text).to_csv(index=False))
        figure: list[Part] = []
        try:
            write_atomically(picture, as_file(self.plot()))
            figure.append(Markdown(f"![{in_a_line(f'{self.across} and {self.up[0]}')}]({picture.name})"))
        except ModuleNotFoundError:
            picture.unlink(missing_ok=True)
        write_text(page, to_markdown([*self.parts(), *figure]))
        return [page, table, *[picture] * bool(figure)]

    def _models_table(self) -> Table:
        columns = [Column(str(name), (INTERVAL,)) for name in (self.across, *self.up)]
        columns += [Column(words(self.by), is_text=True)] if self.by else []
        rows = []
        for number, point in enumerate(self.points):
            cells = [Cell(percent(score.value), (interval(score.interval),)) for score in point.values]
            cells += [Cell(point.group)] * bool(self.by)
            is_first_baseline = point.is_baseline and number > 0 and not self.points[number - 1].is_baseline
            rows.append(TableRow(point.model, tuple(cells), starts_group=is_first_baseline))
        note = f"Scores in per cent with their {self._level} intervals (bootstrap over images)."
        if any(point.is_baseline for point in self.points):
            note += " Baselines come last and are in no correlation."
        note += "".join(f" Left out: {model}, which lacks {scores}." for model, scores in self.left_out.items())
        return Table("Models", tuple(columns), tuple(rows), " ".join([note, *self.notes]), corner="model")

    def _correlations_table(self) -> Table:
        rows = []
        for up, group, result in self.coefficients:
            names = [str(up)] * (len(self.up) > 1) + [group or "all models"] * (len(self.up) == 1 or bool(self.by))
            cells = []
            for kind in KINDS:
                bounds = (result[f"{kind}_interval"], result[f"{kind}_examples_interval"])
                cells.append(Cell(_number(result[kind]), tuple(map(_bounds, bounds))))
            cells += [Cell(p_value(result["p_value"]) or MISSING), Cell(str(result["n"]))]
            rows.append(TableRow(", ".join(names), tuple(cells)))
        kinds = [Column(name, ("over models", "these models")) for name in KINDS.values()]
        columns = (*kinds, Column("p (ρ)"), Column("models"))
        is_few = any(pair.result["n"] < FEWEST_WITH_INTERVAL for pair in self.coefficients)
        note = _INTERVALS_NOTE.format(self._level) + _FEW_MODELS_NOTE * is_few
        return Table(f"Correlation with {self.across}", columns, tuple(rows), note, has_details_below=True)

    @property
    def _level(self) -> str:
        return f"{100 * self.options['confidence']:g} %"

    def _direction(self, result: Mapping[str, Any]) -> int:
        """Return 1 if the scores significantly rise together, -1 if one falls as the other rises, 0 if neither."""
        bounds, p = result["spearman_interval"], result["p_value"]
        if bounds is None or p > 1 - self.options["confidence"] + 1e-12:
            return 0
        return 1 if bounds[0] > 0 else -1 if bounds[1] < 0 else 0

    def _sentence(self, pair: Coefficients) -> str:
        result, n = pair.result, pair.result["n"]
        both = f"{self.across} and {pair.up}"
        if result["spearman"] is None:
            why = f"a correlation takes {FEWEST} or more" if n < FEWEST else "all have the same value of a score"
            counted = f"{n} model{'s have' if n != 1 else ' has'} both scores"
            return f"These models cannot tell whether {both} rise together: {counted}, and {why}."
        numbers = f"Spearman's ρ {_number(result['spearman'])}"
        if result["spearman_interval"]:
            p = p_value(result["p_value"])
            numbers += f", {self._level} [{_bounds(result['spearman_interval']).replace(' – ', ', ')}]"
            numbers += f", p {p if p.startswith('<') else f'= {p}'}"
        else:
            numbers += f"; an interval takes {FEWEST_WITH_INTERVAL} models or more"
        direction = self._direction(result)
        if not direction:
            return f"These {n} models cannot tell whether {both} rise together: {numbers}."
        verb = "rise together" if direction > 0 else "oppose each other: one falls as the other rises,"
        return f"{both} {verb} over these {n} models: {numbers}."


class _Run(NamedTuple):
    """The result of a metric on a file of predictions, with its examples and a key for the row of each example."""

    result: Result
    examples: Examples
    keys: list[tuple[str, str]]

    def has(self, name: ScoreName) -> bool:
        """Return whether the run is of the score's task, and of its metric if the name has one."""
        is_task = name.benchmark == task_of(self.result)[0] and name.task in ("", task_of(self.result)[1])
        return is_task and name.metric in ("", self.result.metric)

    def value(self, name: ScoreName) -> Value | None:
        """Return a score with its interval; None if the run does not define it."""
        scores = self.result.scores
        scores = scores["per_category"].get(name.category, {}) if name.category else scores
        if not isinstance(scores.get(name.score), int | float):
            return None
        bounds = scores.get(f"{name.score}_interval")
        return Value(float(scores[name.score]), (bounds[0], bounds[1]) if bounds else None)

    def known_scores(self) -> Iterator[str]:
        """Yield the scores that have a value over all examples, macro averages included."""
        names = [*self.examples.scores, *(f"macro_{score}" for score in self.examples.values)]
        return (name for name in names if isinstance(self.result.scores.get(name), int | float))


def correlate(
    *predictions: str | Path,
    across: str | ScoreName = "",
    up: str | ScoreName | Sequence[str | ScoreName] = (),
    by: str = "",
    facts: str | Path | None = None,
    parts: Parts = no_parts,
    main_scores: MainScores = no_parts,
    with_baselines: bool = False,
    ties: str | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Correlation:
    """Compute the correlations of scores over models.

    Intervals resample two things: models, because the question is about models in general, and examples, because each
    score is an estimate. Whole clusters of examples that share an image are drawn, the same for all models and both
    scores, which preserves what models have in common on easy images. The second interval holds the models fixed. See
    ``estimation.correlation.correlation`` for the assumptions.

    Args:
        predictions: files of predictions, or folders of them, of several models. Several files of one model and task,
            such as of several seeds, are averaged.
        across: a score, as ``ScoreName.parse`` takes it; by default the predictions have to be of two tasks.
        up: one or several scores, each correlated with `across`.
        by: ``"size"``, ``"family"``, or a column of `facts`; each group gets a colour and separate correlations.
        facts: a CSV with the column ``model`` and further columns, such as ``data``, ``parameters`` and ``family``,
            which replace what predictions record about the model.
        parts: see ``compute``.
        main_scores: finds a benchmark's main scores, for scores named without task or score.
        with_baselines: whether baselines, such as the mocks, are in the correlations.
        ties: the tie policy; by default each metric's paper decides.
        confidence, resamples, seed: of all intervals.

    Raises:
        PredictionsError: no file, no task for a score, or no model that has all scores.
        UnknownNameError: a score, a group or an option's value that does not exist.
        DataError: `facts` cannot be read, or names no model of the predictions.
        ScoresError: an option outside its range.
    """
    check_options(ties=ties, confidence=confidence, resamples=resamples, seed=seed)
    known_facts = _read_facts(Path(facts)) if facts is not None else {}
    _check_group(by, known_facts)
    texts = [across, *([up] if isinstance(up, str | ScoreName) else up)]
    wanted = [ScoreName.parse(text) if isinstance(text, str) else text for text in texts if text]
    if across and len(wanted) == 1:
        raise PredictionsError(f"{wanted[0]} is one score; name another to correlate it with (up)")
    options = {"confidence": confidence, "resamples": resamples, "seed": seed}
    rows: dict[tuple[str, str], Row] = {}
    found = [run for path in prediction_files(*predictions) for run in _runs(path, wanted, parts, options, ties, rows)]
    names = [_resolve(name, found, main_scores) for name in wanted or _both_tasks(found)]
    runs = [run for run in found if any(run.has(name) for name in names)]
    by_model, notes = _by_model(runs)
    left_out = {label: _missing_scores(own_runs, names) for label, own_runs in by_model.items()}
    models = {label: own_runs for label, own_runs in by_model.items() if not left_out[label]}
    if not models:
        lacking = "; ".join(f"{label} lacks {scores}" for label, scores in left_out.items())
        raise PredictionsError(f"no model has {' and '.join(map(str, names))}: {lacking}")
    if any(is_costly(run.examples, base_score(run.examples, n.score)) for run in runs for n in names if run.has(n)):
        options["resamples"] = min(resamples, COSTLY_RESAMPLES)
    cluster_of = dict(zip(rows, cluster_numbers(list(rows.values())), strict=True))
    resampled = _resampled_scores(list(models.values()), names, cluster_of, options["resamples"], seed)
    model_names = [str(own_runs[0].result.model["name"]) for own_runs in models.values()]
    if known_facts and not any(name in known_facts for name in model_names):
        raise DataError(
            f"the facts of models name {', '.join([*known_facts][:3])} …; the predictions are of "
            f"{', '.join(model_names)}"
        )
    points = []
    for (label, own_runs), scores in zip(models.items(), resampled, strict=True):
        model = own_runs[0].result.model
        values = tuple(_mean(own_runs, name, drawn, confidence) for name, drawn in zip(names, scores, strict=True))
        is_baseline = not with_baselines and model.get("is_baseline") is True
        points.append(Point(label, _group_of(model, by, known_facts), values, is_baseline))
    return Correlation(
        across=names[0],
        up=names[1:],
        points=sorted(points, key=lambda point: (point.is_baseline, point.group, -point.values[0].value)),
        coefficients=list(_coefficients(points, names, resampled, by, options)),
        by=by,
        left_out={label: scores for label, scores in left_out.items() if scores},
        notes=[*notes, *_data_notes(models, names)],
        options=options,
    )


def _coefficients(
    points: Sequence[Point], names: Sequence[ScoreName], resampled: Floats, by: str, options: Mapping[str, Any]
) -> Iterator[Coefficients]:
    """Correlate each score up with the score across over all models, and with `by` within each group."""
    counted = [index for index, point in enumerate(points) if not point.is_baseline]
    groups = ["", *dict.fromkeys(points[index].group for index in counted if by)]
    for column, name in enumerate(names[1:], start=1):
        for group in groups:
            models = [index for index in counted if group in ("", points[index].group)]
            x, y = ([points[index].values[side].value for index in models] for side in (0, column))
            drawn = (resampled[models, 0].T, resampled[models, column].T)
            yield Coefficients(name, group, correlation(x, y, drawn=drawn, **options))


def _runs(
    path: Path,
    wanted: Sequence[ScoreName],
    parts: Parts,
    options: Mapping[str, Any],
    ties: str | None,
    rows: dict[tuple[str, str], Row],
) -> Iterator[_Run]:
    """Yield the results of each wanted task in a file; add its rows, without predictions, to `rows`."""
    file = read_predictions(path)
    # Parts, such as sugarcrepe/v2, are looked for only if a name may mean one.
    with_parts = any(name.benchmark == file.benchmark and name.task not in ("", file.task) for name in wanted)
    for task in (file, *(parts(file) if with_parts else ())):
        names = [name for name in wanted if name.benchmark == task.benchmark and name.task in ("", task.task)]
        scored = scored_rows(task.rows) if names or not wanted else []
        if scored:
            keys = [(str(task.metadata["benchmark"].get("fingerprint") or path), row.id) for row in scored]
            for key, row in zip(keys, scored, strict=True):
                predicted = (name for name in ("scores", "score", "boxes") if hasattr(row, name))
                rows.setdefault(key, replace(row, **dict.fromkeys(predicted)))
            for result, examples in evaluate(task, scored, declared_metrics(task), {**options, "ties": ties}):
                yield _Run(result, examples, [keys[row] for row in examples.rows.tolist()])


def _both_tasks(runs: Sequence[_Run]) -> list[ScoreName]:
    """Return the two tasks of the predictions; raise PredictionsError unless there are exactly two."""
    tasks = list(dict.fromkeys(task_of(run.result) for run in runs))
    if len(tasks) != 2:
        known = ", ".join(f"{benchmark}/{task}" for benchmark, task in tasks)
        raise PredictionsError(
            f"the predictions are of {len(tasks)} tasks ({known}); name the two scores to correlate: "
            "--across BENCHMARK/TASK --up BENCHMARK/TASK"
        )
    return [ScoreName(*task) for task in tasks]


def _resolve(name: ScoreName, runs: Sequence[_Run], main_scores: MainScores) -> ScoreName:
    """Fill the task, metric and score of a name."""
    tasks = dict.fromkeys(task for benchmark, task in (task_of(run.result) for run in runs) if benchmark == name[0])
    main = main_scores(name.benchmark)
    task = name.task or next((task for task, *_ in main if task in tasks), next(iter(tasks), ""))
    of_task = [run for run in runs if run.has(name._replace(task=task))]
    if not of_task:
        known = sorted({"/".join(task_of(run.result)) for run in runs})
        raise PredictionsError(
            f"there are no predictions of {name}" + f"; the predictions are of {', '.join(known)}" * bool(known)
        )
    scores: dict[str, dict[str, None]] = {}
    for run in of_task:
        scores.setdefault(run.result.metric, {}).update(dict.fromkeys(run.known_scores()))
    if not name.score:
        patterns = [(metric, pattern) for where, metric, pattern in main if where == task and metric in scores]
        patterns += [(run.result.metric, run.result.spec.main_score) for run in of_task]
        matches = [(m, score) for m, pattern in patterns for score in scores[m] if fnmatchcase(score, pattern)]
        metric, score = next(iter(matches), next((m, score) for m in scores for score in scores[m]))
        return name._replace(task=task, metric=metric, score=score)
    for metric in scores:
        full = name._replace(task=task, metric=metric)
        if name.score in scores[metric] and any(run.has(full) and run.value(full) for run in of_task):
            return full
    if name.category:
        categories = dict.fromkeys(category for run in of_task for category in run.examples.categories)
        check_known(f"category of {name.benchmark}/{task}", [name.category], categories)
    known_scores = {score: None for of_metric in scores.values() for score in of_metric}
    raise UnknownNameError(f"score of {name.benchmark}/{task}", name.score, known_scores)


def _by_model(runs: Sequence[_Run]) -> tuple[dict[str, list[_Run]], list[str]]:
    """Return the runs of each model by its label, and a note if descriptions were merged.

    Descriptions of the same name are one model if they are of different tasks, as released predictions are, which name
    their file; else each is a model.
    """
    by_name: dict[str, dict[str, list[_Run]]] = {}
    for run in runs:
        identity = json.dumps(run.result.model, sort_keys=True, default=str)
        by_name.setdefault(str(run.result.model["name"]), {}).setdefault(identity, []).append(run)
    groups, merged = [], []
    for name, described in by_name.items():
        tasks = [{task_of(run.result) for run in of_one} for of_one in described.values()]
        if len(described) > 1 and sum(map(len, tasks)) == len(set().union(*tasks)):
            merged.append(name)
            groups.append([run for of_one in described.values() for run in of_one])
        else:
            groups += described.values()
    note = f"Described differently on different tasks, and taken as one model each: {', '.join(merged)}."
    labels = distinct_labels([group[0].result.model for group in groups])
    return dict(zip(labels, groups, strict=True)), [note] if merged else []


def _missing_scores(runs: Sequence[_Run], names: Sequence[ScoreName]) -> str:
    """Return the names of the scores that a model lacks, as text."""
    values = {name: [run.value(name) for run in runs if run.has(name)] for name in names}
    return " and ".join(str(name) for name in names if not values[name] or None in values[name])


def _mean(runs: Sequence[_Run], name: ScoreName, drawn: Floats, confidence: float) -> Value:
    """Average a score over runs; several runs get an interval from the resamples of the correlation."""
    values = [score for run in runs if run.has(name) and (score := run.value(name)) is not None]
    if len(values) == 1:
        return values[0]
    spreads = np.isfinite(drawn).any() and np.nanmax(drawn) > np.nanmin(drawn)
    return Value(
        float(np.mean([score.value for score in values])), percentile_interval(drawn, confidence) if spreads else None
    )


def _resampled_scores(
    models: Sequence[Sequence[_Run]],
    names: Sequence[ScoreName],
    cluster_of: Mapping[tuple[str, str], int],
    resamples: int,
    seed: int,
) -> Floats:
    """Return the scores of the models in resamples of clusters, of shape (models, scores, resamples)."""
    runs = [[[run for run in own_runs if run.has(name)] for name in names] for own_runs in models]
    clusters = {id(run): np.array([cluster_of[key] for key in run.keys]) for own_runs in models for run in own_runs}
    scores, start = np.empty((len(models), len(names), resamples)), 0
    for weights in cluster_counts(max(cluster_of.values()) + 1, resamples, seed):
        stop = start + len(weights)
        for model, by_name in enumerate(runs):
            for column, (name, of_score) in enumerate(zip(names, by_name, strict=True)):
                drawn = [_weighted_score(run.examples, name, weights[:, clusters[id(run)]]) for run in of_score]
                scores[model, column, start:stop] = np.mean(drawn, axis=0)
        start = stop
    return scores


def _weighted_score(examples: Examples, name: ScoreName, weights: Floats) -> Floats:
    """Compute a score for each row of example weights; NaN if no example counts."""
    score = base_score(examples, name.score)
    if score in examples.values:
        if score == name.score or not examples.categories:
            indices = examples.categories[name.category] if name.category else np.arange(len(examples))
            return _weighted_mean(examples.values[score], indices, weights)
        means = [_weighted_mean(examples.values[score], each, weights) for each in examples.macro_categories.values()]
        counts = np.isfinite(means).sum(axis=0)
        return np.divide(np.nansum(means, axis=0), counts, out=np.full(len(weights), np.nan), where=counts > 0)
    estimator = examples.estimator(score)
    column = estimator.names.index(score)
    if name.category:
        indices = examples.categories[name.category]
        estimator, weights = estimator.select(indices), weights[:, indices]
    return np.array([estimator(row)[column] for row in weights])


def _weighted_mean(values: Floats, indices: NDArray[np.intp], weights: Floats) -> Floats:
    finite = indices[np.isfinite(values[indices])]
    counts = weights[:, finite].sum(axis=1)
    return np.divide(weights[:, finite] @ values[finite], counts, out=np.full(len(weights), np.nan), where=counts > 0)


def _data_notes(models: Mapping[str, Sequence[_Run]], names: Sequence[ScoreName]) -> Iterator[str]:
    """Yield sentences on partial tasks, differing data and missing images."""
    if partial := partial_sentence(run.result.benchmark for runs in models.values() for run in runs):
        yield partial
    for task in dict.fromkeys((name.benchmark, name.task) for name in names):
        of_task = [[run.result for run in runs if task_of(run.result) == task] for runs in models.values()]
        if len({tuple(sorted({str(result.benchmark.get("fingerprint")) for result in each})) for each in of_task}) > 1:
            yield f"Not all models were scored on the same data of {task[0]} ({task[1]})."
        if missing := max(result.missing for results in of_task for result in results):
            yield f"Up to {missing:,} examples of {task[0]} ({task[1]}) lack their image and are in no score."


def _check_group(by: str, facts: Facts) -> None:
    """Raise UnknownNameError unless models can be grouped by `by`: empty, their size or family, or a column."""
    known = list(dict.fromkeys(("size", "family", *(column for row in facts.values() for column in row))))
    if by and by not in known:
        remedy = (
            f"predictions do not record a model's {by}: give a CSV with the columns model and {by}, --facts FILE.csv"
        )
        kind = "column of the facts of models" if facts else f"group of models ({remedy})"
        raise UnknownNameError(kind, by, known)


def _read_facts(path: Path) -> dict[str, dict[str, str]]:
    """Read a CSV as its other columns by the name of the model.

    Raises:
        DataError: it is missing, too large, not a table, or without the column ``model``, or a model comes twice.
    """
    try:
        if path.stat().st_size > _MOST_FACT_BYTES:
            raise DataError(f"{path} has {path.stat().st_size:,} bytes; expected a CSV of at most {_MOST_FACT_BYTES:,}")
        rows = read_values(path, ".csv")
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a CSV with a line for each model: {error}") from error
    if not rows or "model" not in rows[0]:
        raise DataError(f"{path} has no line or no column `model`; expected model,data and a line for each model")
    facts: dict[str, dict[str, str]] = {}
    for row in rows:
        model = row.pop("model").strip()
        if model in facts:
            raise DataError(f"{path} has the model {model!r} twice; keep one of its lines")
        facts[model] = {name: text.strip() for name, text in row.items()}
    return facts


def _group_of(model: Mapping[str, Any], by: str, facts: Facts) -> str:
    """Return the group of a model; empty without groups."""
    stated = {name: text for name, text in facts.get(str(model["name"]), {}).items() if text}
    described = {**model, **stated}
    if by == "size" and "size" not in stated:
        return size_class(parameter_count(described.get("parameters")))
    return (str(described.get(by) or NOT_STATED)) if by else ""


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"


def _bounds(bounds: Sequence[float] | None) -> str:
    return MISSING if bounds is None else " – ".join(f"{bound:.2f}" for bound in bounds)


def _whisker(score: Value) -> Any:
    """Return the lengths of an interval below and above a value, in per cent, as matplotlib takes them."""
    if score.interval is None:
        return None
    low, high = score.interval
    return [[100 * max(score.value - low, 0)], [100 * max(high - score.value, 0)]]


def _cell_text(cell: Any) -> Any:
    """Escape a name that a spreadsheet would read as a formula; None becomes empty."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t") else cell
