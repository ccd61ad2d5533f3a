"""Do two scores rise together over models? Their correlation, with intervals, as a `Correlation`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..common.documents import (
    INTERVAL,
    Cell,
    Column,
    Part,
    Table,
    TableRow,
    Verdict,
    print_tables,
    to_html,
    to_markdown,
)
from ..common.errors import DataError, PredictionsError, UnknownNameError, check_known
from ..common.figures import as_file, colours
from ..common.formatting import MISSING, distinct_labels, interval, p_value, percent, words
from ..common.model_sizes import NOT_STATED, parameter_count, size_class
from ..common.storage import write_atomically, write_text
from ..contract.aggregate import aggregate, option_names
from ..contract.spec import Examples
from ..modules.discovery import get_spec
from ..records.predictions import Predictions, prediction_files, read_predictions
from ..records.schema import Row
from ..statistics.bootstrap import chunks, percentile_interval
from ..statistics.correlation import FEWEST, FEWEST_WITH_INTERVAL, correlation
from ._compute import (
    Declared,
    Parts,
    check_options,
    cluster_numbers,
    declared_metrics,
    examples_of,
    no_parts,
    scored_rows,
)
from ._scored import base_score, is_costly
from ._tables import partial_sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MACRO = "macro_"
KINDS = {"pearson": "Pearson's r", "spearman": "Spearman's ρ", "kendall": "Kendall's τ"}
ALL = "all models"
# Resamples; of scores such as average precision, each of which has to be computed again, fewer.
RESAMPLES, COSTLY_RESAMPLES = 1_000, 200
_MOST_FACTS = 4 << 20  # bytes of a CSV with facts of models

Floats = NDArray[np.float64]
# From a benchmark's name to its main scores: task, metric, and name or pattern of the score.
MainScores = Callable[[str], Sequence[tuple[str, str, str]]]


def no_main_scores(benchmark: str) -> Sequence[tuple[str, str, str]]:
    """None: the main score of a task's first metric counts."""
    return ()


class ScoreName(NamedTuple):
    """A score of a task: over all examples, as macro average (``macro_…``), or of a category.

    Empty fields are chosen by `correlate`: the benchmark's main task, its main score, the metric that has the score.
    """

    benchmark: str
    task: str = ""
    metric: str = ""
    score: str = ""
    category: str = ""

    @classmethod
    def parse(cls, text: str) -> ScoreName:
        """A score by its name, ``BENCHMARK[/TASK][:[CATEGORY/]SCORE]``.

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

    def is_of(self, predictions: Predictions) -> bool:
        """Whether predictions are of the task."""
        return self.benchmark == predictions.benchmark and self.task in ("", predictions.task)


class Value(NamedTuple):
    """A score of a model with its interval over examples; None where resamples do not spread."""

    value: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Point:
    """A model: its label, its group (empty without groups), the score across and those up, and whether it counts."""

    model: str
    group: str
    values: tuple[Value, ...]
    is_baseline: bool = False


class Found(NamedTuple):
    """The correlation of a score up with that across, of all models or of a group: see ``statistics.correlation``."""

    up: ScoreName
    group: str
    result: dict[str, Any]


@dataclass(frozen=True, repr=False)
class Correlation:
    """Scores of models, and how they correlate.

    Args:
        across: the score of the horizontal axis.
        up: those of the vertical one, each correlated with it.
        points: the models that have all of them; baselines are shown but not in the correlations.
        found: the correlations of each score up: of all models, then of each group.
        by: what the models are grouped by; empty for nothing.
        left_out: models that lack a score, with which.
        notes: further remarks on the data.
        options: confidence, resamples and seed.
    """

    across: ScoreName
    up: list[ScoreName]
    points: list[Point]
    found: list[Found]
    by: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def verdicts(self) -> list[str]:
        """A sentence for each score up, over all models."""
        return [self._sentence(each) for each in self.found if not each.group]

    @property
    def verdict(self) -> str:
        """The outcome in one sentence."""
        if len(self.up) == 1:
            return self.verdicts[0]
        whole = [each for each in self.found if not each.group]
        rising = [str(each.up) for each in whole if self._direction(each.result) == 1]
        return (
            f"{len(rising)} of {len(whole)} scores rise with {self.across} over {whole[0].result['n']} models"
            + f": {', '.join(rising)}." * bool(rising)
            + "." * (not rising)
        )

    def __repr__(self) -> str:
        return "\n".join(["Correlation:", *(f"  {verdict}" for verdict in self.verdicts)])

    def _repr_html_(self) -> str:
        """The verdict and the tables, as a notebook shows them."""
        return f"<p><strong>{escape(self.verdict)}</strong></p>{to_html(self._tables())}"

    def plot(self) -> Figure:
        """The models as labelled points with the intervals of both scores; colours are groups, or the scores up."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 5.5), layout="constrained")
        self.draw(figure)
        return figure

    def draw(self, figure: Figure) -> None:
        """Draw `plot` in a figure."""
        axes = figure.subplots()
        several = len(self.up) > 1
        series = [
            (str(up) if several else point.group, point, point.values[0], value)
            for point in self.points
            for up, value in zip(self.up, point.values[1:], strict=True)
        ]
        colour = colours([name for name, *_ in series])
        for name, point, x, y in series:
            form = {"color": colour[name], "marker": "s" if point.is_baseline else "o", "linestyle": "none"}
            errors = {"xerr": _whisker(x), "yerr": _whisker(y), "elinewidth": 0.8, "alpha": 0.85}
            axes.errorbar(100 * x.value, 100 * y.value, **form, **errors, label=name)
        for point in self.points:
            top = 100 * max(value.value for value in point.values[1:])
            place = (100 * point.values[0].value, top)
            axes.annotate(point.model, place, (4, 4), textcoords="offset points", fontsize=7)
        handles, labels = axes.get_legend_handles_labels()
        first = dict(zip(reversed(labels), reversed(handles), strict=True))
        if any(colour):
            chosen = {name: first[name] for name in colour}
            axes.legend([*chosen.values()], [*chosen], title=None if several else words(self.by), fontsize=7)
        ups = {(up.benchmark, up.task) for up in self.up}
        up = " ".join(next(iter(ups))) if several and len(ups) == 1 else "scores" if several else str(self.up[0])
        axes.set(xlabel=f"{self.across}, %", ylabel=f"{up}, %")
        axes.spines[["top", "right"]].set_visible(False)

    def print(self) -> None:
        """Print the verdict and the tables to the terminal."""
        print_tables(self._document())

    def to_csv(self) -> str:
        """The models as CSV: group, and for each score its value and interval, as fractions."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names = [str(name) for name in (self.across, *self.up)]
        writer.writerow(["model", self.by or "group", "baseline", *(f"{n}{end}" for n in names for end in _ENDS)])
        for point in self.points:
            cells = [cell for value in point.values for cell in (value.value, *(value.interval or ("", "")))]
            writer.writerow([_cell_text(point.model), _cell_text(point.group), int(point.is_baseline), *cells])
        return text.getvalue()

    def to_markdown(self, figure: str = "") -> str:
        """The verdict and the tables as Markdown, with a link to a figure."""
        return to_markdown([*self._document(), *([f"![{self.across} and {self.up[0]}]({figure})"] if figure else [])])

    def write(self, out: str | Path) -> list[Path]:
        """Write ``correlation.md``, ``correlation.csv`` and ``correlation.png`` to a folder; the files' paths.

        The figure needs matplotlib (the extra ``plots``); without it there is none, and an earlier one is removed.
        """
        folder = Path(out)
        page, table, picture = (folder / f"correlation.{ending}" for ending in ("md", "csv", "png"))
        write_text(table, self.to_csv())
        try:
            write_atomically(picture, as_file(self.plot()))
        except ModuleNotFoundError:
            picture.unlink(missing_ok=True)
        has_figure = picture.exists()
        write_text(page, self.to_markdown(picture.name if has_figure else ""))
        return [page, table, *([picture] if has_figure else [])]

    def _document(self) -> list[Part]:
        several = [Verdict(verdict) for verdict in self.verdicts if len(self.up) > 1]
        return [Verdict(self.verdict), *several, *self._tables()]

    def _tables(self) -> list[Table]:
        columns = [Column(str(name), (INTERVAL,)) for name in (self.across, *self.up)]
        grouped = [Column(words(self.by), is_text=True)] if self.by else []
        rows = []
        for number, point in enumerate(self.points):
            cells = [Cell(percent(each.value), (interval(each.interval),)) for each in point.values]
            is_first = point.is_baseline and number > 0 and not self.points[number - 1].is_baseline
            rows.append(TableRow(point.model, (*cells, *[Cell(point.group)] * bool(self.by)), starts_group=is_first))
        models = Table("Models", (*columns, *grouped), tuple(rows), self._models_note(), corner="model")
        lines = []
        for each in self.found:
            names = [str(each.up)] * (len(self.up) > 1) + [each.group or ALL] * (len(self.up) == 1 or bool(self.by))
            cells = [Cell(_number(each.result[kind]), self._details(each.result, kind)) for kind in KINDS]
            cells += [Cell(p_value(each.result["p_value"]) or MISSING), Cell(str(each.result["n"]))]
            lines.append(TableRow(", ".join(names), tuple(cells)))
        details = ("over models", "these models") if self._resamples_examples else ("over models",)
        kinds = [Column(name, details) for name in KINDS.values()]
        shown = (*kinds, Column("p (ρ)"), Column("models"))
        title = f"Correlation with {self.across}"
        return [models, Table(title, shown, tuple(lines), self._how(), corner="", has_details_below=True)]

    @property
    def _resamples_examples(self) -> bool:
        return bool(self.options.get("examples"))

    def _details(self, result: Mapping[str, Any], kind: str) -> tuple[str, ...]:
        bounds = [result[f"{kind}_interval"], result[f"{kind}_examples_interval"]]
        return tuple(_bounds(each) for each in bounds[: 1 + self._resamples_examples])

    def _models_note(self) -> str:
        level = 100 * self.options.get("confidence", 0.95)
        text = f"Scores in per cent with their {level:g} % intervals (bootstrap over images)."
        if any(point.is_baseline for point in self.points):
            text += " Baselines come last and are in no correlation."
        for model, why in self.left_out.items():
            text += f" Left out: {model}, which lacks {why}."
        return " ".join([text, *self.notes])

    def _how(self) -> str:
        level = f"{100 * self.options.get('confidence', 0.95):g} %"
        text = f"{level} intervals. "
        if self._resamples_examples:
            text += (
                "Over models: models and images are resampled, each independently: would other models like these, on "
                "other images, show it? These models: images alone are resampled, the same for all models. "
            )
        else:
            text += "Over models: models are resampled, examples are not. "
        text += (
            "p: of Spearman's ρ over orders of the models. Models of one family or of the same training data are no "
            "independent sample: both are then too sure. "
        )
        if any(each.result["n"] < FEWEST_WITH_INTERVAL for each in self.found):
            text += (
                f"Fewer than {FEWEST} models have no correlation (of three, one order in three rises or falls "
                f"throughout), and fewer than {FEWEST_WITH_INTERVAL} no interval: most resamples of four models hold "
                "three or fewer different ones."
            )
        return text.strip()

    def _direction(self, result: Mapping[str, Any]) -> int:
        """1 where the scores rise together, -1 where one falls as the other rises, 0 where the models cannot tell."""
        bounds, p = result["spearman_interval"], result["p_value"]
        if bounds is None or p > 1 - self.options.get("confidence", 0.95) + 1e-12:
            return 0
        return 1 if bounds[0] > 0 else -1 if bounds[1] < 0 else 0

    def _sentence(self, found: Found) -> str:
        result, n = found.result, found.result["n"]
        both = f"{self.across} and {found.up}"
        if result["spearman"] is None:
            why = f"a correlation takes {FEWEST} or more" if n < FEWEST else "all have the same value of a score"
            counted = f"{n} model{'s have' if n != 1 else ' has'} both scores"
            return f"These models cannot tell whether {both} rise together: {counted}, and {why}."
        shown = f"Spearman's ρ {_number(result['spearman'])}"
        if result["spearman_interval"]:
            level = f"{100 * self.options.get('confidence', 0.95):g} %"
            p = p_value(result["p_value"])
            shown += f", {level} [{_bounds(result['spearman_interval']).replace(' – ', ', ')}]"
            shown += f", p {p if p.startswith('<') else f'= {p}'}"
        else:
            shown += f"; an interval takes {FEWEST_WITH_INTERVAL} models or more"
        direction = self._direction(result)
        if direction:
            how = "rise together" if direction > 0 else "oppose each other: one falls as the other rises,"
            return f"{both} {how} over these {n} models: {shown}."
        return f"These {n} models cannot tell whether {both} rise together: {shown}."


_ENDS = ("", " low", " high")


class _Run(NamedTuple):
    """The examples of a metric in a file of predictions, and what identifies each of its rows among all files."""

    model: dict[str, Any]
    benchmark: dict[str, Any]
    metric: str
    examples: Examples
    keys: list[tuple[str, str]]
    scores: dict[str, Any]
    missing: int

    def path(self, name: ScoreName) -> tuple[str, ...]:
        return (self.examples.category_key, name.category, name.score) if name.category else (name.score,)

    def value(self, name: ScoreName) -> Value | None:
        """A score with its interval."""
        *path, last = self.path(name)
        part: Any = self.scores
        for key in path:
            part = part.get(key, {})
        if not isinstance(part.get(last), int | float):
            return None
        bounds = part.get(f"{last}_interval")
        return Value(float(part[last]), (bounds[0], bounds[1]) if bounds else None)

    def has(self, name: ScoreName) -> bool:
        """Whether it is of the task, and of the metric if that is chosen."""
        about = self.benchmark["name"], self.benchmark["task"]
        return about == (name.benchmark, name.task) and name.metric in ("", self.metric)


def correlate(
    *predictions: str | Path,
    across: str | ScoreName = "",
    up: str | ScoreName | Sequence[str | ScoreName] = (),
    by: str = "",
    facts: str | Path | None = None,
    metrics: Declared = declared_metrics,
    parts: Parts = no_parts,
    main_scores: MainScores = no_main_scores,
    with_baselines: bool = False,
    ties: str | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Correlation:
    """Correlate scores over models.

    Two things are resampled for the intervals. Models, because the question is about models in general; and examples,
    because each score is an estimate: whole clusters of examples that share an image are drawn, the same for all models
    and both scores, so that what models have in common on easy images is kept. The second interval holds the models
    fixed. See ``statistics.correlation.correlation`` for what that assumes.

    Args:
        predictions: files of predictions, or folders of them, of several models. Several of one model and task, such as
            of several seeds, are averaged.
        across: one score, as ``ScoreName.parse`` takes it; by default the predictions have to be of two tasks.
        up: one or several scores, each correlated with it.
        by: ``"size"``, ``"family"``, or a column of `facts`; groups have a colour and correlations of their own.
        facts: a CSV with the column ``model`` and further ones, such as ``data``, ``parameters`` and ``family``, which
            replace what predictions say of the model.
        metrics, parts: see ``compute``.
        main_scores: finds the scores that count where none is named.
        with_baselines: whether baselines, such as the mocks, are in the correlations.
        ties: the tie policy; by default that of each metric's paper.
        confidence, resamples, seed: of all intervals.

    Raises:
        PredictionsError: no file, no task for a score, or no model that has all scores.
        UnknownNameError: a score, a group or an option's value that does not exist.
        DataError: `facts` cannot be read, or names no model of the predictions.
        ScoresError: an option outside its range.
    """
    check_options(ties=ties, confidence=confidence, resamples=resamples, seed=seed)
    told = _read_facts(Path(facts)) if facts is not None else {}
    _check_by(by, told)
    asked = [_parsed(each) for each in (across, *([up] if isinstance(up, str | ScoreName) else up)) if each]
    if across and len(asked) == 1:
        raise PredictionsError(f"{asked[0]} is one score; name another to correlate it with (up)")
    paths = prediction_files(*predictions)
    rows: dict[tuple[str, str], Row] = {}
    options = {"confidence": confidence, "seed": seed, "ties": ties}
    runs = [run for path in paths for run in _runs(path, asked, metrics, parts, options, rows)]
    names = [_resolve(name, runs, main_scores) for name in asked or _both_tasks(runs)]
    by_model, notes = _by_model(runs, names)
    left_out = {label: _lacking(own, names) for label, own in by_model.items()}
    chosen = {label: own for label, own in by_model.items() if not left_out[label]}
    if not chosen:
        lacking = "; ".join(f"{label} lacks {why}" for label, why in left_out.items())
        raise PredictionsError(f"no model has {' and '.join(map(str, names))}: {lacking}")
    costly = any(
        is_costly(run.examples, base_score(run.examples, n.score)) for run in runs for n in names if run.has(n)
    )
    resamples = min(resamples, COSTLY_RESAMPLES) if costly else resamples
    drawn = _drawn(chosen, names, rows, resamples, seed)  # (models, scores, resamples)
    _check_facts(told, chosen)
    points = []
    for place, (label, own) in enumerate(chosen.items()):
        values = tuple(_mean(own, name, drawn[place, n], confidence) for n, name in enumerate(names))
        is_baseline = not with_baselines and own[0].model.get("is_baseline") is True
        points.append(Point(label, _group(own[0].model, by, told), values, is_baseline))
    counted = [n for n, point in enumerate(points) if not point.is_baseline]
    found = []
    how: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    for number, name in enumerate(names[1:], start=1):
        for group in ["", *dict.fromkeys(points[n].group for n in counted if by)]:
            own = [n for n in counted if group in ("", points[n].group)]
            x, y = ([points[n].values[side].value for n in own] for side in (0, number))
            both = (drawn[own, 0].T, drawn[own, number].T)
            found.append(Found(name, group, correlation(x, y, drawn=both, **how)))
    order = sorted(
        range(len(points)), key=lambda n: (points[n].is_baseline, points[n].group, -points[n].values[0].value)
    )
    return Correlation(
        across=names[0],
        up=names[1:],
        points=[points[n] for n in order],
        found=found,
        by=by,
        left_out={label: why for label, why in left_out.items() if why},
        notes=[*notes, *_data_notes(chosen, names)],
        options=how | {"examples": True},
    )


def _parsed(name: str | ScoreName) -> ScoreName:
    return ScoreName.parse(name) if isinstance(name, str) else name


def _runs(
    path: Path,
    asked: Sequence[ScoreName],
    metrics: Declared,
    parts: Parts,
    options: Mapping[str, Any],
    seen: dict[tuple[str, str], Row],
) -> Iterator[_Run]:
    """The examples of each task of a file that is asked for; their rows, without predictions, join those seen."""
    whole = read_predictions(path)
    # Parts, such as sugarcrepe/v2, are looked for only where one may be asked for by its name.
    is_part = any(name.benchmark == whole.benchmark and name.task not in ("", whole.task) for name in asked)
    for part in (whole, *(parts(whole) if is_part else ())):
        rows = scored_rows(part.rows) if not asked or any(name.is_of(part) for name in asked) else []
        if not rows:
            continue
        keys = [(str(part.metadata["benchmark"].get("fingerprint") or path), row.id) for row in rows]
        for key, row in zip(keys, rows, strict=True):
            if key not in seen:
                seen[key] = replace(row, **{name: None for name in ("scores", "score", "boxes") if hasattr(row, name)})
        for metric, settings in metrics(part).items():
            examples = examples_of(rows, metric, settings, ties=options["ties"])
            accepted = option_names(get_spec(metric).function)
            how = {name: options[name] for name in ("confidence", "seed") if name in accepted}
            scores = aggregate(examples, **how)
            about = part.metadata["model"], part.metadata["benchmark"]
            missing = len(part.rows) - len(rows)
            yield _Run(*about, metric, examples, [keys[row] for row in examples.rows.tolist()], scores, missing)


def _both_tasks(runs: Sequence[_Run]) -> list[ScoreName]:
    """The two tasks of the predictions, where they are of two."""
    tasks = list(dict.fromkeys((run.benchmark["name"], run.benchmark["task"]) for run in runs))
    if len(tasks) != 2:
        known = ", ".join(f"{benchmark}/{task}" for benchmark, task in tasks)
        raise PredictionsError(
            f"the predictions are of {len(tasks)} tasks ({known}); name the two scores to correlate: "
            "--across BENCHMARK/TASK --up BENCHMARK/TASK"
        )
    return [ScoreName(*task) for task in tasks]


def _resolve(name: ScoreName, runs: Sequence[_Run], main_scores: MainScores) -> ScoreName:
    """A score with its task, metric and name."""
    tasks = dict.fromkeys(run.benchmark["task"] for run in runs if run.benchmark["name"] == name.benchmark)
    main = main_scores(name.benchmark)
    task = name.task or next((task for task, *_ in main if task in tasks), next(iter(tasks), ""))
    own = [run for run in runs if run.has(name._replace(task=task))]
    if not own:
        known = sorted({f"{run.benchmark['name']}/{run.benchmark['task']}" for run in runs})
        raise PredictionsError(
            f"there are no predictions of {name}" + f"; the predictions are of {', '.join(known)}" * bool(known)
        )
    metrics = dict.fromkeys(run.metric for run in own)
    if not name.score:
        wanted = [(metric, score) for at, metric, score in main if at == task and metric in metrics]
        wanted += [(metric, get_spec(metric).main_score) for metric in metrics]
        named = [
            (metric, score)
            for metric, pattern in wanted
            for score in _known(own, metric)
            if fnmatchcase(score, pattern)
        ]
        metric, score = named[0] if named else next((m, s) for m in metrics for s in _known(own, m))
        return name._replace(task=task, metric=metric, score=score)
    for metric in metrics:
        found = name._replace(task=task, metric=metric)
        if any(run.metric == metric and run.value(found) is not None for run in own) and _is_resampled(found, own):
            return found
    known = dict.fromkeys(score for metric in metrics for score in _known(own, metric))
    categories = dict.fromkeys(category for run in own for category in run.examples.categories)
    if name.category:
        check_known(f"category of {name.benchmark}/{task}", [name.category], categories)
    raise UnknownNameError(f"score of {name.benchmark}/{task}", name.score, known)


def _known(runs: Iterable[_Run], metric: str) -> dict[str, None]:
    """The scores of a metric, with macro averages."""
    found: dict[str, None] = {}
    for run in runs:
        if run.metric == metric:
            every = [*run.examples.scores, *(f"{MACRO}{score}" for score in run.examples.values)]
            found |= {score: None for score in every if isinstance(run.scores.get(score), int | float)}
    return found


def _is_resampled(name: ScoreName, runs: Iterable[_Run]) -> bool:
    return name.score in _known(runs, name.metric)


def _by_model(runs: Sequence[_Run], names: Sequence[ScoreName]) -> tuple[dict[str, list[_Run]], list[str]]:
    """The runs of each model, by its label, and remarks.

    Descriptions with the same name are one model where they are of different tasks, as those of released predictions
    are, which name their file; else each is a model.
    """
    by_name: dict[str, dict[str, list[_Run]]] = {}
    for run in runs:
        if any(run.has(name) for name in names):
            identity = json.dumps(run.model, sort_keys=True, default=str)
            by_name.setdefault(str(run.model["name"]), {}).setdefault(identity, []).append(run)
    groups, merged = [], []
    for name, own in by_name.items():
        tasks = [{(run.benchmark["name"], run.benchmark["task"]) for run in each} for each in own.values()]
        if len(own) > 1 and sum(map(len, tasks)) == len(set().union(*tasks)):
            merged.append(name)
            groups.append([run for each in own.values() for run in each])
        else:
            groups += own.values()
    notes = []
    if merged:
        notes.append(f"Described differently on different tasks, and taken as one model each: {', '.join(merged)}.")
    labels = distinct_labels([group[0].model for group in groups])
    return dict(zip(labels, groups, strict=True)), notes


def _lacking(runs: Sequence[_Run], names: Sequence[ScoreName]) -> str:
    """The scores that a model does not have."""
    missing = [
        str(name)
        for name in names
        if not any(run.has(name) for run in runs) or any(run.value(name) is None for run in runs if run.has(name))
    ]
    return " and ".join(missing)


def _mean(runs: Sequence[_Run], name: ScoreName, drawn: Floats, confidence: float) -> Value:
    """A score, over several runs their mean, whose interval is over the same resamples as that of the correlation."""
    values = [value for run in runs if run.has(name) and (value := run.value(name)) is not None]
    if len(values) == 1:
        return values[0]
    spreads = np.isfinite(drawn).any() and np.nanmax(drawn) > np.nanmin(drawn)
    bounds = percentile_interval(drawn, confidence) if spreads else None
    return Value(float(np.mean([each.value for each in values])), bounds)


def _drawn(
    models: Mapping[str, Sequence[_Run]],
    names: Sequence[ScoreName],
    rows: Mapping[tuple[str, str], Row],
    resamples: int,
    seed: int,
) -> Floats:
    """The scores of the models in resamples of clusters of examples, of shape (models, scores, resamples)."""
    codes = dict(zip(rows, cluster_numbers(list(rows.values())), strict=True))
    groups = max(codes.values()) + 1
    generator = np.random.default_rng(seed)
    own = [[[run for run in runs if run.has(name)] for name in names] for runs in models.values()]
    places = {id(run): np.array([codes[key] for key in run.keys]) for each in own for runs in each for run in runs}
    found, start = np.empty((len(own), len(names), resamples)), 0
    for count in chunks(resamples, groups):
        weights = generator.multinomial(groups, np.full(groups, 1 / groups), size=count).astype(np.float64)
        for model, by_name in enumerate(own):
            for number, (name, runs) in enumerate(zip(names, by_name, strict=True)):
                drawn = [_weighted(run.examples, name, weights[:, places[id(run)]]) for run in runs]
                found[model, number, start : start + count] = np.mean(drawn, axis=0)
        start += count
    return found


def _weighted(examples: Examples, name: ScoreName, weights: Floats) -> Floats:
    """A score with each example counted as often as each row of weights says; NaN where none counts."""
    score = base_score(examples, name.score)
    if score in examples.values:
        if score == name.score or not examples.categories:
            numbers = examples.categories[name.category] if name.category else np.arange(len(examples))
            return _mean_of(examples.values[score], numbers, weights)
        parts = [_mean_of(examples.values[score], each, weights) for each in examples.macro_categories.values()]
        counts = np.isfinite(parts).sum(axis=0)
        return np.divide(np.nansum(parts, axis=0), counts, out=np.full(len(weights), np.nan), where=counts > 0)
    estimator = examples.estimator(score)
    place = estimator.names.index(score)
    if name.category:
        numbers = examples.categories[name.category]
        estimator, weights = estimator.select(numbers), weights[:, numbers]
    return np.array([estimator(each)[place] for each in weights])


def _mean_of(values: Floats, numbers: NDArray[np.intp], weights: Floats) -> Floats:
    kept = numbers[np.isfinite(values[numbers])]
    chosen = weights[:, kept]
    counts = chosen.sum(axis=1)
    return np.divide(chosen @ values[kept], counts, out=np.full(len(weights), np.nan), where=counts > 0)


def _data_notes(models: Mapping[str, Sequence[_Run]], names: Sequence[ScoreName]) -> Iterator[str]:
    """What readers should know of the data: parts of tasks, other versions, missing images."""
    every = [run for runs in models.values() for run in runs if any(run.has(name) for name in names)]
    partial = partial_sentence(run.benchmark for run in every)
    if partial:
        yield partial
    for name in dict.fromkeys((each.benchmark, each.task) for each in names):
        own = [[run for run in runs if run.has(ScoreName(*name))] for runs in models.values()]
        if len({tuple(sorted({str(run.benchmark.get("fingerprint")) for run in runs})) for runs in own}) > 1:
            yield f"Not all models were scored on the same data of {name[0]} ({name[1]})."
        if missing := max(run.missing for runs in own for run in runs):
            yield f"Up to {missing:,} examples of {name[0]} ({name[1]}) lack their image and are in no score."


def _check_by(by: str, facts: Mapping[str, Mapping[str, str]]) -> None:
    columns = dict.fromkeys(column for each in facts.values() for column in each)
    known = [*dict.fromkeys(("size", "family", *columns))]
    if by and by not in known:
        if not facts:
            raise UnknownNameError(
                f"group of models (predictions do not record a model's {by}: give a CSV with the columns model and "
                f"{by}, --facts FILE.csv)",
                by,
                known,
            )
        raise UnknownNameError("column of the facts of models", by, known)


def _read_facts(path: Path) -> dict[str, dict[str, str]]:
    """The other columns of a CSV by the name of the model.

    Raises:
        DataError: it is missing, too large, no UTF-8, or without the column ``model``.
    """
    try:
        if path.stat().st_size > _MOST_FACTS:
            raise DataError(f"{path} has {path.stat().st_size:,} bytes; expected a CSV of at most {_MOST_FACTS:,}")
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV with a line for each model: {error}") from error
    if not lines or "model" not in lines[0]:
        raise DataError(f"{path} has no line or no column `model`; expected model,data and a line for each model")
    return {
        str(line["model"]).strip(): {
            str(name): (value or "").strip() for name, value in line.items() if name not in (None, "model")
        }
        for line in lines
    }


def _check_facts(facts: Mapping[str, Any], models: Mapping[str, Sequence[_Run]]) -> None:
    names = [str(runs[0].model["name"]) for runs in models.values()]
    if facts and not any(name in facts for name in names):
        raise DataError(
            f"the facts of models name {', '.join([*facts][:3])} …; the predictions are of {', '.join(names)}"
        )


def _group(model: Mapping[str, Any], by: str, facts: Mapping[str, Mapping[str, str]]) -> str:
    """The group of a model; empty without groups."""
    about = {**model, **{name: value for name, value in facts.get(str(model["name"]), {}).items() if value}}
    if by == "size" and not facts.get(str(model["name"]), {}).get("size"):
        return size_class(parameter_count(about.get("parameters")))
    return (str(about.get(by) or NOT_STATED)) if by else ""


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"


def _bounds(bounds: Sequence[float] | None) -> str:
    return MISSING if bounds is None else " – ".join(f"{bound:.2f}" for bound in bounds)


def _whisker(value: Value) -> Any:
    """The lengths of an interval below and above a value, in per cent, as matplotlib takes them."""
    if value.interval is None:
        return None
    low, high = value.interval
    return [[100 * max(value.value - low, 0)], [100 * max(high - value.value, 0)]]


def _cell_text(text: str) -> str:
    """A name as a cell of a CSV that no spreadsheet reads as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t") else text
