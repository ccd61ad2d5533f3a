"""Items of the papers that are no table of models: figures and sums, from printed values, data or predictions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...hub_datasets import correlate
from ...hub_datasets.core.audits import read_audit
from ...hub_datasets.core.benchmarks import benchmark_names
from ...hub_datasets.core.examples import Example
from ...hub_datasets.published.tables import Column, get_table, number
from ...metrics.common.documents import Markdown, Part, simple_table
from ...metrics.common.errors import DataError, ModelError, PredictionsError
from ...metrics.common.figures import as_file, colours
from ...metrics.common.formatting import percent, words
from ...metrics.common.storage import write_atomically
from ...metrics.evaluation import ScoreName
from ...metrics.functional.symmetry import artifact_gap
from ...metrics.records.predictions import read_predictions
from ...metrics.records.schema import MatchingRow
from ...metrics.statistics.correlation import FEWEST
from .comparing import Comparison, examples_of
from .plans import FoundPredictions
from .report import Reproduction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Recall@1 and its deviation by data, model and score, then by condition, of which the first is without shuffles.
_Recalls = dict[tuple[str, str, str], dict[str, tuple[float, float]]]


@dataclass(frozen=True)
class Material:
    """The input of an analysis.

    Args:
        folder: where its figures go.
        predictions: predictions of any tasks.
        compared: tables that were compared, by name.
        data_dir: the user's copies of sources, a folder for each benchmark; None for what was built before.
        options: fields of the builders' configurations.
    """

    folder: Path
    predictions: Sequence[FoundPredictions] = ()
    compared: Mapping[str, Reproduction] = field(default_factory=dict)
    data_dir: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def examples(self, task: str) -> list[Example]:
        """Return the examples of a task, without images; raises `DataError` if they are not here."""
        return examples_of(task, self.data_dir, self.options)

    def ours(self, table: str) -> dict[tuple[str, str], Comparison]:
        """Return our values of a table by the names of row and column; empty if it was not compared."""
        comparisons = self.compared[table].comparisons if table in self.compared else ()
        return {(one.row.name, one.column.name): one for one in comparisons if one.ours is not None}

    def draw(self, name: str, draw: Callable[[Figure], None], size: tuple[float, float]) -> str:
        """Draw a figure of a size in inches to a file of that name, and return a Markdown link to it.

        Raises:
            ModelError: matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ModelError("figures need matplotlib: pip install 'vl-assay[plots]'") from error
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        write_atomically(self.folder / f"{name}.png", as_file(figure))
        return Markdown(f"![{name}]({name}.png)")


def _draw_bars(
    axes: Axes,
    names: Sequence[str],
    bars: Mapping[str, Sequence[float]],
    errors: Mapping[str, Sequence[float]] | None = None,
    *,
    is_horizontal: bool = False,
) -> dict[str, list[float]]:
    """Draw a group of bars for each name, with a bar for each label, and return the places of the bars by label.

    `bars` and `errors` (half lengths of error bars) have a value for each name; NaN leaves a gap.
    """
    width = 0.8 / len(bars)
    places = {}
    for index, (label, colour) in enumerate(colours([*bars]).items()):
        places[label] = [place + width * (index - (len(bars) - 1) / 2) for place in range(len(names))]
        draw = axes.barh if is_horizontal else axes.bar
        draw(places[label], bars[label], 0.9 * width, color=colour, label=label, yerr=errors and errors[label])
    (axes.set_yticks if is_horizontal else axes.set_xticks)(range(len(names)), names)
    return places


# ARO's Table 1: the caption, and the paper's words for the shuffles.
CAPTION = "remarkable scene with a blue ball behind a green chair"
_SHUFFLES = {
    "shuffle_nouns_and_adjectives": "Shuffle nouns and adjectives",
    "shuffle_all_but_nouns_and_adjectives": "Shuffle everything but nouns and adjectives",
    "shuffle_trigrams": "Shuffle trigrams",
    "shuffle_within_trigrams": "Shuffle words within each trigram",
}


def perturbations(_: Material) -> list[Part]:
    """Perturb the caption of ARO's Table 1."""
    from ...hub_datasets.authoring.text.perturb import perturb

    perturbed = perturb([CAPTION], list(_SHUFFLES)).perturbed
    rows = [(shown, perturbed[name][0] or "unchanged") for name, shown in _SHUFFLES.items()]
    note = "The permutations are other draws than the paper's."
    return [simple_table(("Perturbation Type", "Example"), [("Original Caption", CAPTION), *rows], note=note)]


def retrieval_without_order(material: Material) -> list[Part]:
    """Draw ARO's Figure 2, from Tables 3 and 4: Recall@1 with shuffled captions and images, and the largest drops."""
    parts: list[Part] = []
    for name, kind in (("aro-3", "text"), ("aro-4", "image")):
        table = get_table(name)
        recalls: _Recalls = {}
        for row in table.rows:
            for column, text in table.cells(row):
                data, condition, score = re.split(", |: ", column.name)
                if score.endswith("@1"):
                    by_condition = recalls.setdefault((data, row.label, score), {})
                    by_condition[condition] = number(text), float(text.partition("±")[2] or 0)
        parts += [_largest_drops(recalls, kind)]
        parts += [material.draw(f"aro-figure-2-{kind}", lambda figure, of=recalls: _draw_recalls(figure, of), (13, 7))]
        if ours := material.ours(name):
            rows = [(f"{row}, {column}", one.printed, f"{one.ours:.3f}") for (row, column), one in ours.items()]
            parts.append(simple_table(("", "published", "ours"), rows, title=f"Ours, {kind} shuffles", numbers=True))
    return parts


def _largest_drops(recalls: _Recalls, kind: str) -> Part:
    rows = []
    for key, by_condition in recalls.items():
        (_, (plain, _)), *shuffled = by_condition.items()
        worst, (value, _) = min(shuffled, key=lambda item: item[1])
        rows.append((", ".join(key), f"{plain:.3f}", worst, f"{value:.3f}", f"{100 * value / plain:.0f} %"))
    title = f"Recall@1 with the {kind} shuffle that lowers it most (published)"
    return simple_table(("", "no shuffling", "shuffle", "shuffled", "is left"), rows, title=title)


def _draw_recalls(figure: Figure, recalls: _Recalls) -> None:
    """Draw a panel for each set and direction, with a group of bars for each condition and a bar for each model."""
    panels = dict.fromkeys((data, score) for data, _, score in recalls)
    for axes, (data, score) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        own = {model: cells for (of, model, name), cells in recalls.items() if (of, name) == (data, score)}
        conditions = list(dict.fromkeys(condition for cells in own.values() for condition in cells))
        cells = {model: [by.get(each, (math.nan, 0)) for each in conditions] for model, by in own.items()}
        values, errors = ({model: [cell[part] for cell in of] for model, of in cells.items()} for part in (0, 1))
        _draw_bars(axes, [name.replace("Shuffle ", "") for name in conditions], values, errors)
        axes.set(title=data, ylabel=score, ylim=(0, 1))
        axes.tick_params("x", labelsize=7)
    figure.axes[0].legend(fontsize=7, ncols=4)


def negclip_profile(material: Material) -> list[Part]:
    """Draw ARO's Figure 3, from Table 6: CLIP, CLIP fine-tuned and NegCLIP on the benchmark and on other tasks."""
    table = get_table("aro-6")
    rows, ours = {row.label: table.values(row) for row in table.rows}, material.ours("aro-6")
    names = [column.name for column in table.columns]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        bars = {label: [row[name] for name in names] for label, row in rows.items()}
        for label, places in _draw_bars(axes, names, bars, is_horizontal=True).items():
            if known := [(ours[label, n].ours, y) for n, y in zip(names, places, strict=True) if (label, n) in ours]:
                axes.plot(*zip(*known, strict=True), "k|", label=f"{label}, ours")
        axes.invert_yaxis()
        axes.set(xlabel="score", xlim=(0, 1))
        axes.legend()

    gains = [
        (name, *(f"{row[name]:.2f}" for row in rows.values()), f"{rows['NegCLIP'][name] - rows['CLIP'][name]:+.2f}")
        for name in names
    ]
    printed = simple_table(("", *rows, "NegCLIP - CLIP"), gains, title="Published", numbers=True)
    return [printed, material.draw("aro-figure-3", draw, (8, 6))]


# What the models of Hard Positives' Table 1 (b) were fine-tuned on (section 4.1).
_HARD_NEGATIVES = {
    "NegCLIP": "SWAP", "CREPE-Swap": "SWAP", "CREPE-Replace": "REPLACE", "SVLC": "REPLACE", "SVLC+Pos": "REPLACE",
    "DAC-LLM": "REPLACE", "DAC-SAM": "REPLACE",
}  # fmt: skip


class _Shares(NamedTuple):
    """Shares of examples in per cent, by which of the original caption and the hard positive beat the hard negative."""

    both: float
    original: float
    positive: float
    neither: float


def rank_shares(original: float, augmented: float, brittleness: float) -> _Shares:
    """Return which captions beat the hard negative, from the three scores of Hard Positives, all in per cent.

    The augmented accuracy is the share with both. The original accuracy counts the examples in which the original
    caption beats it, so that its difference is the share of the original alone; the other brittle examples are the
    share of the hard positive alone.

    >>> [round(share, 1) for share in rank_shares(87.6, 48.9, 40.1)]
    [48.9, 38.7, 1.4, 11.0]
    """
    alone = original - augmented
    return _Shares(augmented, alone, brittleness - alone, 100 - augmented - brittleness)


def ranking(material: Material) -> list[Part]:
    """Return the rank shares of Hard Positives' models, from Tables 1, 7 and 8, and the averages of section 4.2."""
    parts = [_averages()]
    for name in ("hard-positives-1", "hard-positives-7", "hard-positives-8"):
        table, ours = get_table(name), material.ours(name)
        rows = []
        for row in table.rows:
            own = {column: 100 * float(one.ours or 0) for (model, column), one in ours.items() if model == row.name}
            for label, values in ((row.name, table.values(row)), (f"{row.name}, ours", own)):
                # Sums of rounded values may miss zero by a last digit.
                rows += [
                    (f"{label}, {part}", *(f"{share:.1f}".replace("-0.0", "0.0") for share in shares))
                    for part, shares in _by_part(values).items()
                ]
        headings = ("", "both", "original alone", "hard positive alone", "neither")
        title = f"Captions that beat the hard negative, % of examples (from Table {table.number})"
        parts.append(simple_table(headings, rows, title=title, numbers=True))
    return [*parts, material.draw("hard-positives-ranks", _draw_shares, (11, 5))]


def _by_part(values: Mapping[str, float]) -> dict[str, _Shares]:
    names = ("Orig. Test Acc.", "Aug. Test Acc.", "Brittleness")
    parts = dict.fromkeys(name.split()[0] for name in values)
    complete = [part for part in parts if all(f"{part} {name}" in values for name in names)]
    return {part: rank_shares(*(values[f"{part} {name}"] for name in names)) for part in complete}


def _draw_shares(figure: Figure) -> None:
    table = get_table("hard-positives-1")
    shares = {row.name: _by_part(table.values(row)) for row in table.rows}
    for axes, form in zip(figure.subplots(1, 2, sharey=True), ("REPLACE", "SWAP"), strict=True):
        left = [0.0] * len(shares)
        for name, colour in colours(_Shares._fields).items():
            widths = [getattr(own[form], name) for own in shares.values()]
            axes.barh([*shares], widths, left=left, color=colour, label=name)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set(title=form, xlabel="% of examples")
    figure.axes[0].invert_yaxis()  # of both panels, which share it
    figure.axes[0].legend(fontsize=7)


def _averages() -> Part:
    """Compute what section 4.2 says of fine-tuning on hard negatives, from Table 1."""
    table = get_table("hard-positives-1")
    values = {row.label: table.values(row) for row in table.rows}

    def drop(form: str, *models: str) -> float:
        own = [values[model] for model in models]
        return fmean(row[f"{form} Orig. Test Acc."] - row[f"{form} Aug. Test Acc."] for row in own)

    def brittle(trained: str, tested: str) -> float:
        own = [model for model, form in _HARD_NEGATIVES.items() if form == trained]
        return fmean(values[model][f"{tested} Brittleness"] for model in own)

    averages = {
        "mean drop with hard negatives, REPLACE": (24.4, drop("REPLACE", *_HARD_NEGATIVES)),
        "mean drop with hard negatives, SWAP": (12.5, drop("SWAP", *_HARD_NEGATIVES)),
        "drop of CLIP, REPLACE": (14.9, drop("REPLACE", "CLIP ViT-B/32")),
        "drop of CLIP, SWAP": (10.9, drop("SWAP", "CLIP ViT-B/32")),
        "brittleness on SWAP, trained on REPLACE": (23.2, brittle("REPLACE", "SWAP")),
        "brittleness on REPLACE, trained on SWAP": (20.7, brittle("SWAP", "REPLACE")),
    }
    rows = [(name, f"{printed:.1f}", f"{ours:.2f}") for name, (printed, ours) in averages.items()]
    return simple_table(("", "section 4.2", "from Table 1"), rows, title="Averages in points", numbers=True)


# The sources of SugarCrepe's Figures 1 and 4, the horizontal axis of Figure 5, and the correlations that section 5.3
# prints: of the other categories it says "r > 0.8".
_EXISTING = (
    *("crepe/productivity_replace", "crepe/productivity_swap", "crepe/productivity_negate"),
    *("aro/relation", "aro/attribution", "aro/coco_order", "aro/flickr30k_order", "vl_checklist/itm"),
)
_REFINEMENT = ("aro_crepe/itm", "sugarcrepe/unrefined", "sugarcrepe/itm")
_IMAGENET = Column("ImageNet", "zero_shot/imagenet", "zero_shot_accuracy", ("acc_at_1",), "micro")
_PRINTED_R = {"SWAP Object": "0.78", "ADD Attribute": "0.75"}


def blind_against_clip(material: Material) -> list[Part]:
    """Draw SugarCrepe's Figure 2, from Table 8: the blind models and the best CLIP model of each source, by task."""
    table = get_table("sugarcrepe-8")
    tasks = [column.name for column in table.columns]
    shown = {row.label: table.values(row) for row in table.rows if row.group.startswith("Text")}
    blind = set(shown)
    for source in dict.fromkeys(row.group for row in table.rows if not row.group.startswith("Text")):
        own = [table.values(row) for row in table.rows if row.group == source]
        shown[f"{source}, best"] = {task: max(values[task] for values in own) for task in tasks}
    won = [task for task in tasks if max(shown, key=lambda name: shown[name][task]) in blind]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        bars = {name: [values[task] for task in tasks] for name, values in shown.items()}
        _draw_bars(axes, [task.replace(" ", "\n", 1) for task in tasks], bars)
        axes.tick_params("x", labelsize=7)
        axes.set(ylabel="accuracy, %")
        axes.legend(fontsize=7)

    rows = [
        (task, *(f"{each[task]:.2f}" for each in shown.values()), "blind" if task in won else "CLIP") for task in tasks
    ]
    note = f"A blind model is the best on {len(won)} of {len(tasks)} tasks; the paper says 9 out of 10."
    printed = simple_table(("", *shown, "best"), rows, title="Published", note=note, numbers=True)
    return [printed, material.draw("sugarcrepe-figure-2", draw, (12, 4.5))]


def existing_gaps(material: Material) -> list[Part]:
    """Draw SugarCrepe's Figure 1: gaps of blind models' scores on the benchmarks before it."""
    return _gaps(material, _EXISTING, "sugarcrepe-figure-1")


def refinement_gaps(material: Material) -> list[Part]:
    """Draw SugarCrepe's Figure 4: such gaps on ARO+CREPE, before and after refinement; and show the shipped audits."""
    audits = read_audit("sugarcrepe") or {}
    before, after = audits["sugarcrepe/unrefined"]["scorers"], audits["sugarcrepe"]["scorers"]
    rows = [(words(name), percent(before[name]["accuracy"]), percent(after[name]["accuracy"])) for name in after]
    note = (
        "Accuracy in % without the image, where 50 is chance: rules and cross-validated probes of our audit. The "
        "paper's refinement balanced two other scorers, Vera and a grammar model."
    )
    headings = ("scorer", "before refinement", "after")
    table = simple_table(headings, rows, title="Text-only scorers", note=note, numbers=True)
    try:
        return [table, *_gaps(material, _REFINEMENT, "sugarcrepe-figure-4")]
    except PredictionsError as error:
        return [table, f"Of Vera and the grammar model: {error}."]


def _gaps(material: Material, tasks: Sequence[str], name: str) -> list[Part]:
    """Compare the score of the positive caption with that of each hard negative, by blind model and task.

    Raises:
        PredictionsError: there are no predictions of a model that sees no images.
    """
    scores: dict[tuple[str, str], NDArray[np.float64]] = {}
    for path, task, _, model in material.predictions:
        if task in tasks and model.get("sees_images") is False:
            scores[str(model["name"]), task] = _pairs(path)
    if not scores:
        raise PredictionsError(
            "no predictions of models that see no images, such as Vera, which vl-assay predict makes, on "
            + ", ".join(tasks)
        )
    rows = []
    for (model, task), pairs in sorted(scores.items()):
        gap = artifact_gap(pairs, np.zeros(len(pairs), int), ties="half", permutations=100)
        numbers = (percent(gap["accuracy"]), f"{gap['mean_gap']:.3f}", f"{gap['asymmetry']:.3f}", f"{len(pairs):,}")
        rows.append((f"{model}, {task}", *numbers))
    models, shown = (list(dict.fromkeys(key[part] for key in scores)) for part in (0, 1))

    def draw(figure: Figure) -> None:
        """Draw a row of histograms for each model and a column for each task, symmetric around zero."""
        panels = figure.subplots(len(models), len(shown), squeeze=False)
        for (model, task), pairs in scores.items():
            axes, gaps = panels[models.index(model)][shown.index(task)], pairs[:, 0] - pairs[:, 1]
            limit = float(np.abs(gaps).max()) or 1.0
            axes.hist(gaps, np.linspace(-limit, limit, 42), color=colours([model])[model])
            axes.axvline(0, color="0.5")
            axes.set(title=task, xlabel=f"score gap, {model}")
            axes.title.set_fontsize(8)

    headings = ("", "positive higher, %", "mean gap", "asymmetry", "pairs")
    table = simple_table(headings, rows, title="Gaps of blind models", numbers=True)
    return [table, material.draw(name, draw, (3.2 * len(shown) + 1, 5))]


def _pairs(path: Path) -> NDArray[np.float64]:
    """Return the scores of positive captions with those of each of their hard negatives, of shape (pairs, 2)."""
    pairs = []
    for row in read_predictions(path).rows:
        if isinstance(row, MatchingRow) and row.scores is not None:
            [scores], [correct] = row.scores, row.correct
            pairs += [(scores[correct], score) for place, score in enumerate(scores) if place != correct]
    return np.array(pairs, np.float64).reshape(-1, 2)


def imagenet_correlation(material: Material, axis: Column = _IMAGENET) -> list[Part]:
    """Draw SugarCrepe's Figure 5: accuracy on ImageNet and on SugarCrepe, of the models with predictions of both.

    Args:
        material: the predictions.
        axis: the score of the horizontal axis.

    Raises:
        DataError: no benchmark here has that score.
        PredictionsError: too few models.
    """
    if axis.task.partition("/")[0] not in benchmark_names():
        raise DataError(f"{axis.task} is no benchmark here")
    columns = [each for each in get_table("sugarcrepe-6").columns if each.average == "category"]
    tasks = {column.task for column in (axis, *columns)}
    paths: dict[str, dict[str, list[Path]]] = {}
    for path, task, _, model in material.predictions:
        if task in tasks:
            paths.setdefault(str(model["name"]), {}).setdefault(task, []).append(path)
    complete = [by_task for by_task in paths.values() if by_task.keys() == tasks]
    if len(complete) < FEWEST:
        raise PredictionsError(
            f"{len(complete)} models have predictions on both {axis.task} and {columns[0].task}; a correlation takes "
            f"{FEWEST} or more"
        )
    both = [path for by_task in complete for paths in by_task.values() for path in paths]
    correlations = correlate(*both, across=_score(axis), up=[*map(_score, columns)], with_baselines=True)
    rows = []
    for column, each in zip(columns, correlations.found, strict=True):
        low, high = each.result["pearson_interval"] or (np.nan, np.nan)
        ours = "–" if each.result["pearson"] is None else f"{each.result['pearson']:.2f}"
        rows.append((column.name, _PRINTED_R.get(column.name, "> 0.8"), ours, f"{low:.2f} – {high:.2f}"))
    names = sorted(point.model for point in correlations.points)
    note = (
        f"Pearson's r over {len(names)} models, with 95 % intervals over models and images: {', '.join(names)}. "
        "vl-assay correlate makes the same of any two scores."
    )
    table = simple_table(("", "published r", "ours", "interval"), rows, note=note, numbers=True)
    return [table, material.draw("sugarcrepe-figure-5", correlations.draw, (8, 5.5))]


def _score(column: Column) -> ScoreName:
    benchmark, _, task = column.task.partition("/")
    category = column.score[1] if len(column.score) > 1 else ""
    return ScoreName(benchmark, task, column.metric, column.score[-1] if column.score else "", category)


def boxes(material: Material) -> list[Part]:
    """Draw TRICD's Figure 5: (a) where the boxes lie and how large they are, (b) boxes per phrase, in doubling bins."""
    corners: dict[str, list[tuple[float, ...]]] = {}
    counts: dict[str, Counter[int]] = {}
    for example in material.examples("tricd/val"):
        for phrase in example.phrases:
            corners.setdefault(example.category, []).extend(phrase.boxes)
            if phrase.boxes:
                counts.setdefault(example.category, Counter())[len(phrase.boxes).bit_length() - 1] += 1
    bins = range(max(number for each in counts.values() for number in each) + 1)
    names = ["1", *(f"{2**number}–{2 ** (number + 1) - 1}" for number in bins[1:])]
    rows = [(names[number], *(str(each[number]) for each in counts.values())) for number in bins]

    def draw(figure: Figure) -> None:
        places, numbers = figure.subplots(1, 2)
        for kind, colour in colours([*corners]).items():
            x1, y1, x2, y2 = np.array(corners[kind]).T
            size = (x2 - x1) * (y2 - y1) / 500
            places.scatter((x1 + x2) / 2, (y1 + y2) / 2, size, color=colour, alpha=0.4, label=words(kind))
        places.set(xlabel="x of the centre (pixels)", ylabel="y of the centre (pixels)")
        places.invert_yaxis()
        places.legend()
        _draw_bars(numbers, names, {kind: [counts[kind][number] for number in bins] for kind in corners})
        numbers.set(xlabel="boxes of a phrase", ylabel="phrases", yscale="log")

    headings = ("boxes of a phrase", *(f"phrases of {words(kind)}s" for kind in counts))
    note = "Of the validation set, which has no part from Winoground; the size of a marker is the area of its box."
    return [simple_table(headings, rows, note=note, numbers=True), material.draw("tricd-figure-5", draw, (10, 4.5))]


def phrase_words(material: Material) -> list[Part]:
    """Draw TRICD's Figure 8: the words of the phrases, the larger the more frequent."""
    phrases = [phrase.text for example in material.examples("tricd/val") for phrase in example.phrases]
    common = Counter(word for phrase in phrases for word in phrase.lower().split()).most_common(40)
    places = np.random.default_rng(0).permutation(len(common))

    def draw(figure: Figure) -> None:
        axes, lines = figure.subplots(), 8
        columns = -(-len(common) // lines)
        for (word, count), place in zip(common, places.tolist(), strict=True):
            x, y = divmod(place, lines)
            size = 7 + 14 * (count / common[0][1]) ** 0.5
            axes.text((x + 0.5) / columns, (y + 0.5) / lines, word, size=size, ha="center", va="center")
        axes.set_axis_off()

    listed = ", ".join(f"{word} ({count})" for word, count in common)
    text = f"The {len(common)} most frequent words of the validation set's {len(phrases)} phrases: {listed}."
    return [material.draw("tricd-figure-8", draw, (8, 4)), text]


# By the paper and the table or figure that an analysis belongs to.
ANALYSES: Mapping[tuple[str, str], Callable[[Material], list[Part]]] = {
    ("aro", "Table 1"): perturbations,
    ("aro", "Figure 2"): retrieval_without_order,
    ("aro", "Figure 3"): negclip_profile,
    ("hard-positives", "Table 1"): ranking,
    ("sugarcrepe", "Figure 1"): existing_gaps,
    ("sugarcrepe", "Figure 2"): blind_against_clip,
    ("sugarcrepe", "Figure 4"): refinement_gaps,
    ("sugarcrepe", "Figure 5"): imagenet_correlation,
    ("tricd", "Figure 5"): boxes,
    ("tricd", "Figure 8"): phrase_words,
}
