"""Image-text retrieval: recall at k and ranks, over a shared set of candidates or each query's own candidates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ..common.errors import ScoresError, check_known
from ..estimation.aggregate import metric_function
from ..estimation.checks import NOT_FINITE, as_float64, check_equal_lengths, check_ties, cluster_codes, refuse
from ..estimation.estimators import OfValues
from ..estimation.spec import Described, Examples, make_examples
from .ranking import (
    HitRanks,
    RightCandidates,
    Rows,
    best_right,
    candidate_sets,
    check_depths,
    hit_ranks,
    rank,
    recall_at,
    right_candidates,
    tied,
)

POOLS = ("shared", "own")

# 2**18 scores of 8 bytes, 2 MB, are compared at a time: they stay in the cache, and memory stays flat.
_BLOCK_SCORES = 2**18

_Columns = dict[str, NDArray[np.float64]]


@metric_function()
def retrieval_recall(
    scores: Rows,
    right: Rows,
    *,
    pool: str = "shared",
    ks: Sequence[int] | int = (1, 5, 10),
    ties: str = "wrong",
    **labels: Unpack[Described],
) -> Examples:
    """Compute recall at k and ranks of image-text retrieval; recall is better when higher, ranks when lower.

    With the pool ``"shared"`` every image is scored with the same captions. In text retrieval an image asks for any of
    its right captions; in image retrieval a caption asks for any image of which it is true. A caption that is true of
    no image is one more wrong answer for each image, and asks for nothing itself. With the pool ``"own"`` each row has
    its own candidates, as many as it likes: in CREPE the caption and its hard negatives.

    Args:
        scores: higher means a better match, on any scale. Shared: array-like of shape (images, captions), at least 2
            of each; an array is compared in place, block by block, without a copy. Own: a sequence of n sequences of
            scores, or an array of shape (n, candidates).
        right: for each row the column of its right candidate, from 0, or a list of them. Own: at least one candidate
            of a row must be wrong.
        pool: ``"shared"`` or ``"own"``.
        ks: the depths, whole numbers from 1. If k is no less than the number of candidates, recall is 1.
        ties: the order of equal scores, ``"wrong"``, ``"half"`` or ``"right"``: see ``ranking.recall_at`` and
            ``ranking.rank``. A model that gives every pair one score gets recall 0 (for k within the wrong candidates),
            chance level, or 1.
        labels: clusters (one label per row, its image; a caption is in the cluster of the first image of which it is
            true) and, own only, categories (one label per row, such as CREPE's complexity); and further options: see
            ``aggregate.SummaryOptions``.

    Returns:
        Plain Python numbers; recalls and rates in [0, 1], ranks from 1. Shared:

        - ``text_recall_at_<k>`` for each k, ``text_mean_rank``, ``text_median_rank``, and ``text_tie_rate``, the
          share of queries whose rank a tie decides; the same with ``image_``;
        - ``n`` and ``n_images``, the rows; ``n_captions``, the columns, and ``n_captions_without_image``, the columns
          that ask for nothing.

        Own: ``recall_at_<k>``, ``mean_rank``, ``median_rank``, ``tie_rate``, ``mean_candidates``,
        ``chance_recall_at_<k>`` (the expected recall of random scores), ``n``, and ``per_category`` with the same.

        With ``confidence``: ``confidence``, and ``<recall>_interval`` as [low, high], by category too.

    Raises:
        ScoresError: a score that is NaN or infinite, rows of unequal length in a shared pool, a right candidate that
            is missing, twice there or out of range, nothing to choose from, or labels or options that cannot be used.
        UnknownNameError: an unknown pool or tie policy.

    Source: ARO (Yuksekgonul et al., ICLR 2023), section 3.1, Tables 3 and 4; CREPE (Ma et al., CVPR 2023). Both leave
    the order of ties to their sort; CREPE's release rounds a median rank that lies between two ranks down, which is not
    done here.

    >>> result = retrieval_recall([[0.9, 0.8, 0.1], [0.7, 0.2, 0.6]], [[0, 1], [2]], ks=[1])
    >>> result["text_recall_at_1"], result["image_recall_at_1"], result["text_mean_rank"]
    (0.5, 1.0, 1.5)
    >>> own = retrieval_recall([[3, 1], [2, 1, 4]], [0, 0], pool="own", ks=[1])
    >>> own["recall_at_1"], round(own["chance_recall_at_1"], 4)  # (1/2 + 1/3) / 2
    (0.5, 0.4167)
    """
    check_known("pool of candidates", [pool], POOLS)
    depths = check_depths(ks)
    check_ties(ties)
    if pool == "own":
        return _own(scores, right, depths, ties, labels)
    if labels.get("categories") is not None:
        raise ScoresError('got categories with pool="shared"; they are for pool="own", leave them out')
    return _shared(scores, right, depths, ties, labels)


def _shared(scores: Rows, right: Rows, depths: tuple[int, ...], ties: str, labels: Described) -> Examples:
    table = _score_table(scores)
    images, captions = table.shape
    pairs = right_candidates(right, np.full(images, captions))
    text, image = _ranks(table, pairs)
    asking, first = np.unique(pairs.columns, return_index=True)
    image = image.of(asking)
    # The queries are all images, and then all captions that ask, each with its first image.
    rows = np.concatenate([np.arange(images), pairs.rows[first]])
    # Numbered among the captions of its image, so that a name is the same if other images are missing.
    numbers = (first - np.searchsorted(pairs.rows, pairs.rows[first])).tolist()
    values: _Columns = {}
    estimators: list[OfValues] = []
    for prefix, ranks, padding in (("text_", text, (0, len(asking))), ("image_", image, (images, 0))):
        recalls, others = _columns(ranks, depths, ties, prefix)
        values |= {name: np.pad(column, padding, constant_values=np.nan) for name, column in recalls.items()}
        estimators += [
            replace(estimator, values=np.pad(estimator.values, padding, constant_values=np.nan)) for estimator in others
        ]
    counts = {"n": images, "n_images": images, "n_captions": captions}
    counts["n_captions_without_image"] = captions - len(asking)
    return make_examples(
        values,
        np.concatenate([tied(text), tied(image)]),
        clusters=cluster_codes(labels.get("clusters"), images)[rows],
        allow_nan=True,
        rows=rows,
        names=["captions of the image"] * images + [f"image of caption {number}" for number in numbers],
        estimators=tuple(estimators),
        facts=lambda numbers: counts if numbers is None else {},
        with_macro=False,
        with_tie_rate=False,
    )


def _ranks(table: NDArray[Any], right: RightCandidates) -> tuple[HitRanks, HitRanks]:
    """Rank each image's right captions, and each caption's right images."""
    # Whole numbers and float16 compare slowly or not exactly; other floats stay what they are.
    kind = np.result_type(table.dtype, np.float32)
    images, captions = table.shape
    scores = table[right.rows, right.columns].astype(kind)
    best_caption, tied_captions = best_right(right.rows, scores, images)
    best_image, tied_images = best_right(right.columns, scores, captions)
    caption_higher, caption_equal = np.zeros((2, images), dtype=np.intp)
    image_higher, image_equal = np.zeros((2, captions), dtype=np.intp)
    for part in _blocks(images, captions):
        block = table[part].astype(kind, copy=False)
        row_best = best_caption[part, np.newaxis]
        caption_higher[part] = (block > row_best).sum(axis=1)
        caption_equal[part] = (block == row_best).sum(axis=1)
        image_higher += (block > best_image).sum(axis=0)
        image_equal += (block == best_image).sum(axis=0)
    return (
        HitRanks(caption_higher, caption_equal - tied_captions, tied_captions, tied_captions > 0),
        HitRanks(image_higher, image_equal - tied_images, tied_images, tied_images > 0),
    )


def _blocks(rows: int, columns: int) -> Iterable[slice]:
    step = max(1, _BLOCK_SCORES // columns)
    return (slice(start, start + step) for start in range(0, rows, step))


def _own(scores: Rows, right: Rows, depths: tuple[int, ...], ties: str, labels: Described) -> Examples:
    flat, sizes = candidate_sets(scores)
    n = len(sizes)
    rows, columns = right_candidates(right, sizes)
    rights = np.bincount(rows, minlength=n)
    refuse(
        rights >= sizes,
        "every candidate is right in {rows}; there is nothing to choose. Pass at least one wrong candidate for each "
        "row, or leave these rows out and report how many",
    )
    row_of = np.repeat(np.arange(n), sizes)
    hits = np.zeros(len(flat), dtype=bool)
    hits[(np.cumsum(sizes) - sizes)[rows] + columns] = True
    ranks = hit_ranks(row_of, flat, hits, n)
    recalls, further = _columns(ranks, depths, ties)
    # Scoring at random is a tie of all candidates, broken at random.
    blind = HitRanks(np.zeros_like(sizes), sizes - rights, rights, np.ones(n, dtype=bool))
    chance = {f"recall_at_{k}": recall_at(blind, k, "half") for k in depths}
    further = [estimator for estimator in further if estimator.names != ("tie_rate",)]
    further.append(OfValues(("mean_candidates",), sizes.astype(np.float64), (np.mean,)))
    further += [OfValues((f"chance_{name}",), values, (np.mean,)) for name, values in chance.items()]
    return make_examples(
        recalls,
        tied(ranks),
        estimators=tuple(further),
        chance={name: float(values.mean()) for name, values in chance.items()},
        with_macro=False,
        **labels,
    )


def _columns(ranks: HitRanks, depths: tuple[int, ...], ties: str, prefix: str = "") -> tuple[_Columns, list[OfValues]]:
    """Return the recall of each query at each depth, and the scores and rates that have no intervals."""
    recalls = {f"{prefix}recall_at_{k}": recall_at(ranks, k, ties) for k in depths}
    names = (f"{prefix}mean_rank", f"{prefix}median_rank")
    rates = OfValues((f"{prefix}tie_rate",), tied(ranks).astype(np.float64), (np.mean,))
    return recalls, [OfValues(names, rank(ranks, ties), (np.mean, np.median)), rates]


def _score_table(scores: Any) -> NDArray[Any]:
    """Return the scores of a shared pool, of shape (images, captions); a numeric array is not copied."""
    try:
        table = np.asarray(scores) if hasattr(scores, "__array__") else as_float64(scores, "scores")
        table = table if table.dtype.kind in "fiu" else as_float64(table, "scores")
    except (TypeError, ValueError, RuntimeError):
        check_equal_lengths(
            scores,
            'score every image with the same captions, or use pool="own" where each row has candidates of its own',
        )
        table = as_float64(scores, "scores")
    if table.ndim != 2 or min(table.shape) < 2:
        raise ScoresError(
            f"the scores have shape {table.shape}; pass one row per image and one column per caption, at least two of "
            'each, or use pool="own" where each row has candidates of its own'
        )
    bad = np.concatenate([~np.isfinite(table[block]).all(axis=1) for block in _blocks(*table.shape)])
    examples = [row[~np.isfinite(row)][0] if is_bad else None for row, is_bad in zip(table, bad, strict=True)]
    refuse(bad, NOT_FINITE, examples, what="candidates")
    return table
