"""Image-text retrieval: recall at k and ranks, over a shared pool of candidates or over each query's own."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from ..common.errors import ScoresError, check_known
from ..estimation.aggregate import metric_function
from ..estimation.checks import (
    NOT_FINITE,
    Labels,
    as_float64,
    check_equal_lengths,
    check_ties,
    cluster_codes,
    label_codes,
    refuse,
)
from ..estimation.estimators import OfValues, mean, median
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

Columns = dict[str, NDArray[np.float64]]


class _Matrices(NamedTuple):
    """The rows that form a matrix: its number by row, the condition by matrix, the conditions' names."""

    of_row: NDArray[np.intp]
    condition: NDArray[np.intp]
    names: list[str]


class _Direction(NamedTuple):
    """All queries of one direction: for each its matrix, the row of its (first) right image, and what it asks for."""

    prefix: str
    ranks: HitRanks
    matrix: NDArray[np.intp]
    image: NDArray[np.intp]
    names: list[str]


@metric_function()
def retrieval_recall(
    scores: Rows,
    right: Rows,
    *,
    pool: str = "shared",
    ks: Sequence[int] | int = (1, 5, 10),
    conditions: Labels | None = None,
    seeds: Labels | None = None,
    ties: str = "wrong",
    **labels: Unpack[Described],
) -> Examples:
    """How often a right candidate is among the k highest; higher is better for recall, lower for ranks.

    With the pool ``"shared"`` every image is scored with the same captions. In text retrieval an image asks for any of
    its right captions; in image retrieval a caption asks for any image of which it is true. A caption that is true of
    no image is one more wrong answer for each image, and asks for nothing itself. With the pool ``"own"`` each row
    has candidates of its own, as many as it likes: in CREPE the caption and its hard negatives.

    Args:
        scores: higher means a better match, on any scale. Shared: array-like of shape (images, captions), at least 2
            of each; an array is compared in place, block by block, without a copy. Own: a sequence of n sequences of
            scores, or an array of shape (n, candidates).
        right: for each row the column of its right candidate, from 0, or a list of them. Own: at least one candidate
            of a row must be wrong.
        pool: ``"shared"`` or ``"own"``.
        ks: the depths, whole numbers from 1. Where k is no less than the number of candidates, recall is 1.
        conditions: shared only: one label per row, such as "none" and "shuffle_trigrams". The rows of one label form
            a matrix of their own: in image retrieval only they compete.
        seeds: shared only, with conditions: one label per row, any one where nothing is shuffled. The rows of one
            condition and seed form a matrix.
        ties: the order of equal scores, ``"wrong"``, ``"half"`` or ``"right"``: see ``ranking.recall_at`` and
            ``ranking.rank``. A model that gives every pair one score gets recall 0 (for k within the wrong candidates),
            that of chance, or 1.
        labels: clusters (one label per row, its image; a caption is in the cluster of the first image in its matrix of
            which it is true) and, own only, categories (one label per row, such as CREPE's complexity); and further
            options: see ``aggregate.SummaryOptions``.

    Returns:
        Plain Python numbers; recalls and rates in [0, 1], ranks from 1. Shared:

        - ``text_recall_at_<k>`` for each k, ``text_mean_rank``, ``text_median_rank``, and ``text_tie_rate``, the
          share of queries whose rank a tie decides; the same with ``image_``. Means over the queries of all matrices;
        - ``n`` and ``n_images``, the rows; ``n_captions``, the columns, and ``n_captions_without_image``, those of
          them that ask for nothing. Each matrix counts: an image scored under three seeds is three images here;
        - ``per_condition``: for each condition, in the order of first appearance, all of the above, the scores as
          means over its seeds. With ``seeds`` also ``<score>_std`` for recalls and ranks, the sample standard deviation
          over seeds (divided by their number less one; ``None`` for one seed), and ``n_seeds``.

        Own: ``recall_at_<k>``, ``mean_rank``, ``median_rank``, ``tie_rate``, ``mean_candidates``,
        ``chance_recall_at_<k>`` (the expected recall of random scores), ``n``, and ``per_category`` with the same.

        With ``confidence``: ``confidence``, and ``<recall>_interval`` as [low, high], by condition or category too
        (there over all queries).

    Raises:
        ScoresError: a score that is NaN or infinite, rows of unequal length in a shared pool, a right candidate that
            is missing, twice there or out of range, nothing to choose from, or labels or options that cannot be used.
        UnknownNameError: an unknown pool or tie policy.

    Source: ARO (Yuksekgonul et al., ICLR 2023), section 3.1, Tables 3 and 4 (shuffles averaged over 3 seeds, with
    standard deviations); CREPE (Ma et al., CVPR 2023). Both leave the order of ties to their sort; CREPE's release
    rounds a median rank that lies between two ranks down, which is not done here.

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
    unused = {"own": {"conditions": conditions, "seeds": seeds}, "shared": {"categories": labels.get("categories")}}
    for name, value in unused[pool].items():
        if value is not None:
            [other] = {*POOLS} - {pool}
            raise ScoresError(f'got {name} with pool="{pool}"; they are for pool="{other}", leave them out')
    if pool == "own":
        return _own(scores, right, depths, ties, labels)
    table = _score_table(scores)
    rows, captions = table.shape
    pairs = right_candidates(right, np.full(rows, captions))
    matrices = _matrices(conditions, seeds, rows)
    cluster = cluster_codes(labels.get("clusters"), rows)
    text, image = _both_directions(table, pairs, matrices)
    matrix = np.concatenate([text.matrix, image.matrix])
    is_text = np.arange(len(matrix)) < len(text.matrix)
    values: Columns = {}
    estimators: list[OfValues] = []
    for direction, own in ((text, is_text), (image, ~is_text)):
        recalls, others = _columns(direction.ranks, depths, ties, direction.prefix)
        values |= {name: _spread(each, own) for name, each in recalls.items()}
        estimators += [replace(each, values=_spread(each.values, own)) for each in others]

    def facts(numbers: NDArray[np.intp] | None) -> dict[str, Any]:
        if numbers is None:
            return _counts(matrix, is_text, np.unique(matrices.of_row), captions)
        members = np.flatnonzero(matrices.condition == matrices.condition[matrix[numbers[0]]])
        over_seeds = []
        for one in members:
            scores = {name: float(np.nanmean(each[matrix == one])) for name, each in values.items()}
            for each in estimators:
                scores |= zip(each.names, each.select(np.flatnonzero(matrix == one))().tolist(), strict=True)
            over_seeds.append(scores)
        return _over_seeds(over_seeds, with_spread=seeds is not None) | _counts(matrix, is_text, members, captions)

    return make_examples(
        values,
        np.concatenate([tied(text.ranks), tied(image.ranks)]),
        categories=[matrices.names[number] for number in matrices.condition[matrix]] if matrices.names else None,
        clusters=cluster[np.concatenate([text.image, image.image])],
        allow_nan=True,
        rows=np.concatenate([text.image, image.image]),
        names=[*text.names, *image.names],
        estimators=tuple(estimators),
        facts=facts,
        with_macro=False,
        with_tie_rate=False,
        category_key="per_condition",
    )


def _spread(values: NDArray[np.float64], own: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Values of the queries of one direction among all queries; NaN for the others."""
    found = np.full(len(own), np.nan)
    found[own] = values
    return found


def _both_directions(table: NDArray[Any], right: RightCandidates, matrices: _Matrices) -> tuple[_Direction, _Direction]:
    texts, images = [], []
    for number in range(len(matrices.condition)):
        rows = np.flatnonzero(matrices.of_row == number)
        inside = matrices.of_row[right.rows] == number
        local = RightCandidates(np.searchsorted(rows, right.rows[inside]), right.columns[inside])
        text, image = _matrix_ranks(table, rows, local)
        asking, first = np.unique(local.columns, return_index=True)
        asked = image.of(asking)
        texts.append(_Direction("text_", text, np.full(len(rows), number), rows, ["captions of the image"] * len(rows)))
        # Numbered among the captions of its image, so that it is the same where other images are missing.
        place = first - np.searchsorted(local.rows, local.rows[first])
        names = [f"image of caption {number}" for number in place.tolist()]
        images.append(_Direction("image_", asked, np.full(len(asking), number), rows[local.rows[first]], names))
    return _joined(texts), _joined(images)


def _joined(parts: list[_Direction]) -> _Direction:
    columns: Any = zip(*parts, strict=True)
    prefixes, ranks, matrices, images, names = columns
    every = HitRanks(*map(np.concatenate, zip(*ranks, strict=True)))
    return _Direction(prefixes[0], every, np.concatenate(matrices), np.concatenate(images), list(chain(*names)))


def _matrix_ranks(table: NDArray[Any], rows: NDArray[np.intp], right: RightCandidates) -> tuple[HitRanks, HitRanks]:
    """Ranks of each row's right captions, and of each caption's right images, among some rows of a table."""
    # Whole numbers and float16 compare slowly or not exactly; other floats stay what they are.
    kind = np.result_type(table.dtype, np.float32)
    captions = table.shape[1]
    scores = table[rows[right.rows], right.columns].astype(kind)
    best_caption, tied_captions = best_right(right.rows, scores, len(rows))
    best_image, tied_images = best_right(right.columns, scores, captions)
    caption_higher, caption_equal = np.zeros((2, len(rows)), dtype=np.intp)
    image_higher, image_equal = np.zeros((2, captions), dtype=np.intp)
    for part in _blocks(len(rows), captions):
        block = table[rows[part]].astype(kind, copy=False)
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
    recalls, others = _columns(ranks, depths, ties)
    # Scoring at random is a tie of all candidates, broken at random.
    blind = HitRanks(np.zeros_like(sizes), sizes - rights, rights, np.ones(n, dtype=bool))
    chance = {f"recall_at_{k}": recall_at(blind, k, "half") for k in depths}
    others = [each for each in others if each.names != ("tie_rate",)]
    others.append(OfValues(("mean_candidates",), sizes.astype(np.float64), (mean,)))
    others += [OfValues((f"chance_{name}",), values, (mean,)) for name, values in chance.items()]
    return make_examples(
        recalls,
        tied(ranks),
        estimators=tuple(others),
        chance={name: float(values.mean()) for name, values in chance.items()},
        with_macro=False,
        **labels,
    )


def _columns(ranks: HitRanks, depths: tuple[int, ...], ties: str, prefix: str = "") -> tuple[Columns, list[OfValues]]:
    """Recall of each query at each depth, and the scores and rates that have no intervals."""
    recalls = {f"{prefix}recall_at_{k}": recall_at(ranks, k, ties) for k in depths}
    names = (f"{prefix}mean_rank", f"{prefix}median_rank")
    rates = OfValues((f"{prefix}tie_rate",), tied(ranks).astype(np.float64), (mean,))
    return recalls, [OfValues(names, rank(ranks, ties), (mean, median)), rates]


def _counts(
    matrix: NDArray[np.intp], is_text: NDArray[np.bool_], matrices: NDArray[np.intp], captions: int
) -> dict[str, int]:
    inside = np.isin(matrix, matrices)
    images, asking = int((inside & is_text).sum()), int((inside & ~is_text).sum())
    columns = captions * len(matrices)
    return {"n": images, "n_images": images, "n_captions": columns, "n_captions_without_image": columns - asking}


def _over_seeds(seeds: list[dict[str, float]], with_spread: bool) -> dict[str, Any]:
    values = {name: [scores[name] for scores in seeds] for name in seeds[0]}
    result: dict[str, Any] = {name: math.fsum(runs) / len(runs) for name, runs in values.items()}
    if with_spread:
        for name, runs in values.items():
            if not name.endswith("tie_rate"):
                result[f"{name}_std"] = statistics.stdev(runs) if len(runs) > 1 else None
        result["n_seeds"] = len(seeds)
    return result


def _matrices(conditions: Labels | None, seeds: Labels | None, n: int) -> _Matrices:
    condition, seed, names = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp), []
    if conditions is not None:
        names, condition = label_codes(conditions, n, "conditions")
    if seeds is not None:
        if conditions is None:
            raise ScoresError("got seeds without conditions; name the condition of each row too, such as 'none'")
        seed = label_codes(seeds, n, "seeds")[1]
    pairs, of_row = np.unique(condition * n + seed, return_inverse=True)
    refuse(
        np.bincount(of_row)[of_row] < 2,
        "there is no second image to choose from for {rows}; give the rows that compete in image retrieval the same "
        'condition and seed, at least two of each, or use pool="own"',
    )
    sizes, condition = np.bincount(of_row), pairs // n
    for number, name in enumerate(names):
        found = np.unique(sizes[condition == number])
        if len(found) > 1:
            raise ScoresError(
                f"the seeds of the condition {name!r} have {found.tolist()} rows; score the same images under each "
                "seed, since their mean would weigh the images unequally"
            )
    return _Matrices(of_row, condition, names)


def _score_table(scores: Any) -> NDArray[Any]:
    """The scores of a shared pool, of shape (images, captions); an array of numbers is returned as it is."""
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
    bad = np.concatenate([~np.isfinite(table[part]).all(axis=1) for part in _blocks(*table.shape)])
    examples = [row[~np.isfinite(row)][0] if is_bad else None for row, is_bad in zip(table, bad, strict=True)]
    refuse(bad, NOT_FINITE, examples, what="candidates")
    return table
