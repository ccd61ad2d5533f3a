"""Figures and derived values of the papers, from printed values, released data and predictions.

An analysis takes the `AnalysisInput` of a run and returns the parts of its section: tables, text, and matplotlib
figures, whose label is the name of their file. It raises a `VLAssayError` if data, predictions or matplotlib lack.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pandas import DataFrame
from scipy.stats import pearsonr

from ...hub_datasets.authoring.audit.summaries import read_audit
from ...hub_datasets.published.tables import PublishedColumn, get_table
from ...metrics.common.documents import Part, Table, simple_table
from ...metrics.common.errors import ModelError, PredictionsError
from ...metrics.common.figures import colours
from ...metrics.common.formatting import percent, words
from ...metrics.functional.symmetry import artifact_gap
from ...metrics.records.predictions import read_predictions
from ...metrics.records.schema import MatchingRow
from ...metrics.results.compute import compute
from .comparison import Reproduction, ValueComparison, examples_of, our_value
from .reproduce import ScannedPredictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Parts = list[Part | Figure]

# Recall@1 by dataset, model and direction, then by condition, of which the first is "No Shuffling".
_Recalls = dict[tuple[str, str, str], dict[str, float]]


class AnalysisInput(NamedTuple):
    """Predictions of any tasks, the compared tables by name, and `data_dir` and `options` as for `examples_of`."""

    predictions: Sequence[ScannedPredictions] = ()
    compared: Mapping[str, Reproduction] = MappingProxyType({})
    data_dir: Path | None = None
    options: Mapping[str, Any] | None = None

    def ours(self, table: str) -> list[ValueComparison]:
        """Return the comparisons of a table that have a value of ours; empty if it was not compared."""
        comparisons = self.compared[table].comparisons if table in self.compared else ()
        return [value for value in comparisons if value.ours is not None]


def _figure(name: str, width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches; `name` is its file's name without the suffix.

    Raises:
        ModelError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ModelError("figures need matplotlib: pip install 'vl-assay[plots]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.set_label(name)
    return figure


def _draw_bars(
    axes: Axes, values: Mapping[str, Mapping[str, float]], kind: Literal["bar", "barh"] = "bar", **options: Any
) -> None:
    """Draw a group of bars for each inner key of `values` and in it a bar for each outer key; `options` are pandas'."""
    style = {"rot": 0, "fontsize": 7, "width": 0.8, "color": [*colours([*values]).values()]}
    DataFrame(values).plot(kind=kind, ax=axes, **style, **options)


def _columns(values: Mapping[str, Mapping[str, float | str]], spec: str, corner: str = "", **options: str) -> Table:
    """Return a table with a column for each outer key; `spec` formats the numbers, `options` are `simple_table`'s."""

    def cell(value: float | str) -> str:
        return value if isinstance(value, str) else format(value, spec)

    rows = [(name, *(cell(column[name]) for column in values.values())) for name in next(iter(values.values()))]
    return simple_table((corner, *values), rows, numbers=True, **options)


def _published(table: str) -> dict[str, dict[str, float]]:
    """Return the printed values of a table as numbers, by row and column."""
    return {row.name: get_table(table).values(row) for row in get_table(table).rows}


# ARO's Table 1: the caption, and the paper's words for the shuffles.
CAPTION = "remarkable scene with a blue ball behind a green chair"
_SHUFFLES = {
    "shuffle_nouns_and_adjectives": "Shuffle nouns and adjectives",
    "shuffle_all_but_nouns_and_adjectives": "Shuffle everything but nouns and adjectives",
    "shuffle_trigrams": "Shuffle trigrams",
    "shuffle_within_trigrams": "Shuffle words within each trigram",
}


def perturbations(_: AnalysisInput) -> Parts:
    """Perturb the caption of ARO's Table 1."""
    from ...hub_datasets.authoring.text.perturb import perturb

    perturbed = perturb([CAPTION], list(_SHUFFLES)).perturbed
    rows = [(shown, perturbed[name][0] or "unchanged") for name, shown in _SHUFFLES.items()]
    note = "The permutations are other draws than the paper's."
    return [simple_table(("Perturbation Type", "Example"), [("Original Caption", CAPTION), *rows], note=note)]


def retrieval_without_order(source: AnalysisInput) -> Parts:
    """Draw ARO's Figure 2, from Tables 3 and 4: Recall@1 with shuffled captions and images, and the largest drops."""
    parts: Parts = []
    for name, kind in (("aro-3", "text"), ("aro-4", "image")):
        recalls: _Recalls = {}
        for row in get_table(name).rows:
            for column, recall in get_table(name).values(row).items():
                data, condition, score = re.split(", |: ", column)
                if score.endswith("@1"):
                    recalls.setdefault((data, row.label, score), {})[condition] = recall
        parts += [_largest_drops(recalls, kind), _draw_recalls(recalls, f"aro-figure-2-{kind}")]
        if ours := source.ours(name):
            rows = [(f"{value.row.name}, {value.column.name}", value.printed, f"{value.ours:.3f}") for value in ours]
            parts.append(simple_table(("", "published", "ours"), rows, title=f"Ours, {kind} shuffles", numbers=True))
    return parts


def _largest_drops(recalls: _Recalls, kind: str) -> Part:
    rows = []
    for key, by_condition in recalls.items():
        (_, plain), *shuffled = by_condition.items()
        worst, recall = min(shuffled, key=lambda item: item[1])
        rows.append((", ".join(key), f"{plain:.3f}", worst, f"{recall:.3f}", f"{100 * recall / plain:.0f} %"))
    title = f"Recall@1 with the {kind} shuffle that lowers it most (published)"
    return simple_table(("", "no shuffling", "shuffle", "shuffled", "is left"), rows, title=title)


def _draw_recalls(recalls: _Recalls, name: str) -> Figure:
    """Draw a panel for each dataset and direction, with a group of bars for each condition and a bar for each model."""
    figure = _figure(name, 13, 7)
    panels: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for (data, model, score), by_condition in recalls.items():
        panels.setdefault((data, score), {})[model] = by_condition
    for axes, ((data, score), bars) in zip(figure.subplots(2, 2).flat, panels.items(), strict=True):
        _draw_bars(axes, bars, title=data, ylabel=score, ylim=(0, 1))
    return figure


def negclip_profile(source: AnalysisInput) -> Parts:
    """Draw ARO's Figure 3, from Table 6: CLIP, CLIP fine-tuned and NegCLIP on the benchmark and on other tasks."""
    values = _published("aro-6")
    gains = {name: f"{values['NegCLIP'][name] - value:+.2f}" for name, value in values["CLIP"].items()}
    table = _columns({**values, "NegCLIP - CLIP": gains}, ".2f", title="Published")
    for value in source.ours("aro-6"):
        values.setdefault(f"{value.row.name}, ours", {})[value.column.name] = value.ours or 0.0
    figure = _figure("aro-figure-3", 8, 6)
    _draw_bars(figure.subplots(), values, "barh", xlabel="score", xlim=(0, 1))
    return [table, figure]


# Data on which the models of Hard Positives' Table 1 (b) were fine-tuned (section 4.1).
_HARD_NEGATIVES = {
    "NegCLIP": "SWAP", "CREPE-Swap": "SWAP", "CREPE-Replace": "REPLACE", "SVLC": "REPLACE", "SVLC+Pos": "REPLACE",
    "DAC-LLM": "REPLACE", "DAC-SAM": "REPLACE",
}  # fmt: skip


def rank_shares(original: float, augmented: float, brittleness: float) -> dict[str, float]:
    """Return the shares of examples by the captions that beat the hard negative, in per cent.

    The arguments are the three scores of Hard Positives, in per cent. The augmented accuracy counts the examples in
    which both captions beat the hard negative. The original accuracy counts those and the examples in which only the
    original caption does. The other brittle examples are those in which only the hard positive does.

    >>> [round(share, 1) for share in rank_shares(87.6, 48.9, 40.1).values()]
    [48.9, 38.7, 1.4, 11.0]
    """
    alone = original - augmented
    return {
        "both": augmented,
        "original alone": alone,
        "hard positive alone": brittleness - alone,
        "neither": 100 - augmented - brittleness,
    }


def _shares_by_subset(values: Mapping[str, float]) -> dict[str, dict[str, float]]:
    names = ("Orig. Test Acc.", "Aug. Test Acc.", "Brittleness")
    subsets = dict.fromkeys(name.split()[0] for name in values)
    complete = [subset for subset in subsets if all(f"{subset} {name}" in values for name in names)]
    return {subset: rank_shares(*(values[f"{subset} {name}"] for name in names)) for subset in complete}


def ranking(source: AnalysisInput) -> Parts:
    """Return the rank shares of Hard Positives' models, from Tables 1, 7 and 8, and the averages of section 4.2."""
    parts: Parts = [_averages()]
    figure, by_rank = _figure("hard-positives-ranks", 9, 9), {rank: {} for rank in rank_shares(0, 0, 0)}
    for table in ("hard-positives-1", "hard-positives-7", "hard-positives-8"):
        rows, ours = [], {}
        for value in source.ours(table):
            ours.setdefault(value.row.name, {})[value.column.name] = 100 * (value.ours or 0.0)
        for model, published in _published(table).items():
            for label, values in ((model, published), (f"{model}, ours", ours.get(model, {}))):
                for subset, shares in _shares_by_subset(values).items():
                    # Sums of rounded values may miss zero by a last digit.
                    cells = (f"{share:.1f}".replace("-0.0", "0.0") for share in shares.values())
                    rows.append((f"{label}, {subset}", *cells))
                    for rank, share in shares.items() if table == "hard-positives-1" else ():
                        by_rank[rank][f"{label}, {subset}"] = share
        title = f"Captions that beat the hard negative, % of examples (from Table {get_table(table).number})"
        parts.append(simple_table(("", *by_rank), rows, title=title, numbers=True))
    _draw_bars(figure.subplots(), by_rank, "barh", stacked=True, xlabel="% of examples")
    return [*parts, figure]


def _averages() -> Part:
    """Compute from Table 1 the averages that section 4.2 gives for fine-tuning on hard negatives."""
    values, rows = _published("hard-positives-1"), []

    def drop(form: str, *models: str) -> float:
        scores = [values[model] for model in models]
        return fmean(row[f"{form} Orig. Test Acc."] - row[f"{form} Aug. Test Acc."] for row in scores)

    for form, printed in (("REPLACE", "24.4"), ("SWAP", "12.5")):
        rows.append((f"mean drop with hard negatives, {form}", printed, f"{drop(form, *_HARD_NEGATIVES):.2f}"))
    for form, printed in (("REPLACE", "14.9"), ("SWAP", "10.9")):
        rows.append((f"drop of CLIP, {form}", printed, f"{drop(form, 'CLIP ViT-B/32'):.2f}"))
    for tested, trained, printed in (("SWAP", "REPLACE", "23.2"), ("REPLACE", "SWAP", "20.7")):
        models = [model for model, form in _HARD_NEGATIVES.items() if form == trained]
        brittleness = fmean(values[model][f"{tested} Brittleness"] for model in models)
        rows.append((f"brittleness on {tested}, trained on {trained}", printed, f"{brittleness:.2f}"))
    return simple_table(("", "section 4.2", "from Table 1"), rows, title="Averages in points", numbers=True)


# The sources of SugarCrepe's Figures 1 and 4, the horizontal axis of Figure 5, and the correlations that section 5.3
# prints; for the other categories it prints "r > 0.8".
_EXISTING = (
    *("crepe/productivity_replace", "crepe/productivity_swap", "crepe/productivity_negate"),
    *("aro/relation", "aro/attribution", "aro/coco_order", "aro/flickr30k_order", "vl_checklist/itm"),
)
_REFINEMENT = ("aro_crepe/itm", "sugarcrepe/unrefined", "sugarcrepe/itm")
_IMAGENET = PublishedColumn("ImageNet", "zero_shot/imagenet", "zero_shot_accuracy", ("acc_at_1",), "micro")
_PRINTED_R = {"SWAP Object": "0.78", "ADD Attribute": "0.75"}
# With three models, one ordering in three is monotonic by chance.
_FEWEST_MODELS = 4


def blind_against_clip(_: AnalysisInput) -> Parts:
    """Draw SugarCrepe's Figure 2, from Table 8: the blind models and the best CLIP model of each source, by task."""
    shown: dict[str, dict[str, float]] = {}
    blind = [row.label for row in get_table("sugarcrepe-8").rows if row.group.startswith("Text")]
    for row in get_table("sugarcrepe-8").rows:
        best = shown.setdefault(row.label if row.label in blind else f"{row.group}, best", {})
        for task, value in get_table("sugarcrepe-8").values(row).items():
            best[task] = max(value, best.get(task, value))
    winner = {task: max(shown, key=lambda name: shown[name][task]) for task in shown[blind[0]]}
    kinds = {task: "blind" if name in blind else "CLIP" for task, name in winner.items()}
    won = [*kinds.values()].count("blind")
    note = f"A blind model is the best on {won} of {len(kinds)} tasks; the paper says 9 out of 10."
    table = _columns({**shown, "best": kinds}, ".2f", title="Published", note=note)
    figure = _figure("sugarcrepe-figure-2", 12, 4.5)
    _draw_bars(figure.subplots(), shown, ylabel="accuracy, %")
    return [table, figure]


def refinement_gaps(source: AnalysisInput) -> Parts:
    """Draw SugarCrepe's Figure 4: the gaps on ARO+CREPE before and after refinement; and show the shipped audits."""
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
        return [table, *score_gaps(source, _REFINEMENT, "sugarcrepe-figure-4")]
    except PredictionsError as error:
        return [table, f"Of Vera and the grammar model: {error}."]


def score_gaps(source: AnalysisInput, tasks: Sequence[str] = _EXISTING, name: str = "sugarcrepe-figure-1") -> Parts:
    """Draw SugarCrepe's Figure 1: gaps between the scores of a caption and its hard negatives, by blind model and task.

    Raises:
        PredictionsError: there are no predictions of a model that sees no images.
    """
    paths = {
        (str(model["name"]), task): path
        for path, task, _, model in source.predictions
        if task in tasks and model.get("sees_images") is False
    }
    if not paths:
        raise PredictionsError(
            "no predictions of models that see no images, such as Vera, which vl-assay predict makes, on "
            + ", ".join(tasks)
        )
    panels, rows = min(len(paths), 4), []
    figure = _figure(name, 3.2 * panels + 1, 2.5 * -(-len(paths) // panels) + 1)
    for index, ((model, task), path) in enumerate(sorted(paths.items())):
        pairs = np.array(list(_pairs(path)), np.float64).reshape(-1, 2)
        gap = artifact_gap(pairs, np.zeros(len(pairs), int), ties="half", permutations=100)
        scores = (percent(gap["accuracy"]), f"{gap['mean_gap']:.3f}", f"{gap['asymmetry']:.3f}", f"{len(pairs):,}")
        rows.append((f"{model}, {task}", *scores))
        axes, gaps = figure.add_subplot(-(-len(paths) // panels), panels, index + 1), pairs[:, 0] - pairs[:, 1]
        limit = float(np.abs(gaps).max()) or 1.0
        axes.hist(gaps, bins=41, range=(-limit, limit))
        axes.axvline(0, color="0.5")
        axes.set_title(task, fontsize=8)
        axes.set_xlabel(f"score gap, {model}")
    headings = ("", "positive higher, %", "mean gap", "asymmetry", "pairs")
    return [simple_table(headings, rows, title="Gaps of blind models", numbers=True), figure]


def _pairs(path: Path) -> Iterator[tuple[float, float]]:
    """Yield the score of each positive caption with the score of each of its hard negatives."""
    for row in read_predictions(path).rows:
        if isinstance(row, MatchingRow) and row.scores is not None:
            [scores], [correct] = row.scores, row.correct
            yield from ((scores[correct], score) for index, score in enumerate(scores) if index != correct)


def imagenet_correlation(source: AnalysisInput, axis: PublishedColumn = _IMAGENET) -> Parts:
    """Draw SugarCrepe's Figure 5: SugarCrepe's scores over `axis`, of the models with predictions of both.

    Raises:
        PredictionsError: too few models.
    """
    columns = [column for column in get_table("sugarcrepe-6").columns if column.average == "category"]
    tasks = {column.task for column in (axis, *columns)}
    scores: dict[str, list[Any]] = {}
    for name in sorted({str(model["name"]) for _, task, _, model in source.predictions if task == axis.task}):
        paths = [path for path, task, _, model in source.predictions if task in tasks and model["name"] == name]
        results = compute(paths, confidence=None)
        values = [our_value(column, results).get("ours") for column in (axis, *columns)]
        if None not in values:
            scores[name] = values
    if len(scores) < _FEWEST_MODELS:
        raise PredictionsError(
            f"{len(scores)} models have predictions on both {axis.task} and {columns[0].task}; a correlation takes "
            f"{_FEWEST_MODELS} or more"
        )
    across, *up = np.array([*scores.values()]).T
    figure = _figure("sugarcrepe-figure-5", 8, 5.5)
    axes = figure.subplots()
    rows = []
    palette = colours([column.name for column in columns])
    for (name, colour), values in zip(palette.items(), up, strict=True):
        found: Any = pearsonr(across, values)
        low, high = found.confidence_interval(0.95)
        cells = ("–", "–") if np.isnan(found.statistic) else (f"{found.statistic:.2f}", f"{low:.2f} – {high:.2f}")
        rows.append((name, _PRINTED_R.get(name, "> 0.8"), *cells))
        axes.plot(100 * across, 100 * values, "o", color=colour, label=name)
    for model, x, y in zip(scores, across, np.max(up, axis=0), strict=True):
        axes.annotate(model, (100 * x, 100 * y), (4, 4), textcoords="offset points", fontsize=7)
    axes.set(xlabel=f"{axis.name}, %", ylabel="SugarCrepe, %")
    axes.legend(fontsize=7)
    note = f"Pearson's r over {len(scores)} models, with 95 % intervals (Fisher's): {', '.join(scores)}."
    return [simple_table(("", "published r", "ours", "interval"), rows, note=note, numbers=True), figure]


def boxes(source: AnalysisInput) -> Parts:
    """Draw TRICD's Figure 5: (a) where the boxes lie and how large they are, (b) boxes per phrase, in doubling bins."""
    by_kind: dict[str, list[Sequence[tuple[float, ...]]]] = {}
    for example in examples_of("tricd/val", source.data_dir, source.options):
        by_kind.setdefault(words(example.category), []).extend(each.boxes for each in example.phrases if each.boxes)
    bins = {kind: Counter(len(each).bit_length() - 1 for each in phrases) for kind, phrases in by_kind.items()}
    names = ["1", *(f"{2**bin_}–{2 ** (bin_ + 1) - 1}" for bin_ in range(1, max(map(max, bins.values())) + 1))]
    counts = {kind: {name: of_kind[bin_] for bin_, name in enumerate(names)} for kind, of_kind in bins.items()}
    figure = _figure("tricd-figure-5", 10, 4.5)
    centres, bars = figure.subplots(1, 2)
    for kind, colour in colours([*by_kind]).items():
        x1, y1, x2, y2 = np.array([box for phrase in by_kind[kind] for box in phrase]).T
        size = (x2 - x1) * (y2 - y1) / 500
        centres.scatter((x1 + x2) / 2, (y1 + y2) / 2, size, color=colour, alpha=0.4, label=kind)
    centres.set(xlabel="x of the centre (pixels)", ylabel="y of the centre (pixels)")
    centres.invert_yaxis()
    centres.legend()
    _draw_bars(bars, counts, xlabel="boxes of a phrase", ylabel="phrases", logy=True)
    note = "Of the validation set, which has no part from Winoground; the size of a marker is the area of its box."
    columns = {f"phrases of {kind}s": by_name for kind, by_name in counts.items()}
    return [_columns(columns, "d", "boxes of a phrase", note=note), figure]


def phrase_words(source: AnalysisInput) -> Parts:
    """Draw TRICD's Figure 8: the most frequent words of the phrases."""
    examples = examples_of("tricd/val", source.data_dir, source.options)
    phrases = [phrase.text for example in examples for phrase in example.phrases]
    common = Counter(word for phrase in phrases for word in phrase.lower().split()).most_common(40)
    figure = _figure("tricd-figure-8", 6, 8)
    _draw_bars(figure.subplots(), {"phrases": dict(common[::-1])}, "barh", legend=False, xlabel="phrases")
    listed = ", ".join(f"{word} ({count})" for word, count in common)
    text = f"The {len(common)} most frequent words of the validation set's {len(phrases)} phrases: {listed}."
    return [figure, text]


# By the paper and the table or figure that an analysis belongs to.
ANALYSES: Mapping[tuple[str, str], Callable[[AnalysisInput], Parts]] = {
    ("aro", "Table 1"): perturbations,
    ("aro", "Figure 2"): retrieval_without_order,
    ("aro", "Figure 3"): negclip_profile,
    ("hard-positives", "Table 1"): ranking,
    ("sugarcrepe", "Figure 1"): score_gaps,
    ("sugarcrepe", "Figure 2"): blind_against_clip,
    ("sugarcrepe", "Figure 4"): refinement_gaps,
    ("sugarcrepe", "Figure 5"): imagenet_correlation,
    ("tricd", "Figure 5"): boxes,
    ("tricd", "Figure 8"): phrase_words,
}
