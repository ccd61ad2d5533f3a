"""Derived values of the papers' tables and figures, from printed values, released data and predictions.

An analysis takes the `AnalysisInput` of a run and returns the parts of its section: tables and text. It raises a
`VLAssayError` if data or predictions are missing. What follows from printed values alone is in ``derived.yaml``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import yaml

from ...hub_datasets.authoring.audit.summaries import read_audit
from ...hub_datasets.published.tables import get_table
from ...metrics.common.documents import Part, simple_table
from ...metrics.common.errors import PredictionsError
from ...metrics.common.formatting import percent, words
from ...metrics.functional.symmetry import artifact_gap
from ...metrics.records.predictions import read_predictions
from ...metrics.records.schema import MatchingRow
from .comparison import Reproduction, examples_of
from .reproduce import ScannedPredictions


class AnalysisInput(NamedTuple):
    """Predictions of any tasks, the compared tables by name, and `data_dir` and `options` as for `examples_of`."""

    predictions: Sequence[ScannedPredictions] = ()
    compared: Mapping[str, Reproduction] = MappingProxyType({})
    data_dir: Path | None = None
    options: Mapping[str, Any] | None = None


@cache
def derived() -> dict[str, list[Part]]:
    """Return the tables that follow from printed values alone, by paper and item, such as ``"aro, Figure 3"``."""
    described = yaml.safe_load(Path(__file__).with_name("derived.yaml").read_text("utf-8"))
    return {
        item: [simple_table(facts.pop("header"), facts.pop("rows"), **facts) for facts in tables]
        for item, tables in described.items()
    }


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
    """Return the rank shares of Hard Positives' models, from Tables 1, 7 and 8."""
    parts: list[Part] = []
    for table in ("hard-positives-1", "hard-positives-7", "hard-positives-8"):
        rows, ours = [], {}
        for value in source.compared[table].comparisons if table in source.compared else ():
            if value.ours is not None:
                ours.setdefault(value.row.name, {})[value.column.name] = 100 * value.ours
        for row in get_table(table).rows:
            published = get_table(table).values(row)
            for label, values in ((row.name, published), (f"{row.name}, ours", ours.get(row.name, {}))):
                for subset, shares in _shares_by_subset(values).items():
                    # Sums of rounded values may miss zero by a last digit.
                    cells = (f"{share:.1f}".replace("-0.0", "0.0") for share in shares.values())
                    rows.append((f"{label}, {subset}", *cells))
        title = f"Captions that beat the hard negative, % of examples (from Table {get_table(table).number})"
        parts.append(simple_table(("", *rank_shares(0, 0, 0)), rows, title=title, numbers=True))
    return parts


# The sources of SugarCrepe's Figures 1 and 4.
_EXISTING = (
    *("crepe/productivity_replace", "crepe/productivity_swap", "crepe/productivity_negate"),
    *("aro/relation", "aro/attribution", "aro/coco_order", "aro/flickr30k_order", "vl_checklist/itm"),
)
_REFINEMENT = ("aro_crepe/itm", "sugarcrepe/unrefined", "sugarcrepe/itm")


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
    rows = [(name, *(str(of_kind[bin_]) for of_kind in bins.values())) for bin_, name in enumerate(names)]
    headings = ("boxes of a phrase", *(f"phrases of {kind}s" for kind in bins))
    return [simple_table(headings, rows, note="The validation set has no part from Winoground.", numbers=True)]


def phrase_words(source: AnalysisInput) -> list[Part]:
    """Return TRICD's Figure 8: the most frequent words of the phrases."""
    examples = examples_of("tricd/val", source.data_dir, source.options)
    phrases = [phrase.text for example in examples for phrase in example.phrases]
    common = Counter(word for phrase in phrases for word in phrase.lower().split()).most_common(40)
    listed = ", ".join(f"{word} ({count})" for word, count in common)
    return [f"The {len(common)} most frequent words of the validation set's {len(phrases)} phrases: {listed}."]


# By the paper and the table or figure that an analysis belongs to.
ANALYSES: Mapping[str, Callable[[AnalysisInput], list[Part]]] = {
    "hard-positives, Table 1": ranking,
    "sugarcrepe, Figure 1": score_gaps,
    "sugarcrepe, Figure 4": refinement_gaps,
    "tricd, Figure 5": boxes,
    "tricd, Figure 8": phrase_words,
}
