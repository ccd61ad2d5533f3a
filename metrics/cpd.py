"""Contextual phrase detection, from rows of boxes to average precision (TRICD)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .boxes import RELEASED_FORMATS, BoxFormat, read_boxes
from .detection import Matched, average_precisions, match, select_rows, tie_rate
from .errors import ScoresError
from .kernels import Labels, as_float64, label_codes, name_rows
from .stats import check_options, percentile_interval
from .summary import category_rows

Rows = Iterable[Mapping[str, Any]]
_SCORES = ("ap", "ap50", "ap75", "ap_positives")
_SUBSAMPLE_SHARE = 0.9


def cpd_ap(
    predictions: Rows,
    references: Rows,
    *,
    box_format: BoxFormat = RELEASED_FORMATS,
    ties: str = "wrong",
    max_boxes: int = 100,
    positive: ArrayLike | None = None,
    subsamples: int = 100,
    categories: Labels | None = None,
    clusters: Labels | None = None,
    confidence: float | None = None,
    resamples: int = 1_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Average precision of contextual phrase detection; higher is better.

    COCO's AP with two differences: a box can only match ground truth of its own phrase, and there is one
    precision-recall curve over all rows and phrases. A row whose caption is false of its image has no ground truth, so
    that each box there is a false positive.

    Args:
        predictions, references, box_format: rows of boxes; see ``boxes.read_boxes``.
        ties: ``"wrong"``: boxes of equal score enter the curve together, and within a row those that overlap their
            ground truth least are matched first, whatever the order of rows and boxes; ``"coco"``: the order of rows
            and boxes decides, as in pycocotools.
        max_boxes: how many boxes of a row count, the most confident first.
        positive: one flag per row, whether its caption is true of its image; by default the rows with ground truth.
        subsamples: number of random 90 % subsets of the rows whose AP is computed for its standard deviation, which the
            authors take for the smallest gap that separates two models; 0 for none. Which rows a subset has depends on
            their order.
        categories: one label per row, such as TRICD's splits, or a list of labels.
        clusters: one label per row: rows that share a caption or an image; by default each row is its own, and the
            resamples depend on their order.
        confidence: coverage of the intervals, strictly between 0 and 1; ``None`` for no intervals.
        resamples: number of bootstrap resamples, at least 100. Each computes AP anew for the set and every category, in
            some milliseconds each for a set as large as TRICD's test set.
        seed: seed of the subsets and the resampling.

    Returns:
        ``ap`` (mean over IoU 0.50, 0.55 … 0.95), ``ap50``, ``ap75``, ``ap_positives`` (AP over the positive rows
        alone), each in [0, 1]; ``ap_subsample_std`` (``None`` below 5 rows, whose 90 % are all of them, and where fewer
        than two subsets have ground truth);
        ``tie_rate`` (share of boxes whose score both a match and a miss have), ``n`` (rows), ``n_positive``,
        ``n_boxes`` (ground truth); ``per_category`` with the scores, ``n`` and ``n_boxes`` of each; and with
        ``confidence`` ``<score>_interval`` as [low, high], in the categories too; ``None`` where all resamples agree,
        as for a perfect model or one cluster, since they then say nothing about other rows.

    Raises:
        ScoresError: rows that cannot be read, a set or category without ground truth, for which AP is not defined, a
            row with ground truth that is not positive, or labels or options that cannot be used.
        UnknownNameError: no such tie policy or box format.

    Source: TRICD (Kamath, Price et al., 2023), sections 3.2 and 5.3.

    >>> prediction = {"boxes": [[0, 0, 4, 4], [9, 9, 11, 11]], "scores": [0.9, 0.8], "phrase_ids": [1, 1]}
    >>> reference = {"boxes": [[0, 0, 4, 4]], "phrase_ids": [1]}
    >>> cpd_ap([prediction], [reference], subsamples=0)["ap"]
    1.0
    """
    check_options(confidence, resamples, seed)
    if not isinstance(subsamples, int | np.integer) or subsamples < 0:
        raise ScoresError(f"subsamples is {subsamples!r}; it must be a whole number, 0 for none")
    matched = match(*read_boxes(predictions, references, box_format), max_boxes, ties)
    flags = positive_flags(positive, matched.truths_per_row)
    n = len(flags)
    members = {name: np.isin(np.arange(n), rows) for name, rows in category_rows(categories, n).items()}
    codes = np.arange(n) if clusters is None else _codes_by_name(clusters, n)
    whole = _Part(matched, select_rows(matched, flags))
    parts = {
        name: _Part(select_rows(matched, rows), select_rows(matched, rows & flags)) for name, rows in members.items()
    }
    result = {
        **whole.scores(ties, "the set"),
        "ap_subsample_std": _subsample_std(matched, ties, subsamples, seed),
        "tie_rate": tie_rate(matched),
        "n": n,
        "n_positive": int(flags.sum()),
        "per_category": {
            name: {**part.scores(ties, f"the category {name!r}"), "n": int(members[name].sum())}
            for name, part in parts.items()
        },
    }
    if confidence is None:
        return result
    result["confidence"] = float(confidence)
    intervals = _intervals([whole, *parts.values()], ties, _draw_rows(codes, resamples, seed), confidence)
    for scores, found in zip([result, *result["per_category"].values()], intervals, strict=True):
        scores |= found
    return result


def positive_flags(positive: ArrayLike | None, truths_per_row: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each row's caption is true of its image: as it is said, or else where there is ground truth.

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
    odd = ~np.isin(flags, (0, 1))
    if odd.any():
        raise ScoresError(f"positive is {flags[odd][0]:g} in {name_rows(odd)}; pass true or false for each row")
    bad = annotated & ~flags.astype(bool)
    if bad.any():
        raise ScoresError(
            f"{name_rows(bad)}: ground-truth boxes came, but positive is false; a distractor has none. Set the flag to "
            "true, or leave the boxes out"
        )
    return flags.astype(bool)


class _Part(NamedTuple):
    """Matched boxes of some rows, and those of the positive ones among them."""

    boxes: Matched
    positives: Matched

    def scores(self, ties: str, what: str) -> dict[str, Any]:
        n_boxes = int(self.boxes.truths_per_row.sum())
        if not n_boxes:
            raise ScoresError(
                f"no row of {what} has a ground-truth box; average precision needs one. Add the positive rows, or "
                "leave the rest out"
            )
        return {**dict(zip(_SCORES, self.values(ties).tolist(), strict=True)), "n_boxes": n_boxes}

    def values(self, ties: str, weights: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """One number for each of `_SCORES`; NaN where no row with ground truth has weight."""
        by_threshold = average_precisions(self.boxes, weights, ties)
        positives = average_precisions(self.positives, weights, ties)
        return np.array([by_threshold.mean(), by_threshold[0], by_threshold[5], positives.mean()])


def _subsample_std(matched: Matched, ties: str, subsamples: int, seed: int) -> float | None:
    generator = np.random.default_rng(seed)
    n = len(matched.truths_per_row)
    size = round(_SUBSAMPLE_SHARE * n)
    values: list[float] = []
    for _ in range(subsamples):
        weights = np.zeros(n, dtype=np.intp)
        weights[generator.choice(n, size, replace=False)] = 1
        values.append(float(average_precisions(matched, weights, ties).mean()))
    if size == n:
        return None  # the subsets are the set itself
    defined = [value for value in values if not math.isnan(value)]
    return statistics.stdev(defined) if len(defined) > 1 else None


def _intervals(
    parts: list[_Part], ties: str, resamples: Iterable[NDArray[np.intp]], confidence: float
) -> list[dict[str, list[float] | None]]:
    """The intervals of each part, from resamples given as how often each row counts; ``None`` without spread."""
    values = np.array([[part.values(ties, weights) for part in parts] for weights in resamples])
    found: list[dict[str, list[float] | None]] = [{} for _ in parts]
    for part, place in np.ndindex(values.shape[1:]):
        low, high = percentile_interval(values[:, part, place], confidence)
        found[part][f"{_SCORES[place]}_interval"] = [low, high] if low < high else None
    return found


def _codes_by_name(clusters: Labels, n: int) -> NDArray[np.intp]:
    """Clusters numbered by name, so that resamples do not depend on the order of rows."""
    names, codes = label_codes(clusters, n, "clusters")
    return np.argsort(np.argsort(names))[codes]


def _draw_rows(clusters: NDArray[np.intp], resamples: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """How often each row counts in each resample of clusters."""
    members = int(clusters.max()) + 1
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.bincount(generator.integers(members, size=members), minlength=members)[clusters]
