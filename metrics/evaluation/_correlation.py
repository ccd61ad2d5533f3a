"""The correlation of scores over models as a document: `Correlation`, its verdicts, tables and plot."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
from ..common.errors import UnknownNameError
from ..common.figures import as_file, colours
from ..common.formatting import MISSING, interval, p_value, percent, words
from ..common.storage import write_atomically, write_text
from ..estimation.correlation import FEWEST, FEWEST_WITH_INTERVAL
from ..records.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {"pearson": "Pearson's r", "spearman": "Spearman's ρ", "kendall": "Kendall's τ"}
ALL = "all models"
_ENDS = ("", " low", " high")
_HOW = (
    "{} intervals. Over models: models and images are resampled, each independently: would other models like these, on "
    "other images, show it? These models: images alone are resampled, the same for all models. p: of Spearman's ρ over "
    "orders of the models. Models of one family or of the same training data are no independent sample: both are then "
    "too sure."
)
_FEW_MODELS = (
    f" Fewer than {FEWEST} models have no correlation (of three, one order in three rises or falls throughout), and "
    f"fewer than {FEWEST_WITH_INTERVAL} no interval: most resamples of four models hold three or fewer different ones."
)


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
        """Return whether predictions are of the task."""
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
    """The correlation of a score up with that across, of all models or of a group: see ``estimation.correlation``."""

    up: ScoreName
    group: str
    result: dict[str, Any]


@dataclass(frozen=True, repr=False)
class Correlation(Document):
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
    by: str
    left_out: dict[str, str]
    notes: list[str]
    options: dict[str, Any]

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
        named = f": {', '.join(rising)}" if rising else ""
        n = whole[0].result["n"]
        return f"{len(rising)} of {len(whole)} scores rise with {self.across} over {n} models{named}."

    def __repr__(self) -> str:
        return "\n".join(["Correlation:", *(f"  {verdict}" for verdict in self.verdicts)])

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
        files = [page, table, *[picture] * picture.exists()]
        alt = in_a_line(f"{self.across} and {self.up[0]}")
        figure = [Markdown(f"![{alt}]({picture.name})")] * (picture in files)
        write_text(page, to_markdown([*self.document(), *figure]))
        return files

    def document(self) -> list[Part]:
        """The verdicts, the models with their scores, and the correlations."""
        several = [Verdict(verdict) for verdict in self.verdicts if len(self.up) > 1]
        return [Verdict(self.verdict), *several, self._models_table(), self._correlations_table()]

    def _models_table(self) -> Table:
        columns = [Column(str(name), (INTERVAL,)) for name in (self.across, *self.up)]
        grouped = [Column(words(self.by), is_text=True)] if self.by else []
        rows = []
        for number, point in enumerate(self.points):
            cells = [Cell(percent(each.value), (interval(each.interval),)) for each in point.values]
            is_first = point.is_baseline and number > 0 and not self.points[number - 1].is_baseline
            rows.append(TableRow(point.model, (*cells, *[Cell(point.group)] * bool(self.by)), starts_group=is_first))
        note = f"Scores in per cent with their {self._level} intervals (bootstrap over images)."
        if any(point.is_baseline for point in self.points):
            note += " Baselines come last and are in no correlation."
        note += "".join(f" Left out: {model}, which lacks {why}." for model, why in self.left_out.items())
        note = " ".join([note, *self.notes])
        return Table("Models", (*columns, *grouped), tuple(rows), note, corner="model")

    def _correlations_table(self) -> Table:
        lines = []
        for each in self.found:
            names = [str(each.up)] * (len(self.up) > 1) + [each.group or ALL] * (len(self.up) == 1 or bool(self.by))
            cells = []
            for kind in KINDS:
                bounds = [each.result[f"{kind}{over}_interval"] for over in ("", "_examples")]
                cells.append(Cell(_number(each.result[kind]), tuple(map(_bounds, bounds))))
            cells += [Cell(p_value(each.result["p_value"]) or MISSING), Cell(str(each.result["n"]))]
            lines.append(TableRow(", ".join(names), tuple(cells)))
        kinds = [Column(name, ("over models", "these models")) for name in KINDS.values()]
        shown = (*kinds, Column("p (ρ)"), Column("models"))
        is_few = any(each.result["n"] < FEWEST_WITH_INTERVAL for each in self.found)
        note = _HOW.format(self._level) + _FEW_MODELS * is_few
        return Table(f"Correlation with {self.across}", shown, tuple(lines), note, has_details_below=True)

    @property
    def _level(self) -> str:
        return f"{100 * self.options['confidence']:g} %"

    def _direction(self, result: Mapping[str, Any]) -> int:
        """1 where the scores rise together, -1 where one falls as the other rises, 0 where the models cannot tell."""
        bounds, p = result["spearman_interval"], result["p_value"]
        if bounds is None or p > 1 - self.options["confidence"] + 1e-12:
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
            p = p_value(result["p_value"])
            shown += f", {self._level} [{_bounds(result['spearman_interval']).replace(' – ', ', ')}]"
            shown += f", p {p if p.startswith('<') else f'= {p}'}"
        else:
            shown += f"; an interval takes {FEWEST_WITH_INTERVAL} models or more"
        direction = self._direction(result)
        if direction:
            how = "rise together" if direction > 0 else "oppose each other: one falls as the other rises,"
            return f"{both} {how} over these {n} models: {shown}."
        return f"These {n} models cannot tell whether {both} rise together: {shown}."


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
