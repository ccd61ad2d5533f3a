"""Contextual phrase detection, from rows of boxes to average precision (TRICD)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from ..estimation.aggregate import metric_function
from ..estimation.checks import as_float64, refuse
from ..estimation.estimators import Estimator
from ..estimation.spec import Described, Examples, make_examples
from .boxes import RELEASED_FORMATS, BoxFormat, read_boxes
from .detection import Hits, Matched, average_precisions, hits_of, match, renumbered, select_rows, stacked, tie_rate

Rows = Iterable[Mapping[str, Any]]


@metric_function(resamples=1_000, subsamples=100)
def cpd_ap(
    predictions: Rows,
    references: Rows,
    *,
    box_format: BoxFormat = RELEASED_FORMATS,
    ties: str = "wrong",
    max_boxes: int = 100,
    positive: ArrayLike | None = None,
    **labels: Unpack[Described],
) -> Examples:
    """Compute average precision of contextual phrase detection; higher is better.

    COCO's AP with two differences: a box can only match ground truth of its own phrase, and there is one
    precision-recall curve over all rows and phrases. A row whose caption is false of its image has no ground truth, so
    that each box there is a false positive.

    Args:
        predictions, references, box_format: see ``boxes.read_boxes``.
        ties: ``"wrong"``: boxes of equal score enter the curve together, and within a row those that overlap their
            ground truth least are matched first, whatever the order of rows and boxes; ``"coco"``: the order of rows
            and boxes decides, as in pycocotools.
        max_boxes: how many boxes of a row count, the most confident first.
        positive: one flag per row, whether its caption is true of its image; by default the rows with ground truth.
        labels: categories (TRICD's splits; one label per row, or a list of labels), clusters (one label per row: rows
            that share a caption or an image; by default each row is its own, and the resamples depend on their order);
            and further options: see ``aggregate.SummaryOptions``. By default 1,000 resamples, each of which computes AP
            anew for the set and every category, and 100 subsamples. Which rows a subsample has depends on their order.

    Returns:
        ``ap`` (mean over IoU 0.50, 0.55 … 0.95), ``ap50``, ``ap75``, ``ap_positives`` (AP over the positive rows only),
        each in [0, 1]; ``<score>_subsample_std`` (``None`` below 5 rows, whose 90 % are all of them, and where fewer
        than two subsets have ground truth); ``tie_rate`` (share of boxes whose score both a match and a miss have),
        ``n`` (rows), ``n_positive``, ``n_boxes`` (ground truth); ``per_category`` with the scores, ``n`` and
        ``n_boxes`` of each; and with ``confidence`` ``<score>_interval`` as [low, high], in the categories too;
        ``None`` where all resamples agree, as for a perfect model or one cluster.

    Raises:
        ScoresError: rows that cannot be read, a set or category without ground truth, for which AP is not defined, a
            row with ground truth that is not positive, or labels or options that cannot be used.
        UnknownNameError: an unknown tie policy or box format.

    Source: TRICD (Kamath, Price et al., 2023), sections 3.2 and 5.3.

    >>> prediction = {"boxes": [[0, 0, 4, 4], [9, 9, 11, 11]], "scores": [0.9, 0.8], "phrase_ids": [1, 1]}
    >>> reference = {"boxes": [[0, 0, 4, 4]], "phrase_ids": [1]}
    >>> cpd_ap([prediction], [reference], subsamples=0)["ap"]
    1.0
    """
    matched = match(*read_boxes(predictions, references, box_format), max_boxes, ties)
    flags = positive_flags(positive, matched.truths_per_row)
    n = len(flags)
    n_boxes = matched.truths_per_row

    def facts(numbers: NDArray[np.intp] | None) -> dict[str, Any]:
        if numbers is not None:
            return {"n_boxes": int(n_boxes[numbers].sum())}
        counts = {"n_positive": int(flags.sum()), "n_boxes": int(n_boxes.sum())}
        return {"tie_rate": tie_rate(matched), **counts}

    everything = AveragePrecision(("ap", "ap50", "ap75"), matched, ties)
    positives = AveragePrecision(("ap_positives",), select_rows(matched, flags), ties)
    examples = make_examples(
        {}, np.zeros(n), estimators=(everything, positives), facts=facts, with_tie_rate=False, has_ties=False, **labels
    )
    subsets = {"the set": np.arange(n)} | {
        f"the category {name!r}": members for name, members in examples.categories.items()
    }
    for subset, row_numbers in subsets.items():
        if not n_boxes[row_numbers].sum():
            raise ScoresError(
                f"no row of {subset} has a ground-truth box; average precision needs one. Add the positive rows, or "
                "leave the rest out"
            )
    return examples


@dataclass(frozen=True)
class AveragePrecision(Estimator):
    """AP over matched rows as a function of row weights; with several names also at IoU 0.5 and 0.75."""

    names: tuple[str, ...]
    matched: Matched
    ties: str

    def __call__(self, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """See `Estimator`."""
        by_threshold = average_precisions(self.matched, weights, self.ties, self._hits)
        return np.array([by_threshold.mean(), by_threshold[0], by_threshold[5]][: len(self.names)])

    @cached_property
    def _hits(self) -> list[Hits]:
        return hits_of(self.matched, self.ties)

    def select(self, numbers: NDArray[np.intp]) -> AveragePrecision:
        """See `Estimator`."""
        return replace(self, matched=renumbered(self.matched, numbers))

    def stacked(self, other: Estimator) -> AveragePrecision:
        """See `Estimator`."""
        assert isinstance(other, AveragePrecision)
        return replace(self, matched=stacked(self.matched, other.matched))


def positive_flags(positive: ArrayLike | None, truths_per_row: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each row's caption is true of its image; by default, the rows with ground truth.

    Raises:
        ScoresError: another number of flags, flags that are neither true nor false, or a row that has ground truth but
            is not positive.
    """
    annotated = truths_per_row > 0
    if positive is None:
        return annotated
    flags = as_float64(positive, "flags in positive")
    if flags.shape != annotated.shape:
        raise ScoresError(f"positive has shape {flags.shape} for {len(annotated)} rows; pass true or false for each")
    refuse(~np.isin(flags, (0, 1)), "positive is {first:g} in {rows}; pass true or false for each row", flags)
    refuse(
        annotated & ~flags.astype(bool),
        "{rows}: got ground-truth boxes, but positive is false; a distractor has none. Set the flag to true, or leave "
        "the boxes out",
    )
    return flags.astype(bool)
