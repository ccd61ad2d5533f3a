"""Derived values of the papers' tables and figures, from printed values, released data and predictions.

An analysis takes the `AnalysisInput` of a run and returns the parts of its section: tables and text. It raises a
`VLAssayError` if data or predictions are missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ...hub_datasets.authoring.audit.summaries import read_audit
from ...hub_datasets.published.tables import get_table
from ...metrics.common.documents import Part, Table, simple_table
from ...metrics.common.errors import PredictionsError
from ...metrics.common.formatting import percent, words
from ...metrics.functional.symmetry import artifact_gap
from ...metrics.records.predictions import read_predictions
from ...metrics.records.schema import MatchingRow
from .comparison import Reproduction, ValueComparison, examples_of
from .reproduce import ScannedPredictions


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


def perturbations(_: AnalysisInput) -> list[Part]:
    """Perturb the caption of ARO's Table 1."""
    from ...hub_datasets.authoring.text.perturb import perturb

    perturbed = perturb([CAPTION], list(_SHUFFLES)).perturbed
    rows = [(shown, perturbed[name][0] or "unchanged") for name, shown in _SHUFFLES.items()]
    note = "The permutations are other draws than the paper's."
    return [simple_table(("Perturbation Type", "Example"), [("Original Caption", CAPTION), *rows], note=note)]


def retrieval_without_order(_: AnalysisInput) -> list[Part]:
    """Return the largest drops of ARO's Figure 2, from Tables 3 and 4: Recall@1 with shuffled captions and images."""
    parts: list[Part] = []
    for table, kind in (("aro-3", "text"), ("aro-4", "image")):
        # Recall@1 by dataset, model and direction, then by condition, of which the first is "No Shuffling".
        recalls: dict[tuple[str, str, str], dict[str, float]] = {}
        for row in get_table(table).rows:
            for column, recall in get_table(table).values(row).items():
                data, condition, score = re.split(", |: ", column)
                if score.endswith("@1"):
                    recalls.setdefault((data, row.label, score), {})[condition] = recall
        rows = []
        for key, by_condition in recalls.items():
            (_unshuffled, plain), *shuffled = by_condition.items()
            worst, recall = min(shuffled, key=lambda item: item[1])
            rows.append((", ".join(key), f"{plain:.3f}", worst, f"{recall:.3f}", f"{100 * recall / plain:.0f} %"))
        title = f"Recall@1 with the {kind} shuffle that lowers it most (published)"
        parts.append(simple_table(("", "no shuffling", "shuffle", "shuffled", "is left"), rows, title=title))
    return parts


def negclip_profile(_: AnalysisInput) -> list[Part]:
    """Return ARO's Figure 3, from Table 6: CLIP, CLIP fine-tuned and NegCLIP on the benchmark and on other tasks."""
    values = _published("aro-6")
    gains = {name: f"{values['NegCLIP'][name] - value:+.2f}" for name, value in values["CLIP"].items()}
    return [_columns({**values, "NegCLIP - CLIP": gains}, ".2f", title="Published")]


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


def ranking(source: AnalysisInput) -> list[Part]:
    """Return the rank shares of Hard Positives' models, from Tables 1, 7 and 8, and the averages of section 4.2."""
    parts: list[Part] = [_averages()]
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
        title = f"Captions that beat the hard negative, % of examples (from Table {get_table(table).number})"
        parts.append(simple_table(("", *rank_shares(0, 0, 0)), rows, title=title, numbers=True))
    return parts


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


# The sources of SugarCrepe's Figures 1 and 4.
_EXISTING = (
    *("crepe/productivity_replace", "crepe/productivity_swap", "crepe/productivity_negate"),
    *("aro/relation", "aro/attribution", "aro/coco_order", "aro/flickr30k_order", "vl_checklist/itm"),
)
_REFINEMENT = ("aro_crepe/itm", "sugarcrepe/unrefined", "sugarcrepe/itm")


def blind_against_clip(_: AnalysisInput) -> list[Part]:
    """Return SugarCrepe's Figure 2, from Table 8: the blind models and the best CLIP model of each source, by task."""
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
    return [_columns({**shown, "best": kinds}, ".2f", title="Published", note=note)]


def refinement_gaps(source: AnalysisInput) -> list[Part]:
    """Return SugarCrepe's Figure 4: the gaps on ARO+CREPE before and after refinement; and the shipped audits."""
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
        return [table, *score_gaps(source, _REFINEMENT)]
    except PredictionsError as error:
        return [table, f"Of Vera and the grammar model: {error}."]


def score_gaps(source: AnalysisInput, tasks: Sequence[str] = _EXISTING) -> list[Part]:
    """Return SugarCrepe's Figure 1: by blind model and task, gaps between a caption's score and its hard negatives'.

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
    rows = []
    for (model, task), path in sorted(paths.items()):
        pairs = np.array(list(_pairs(path)), np.float64).reshape(-1, 2)
        gap = artifact_gap(pairs, np.zeros(len(pairs), int), ties="half")
        scores = (percent(gap["accuracy"]), f"{gap['mean_gap']:.3f}", f"{gap['asymmetry']:.3f}", f"{len(pairs):,}")
        rows.append((f"{model}, {task}", *scores))
    headings = ("", "positive higher, %", "mean gap", "asymmetry", "pairs")
    return [simple_table(headings, rows, title="Gaps of blind models", numbers=True)]


def _pairs(path: Path) -> Iterator[tuple[float, float]]:
    """Yield the score of each positive caption with the score of each of its hard negatives."""
    for row in read_predictions(path).rows:
        if isinstance(row, MatchingRow) and row.scores is not None:
            [scores], [correct] = row.scores, row.correct
            yield from ((scores[correct], score) for index, score in enumerate(scores) if index != correct)


def boxes(source: AnalysisInput) -> list[Part]:
    """Return TRICD's Figure 5 (b), of the validation set: the phrases with each number of boxes, in doubling bins."""
    bins: dict[str, Counter[int]] = {}
    for example in examples_of("tricd/val", source.data_dir, source.options):
        of_kind = bins.setdefault(words(example.category), Counter())
        of_kind.update(len(phrase.boxes).bit_length() - 1 for phrase in example.phrases if phrase.boxes)
    names = ["1", *(f"{2**bin_}–{2 ** (bin_ + 1) - 1}" for bin_ in range(1, max(map(max, bins.values())) + 1))]
    columns = {
        f"phrases of {kind}s": {name: of_kind[bin_] for bin_, name in enumerate(names)}
        for kind, of_kind in bins.items()
    }
    return [_columns(columns, "d", "boxes of a phrase", note="The validation set has no part from Winoground.")]


def phrase_words(source: AnalysisInput) -> list[Part]:
    """Return TRICD's Figure 8: the most frequent words of the phrases."""
    examples = examples_of("tricd/val", source.data_dir, source.options)
    phrases = [phrase.text for example in examples for phrase in example.phrases]
    common = Counter(word for phrase in phrases for word in phrase.lower().split()).most_common(40)
    listed = ", ".join(f"{word} ({count})" for word, count in common)
    return [f"The {len(common)} most frequent words of the validation set's {len(phrases)} phrases: {listed}."]


# By the paper and the table or figure that an analysis belongs to.
ANALYSES: Mapping[tuple[str, str], Callable[[AnalysisInput], list[Part]]] = {
    ("aro", "Table 1"): perturbations,
    ("aro", "Figure 2"): retrieval_without_order,
    ("aro", "Figure 3"): negclip_profile,
    ("hard-positives", "Table 1"): ranking,
    ("sugarcrepe", "Figure 1"): score_gaps,
    ("sugarcrepe", "Figure 2"): blind_against_clip,
    ("sugarcrepe", "Figure 4"): refinement_gaps,
    ("tricd", "Figure 5"): boxes,
    ("tricd", "Figure 8"): phrase_words,
}
