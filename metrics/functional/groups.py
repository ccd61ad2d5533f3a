"""Groups of two images and two captions, each caption true of one image only (Winoground, Cola)."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from ..estimation.aggregate import metric_function
from ..estimation.checks import NOT_FINITE, as_float64, check_ties, refuse
from ..estimation.spec import Described, Examples, make_examples

_REMEDY = "pass a 2×2 matrix for each group: rows images, columns captions, the right pairs on the diagonal"
# Chance that breaking ties at random puts all right pairs above all wrong ones, where a right and b wrong pairs share
# the score that decides: a! b! / (a + b)!.
_GROUP_CHANCE = np.array([[1, 1, 1], [1, 1 / 2, 1 / 3], [1, 1 / 3, 1 / 6]])


@metric_function()
def group_match(scores: ArrayLike, *, ties: str = "wrong", **labels: Unpack[Described]) -> Examples:
    """Compute how often a model matches two images with their two captions; higher is better.

    With ``s[i][j]`` the score of image i with caption j, and caption i the right one of image i::

        text  = s[0][0] > s[0][1] and s[1][1] > s[1][0]      for each image the right caption
        image = s[0][0] > s[1][0] and s[1][1] > s[0][1]      for each caption the right image
        group = text and image

    Scoring at random gives 1/4, 1/4 and 1/6.

    Args:
        scores: array-like of shape (n, 2, 2): a matrix for each group, rows images, columns captions, on any scale.
        ties: how a tie of a right with a wrong pair counts where it decides: ``"wrong"`` 0, as in Winoground's strict
            inequalities; ``"half"`` the mean over random ways of breaking it; ``"right"`` 1.
        labels: categories (Winoground's tags: a group may have several, and `[]` if it has none), clusters; and further
            options: see ``aggregate.SummaryOptions``.

    Returns:
        ``text_score``, ``image_score`` and ``group_score`` in [0, 1], their ``macro_`` averages over the categories,
        ``tie_rate``, ``n``, ``per_category``, and with ``confidence`` the intervals.

    Raises:
        ScoresError: a group that is not a 2×2 matrix, a NaN or infinite score, labels or options that cannot be used.
        UnknownNameError: an unknown tie policy.

    Source: Winoground (Thrush et al., CVPR 2022), section 3.3, equations 1 to 3; Cola (Ray et al., NeurIPS Datasets and
    Benchmarks 2023), multi-object setting.

    >>> result = group_match([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.4], [0.6, 0.7]]])
    >>> result["text_score"], result["image_score"], result["group_score"]
    (1.0, 0.5, 0.5)
    """
    check_ties(ties)
    matrices = group_tables(scores, 2, _REMEDY)
    right = matrices[:, [0, 1], [0, 1]]
    other_caption = matrices[:, [0, 1], [1, 0]]
    other_image = matrices[:, [1, 0], [0, 1]]
    text, text_tied = _both(right, other_caption, ties)
    image, image_tied = _both(right, other_image, ties)
    values = {"text_score": text, "image_score": image, "group_score": _group(right, other_caption, ties)}
    return make_examples(values, text_tied | image_tied, **labels)


def _both(
    right: NDArray[np.float64], wrong: NDArray[np.float64], ties: str
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the scores of pairs of comparisons that must both be won, and whether a tie decides them."""
    tied = right == wrong
    tie_values = {"wrong": 0.0, "half": 0.5, "right": 1.0}[ties]
    values = np.where(tied, tie_values, right > wrong).prod(axis=1)
    return values, tied.any(axis=1) & (right >= wrong).all(axis=1)


def _group(right: NDArray[np.float64], wrong: NDArray[np.float64], ties: str) -> NDArray[np.float64]:
    worst_right, best_wrong = right.min(axis=1), wrong.max(axis=1)
    rights = (right == worst_right[:, np.newaxis]).sum(axis=1)
    wrongs = (wrong == best_wrong[:, np.newaxis]).sum(axis=1)
    tie_values = {"wrong": 0.0, "half": _GROUP_CHANCE[rights, wrongs], "right": 1.0}[ties]
    return np.where(worst_right == best_wrong, tie_values, worst_right > best_wrong)


def group_tables(scores: ArrayLike, columns: int, remedy: str) -> NDArray[np.float64]:
    """Return the scores of groups of two images as a float64 array of shape (n, 2, columns).

    Raises:
        ScoresError: no groups, a group of another shape, or a score that is NaN or infinite; the message names the rows
            and, for a shape, ends with `remedy`.
    """
    try:
        tables = as_float64(scores, "scores")
    except ScoresError:
        bad = [not _has_shape(group, (2, columns)) for group in scores] if isinstance(scores, list | tuple) else []
        refuse(bad, "the scores are not 2×{columns} matrices in {rows}; {remedy}", columns=columns, remedy=remedy)
        raise
    if not tables.size:
        raise ScoresError("there are no scores; pass at least one group")
    if tables.shape[1:] != (2, columns):
        raise ScoresError(f"the scores have shape {tables.shape}; {remedy}")
    refuse(~np.isfinite(tables).all(axis=(1, 2)), NOT_FINITE, tables, what="groups")
    return tables


def _has_shape(group: Any, shape: tuple[int, int]) -> bool:
    try:
        return np.shape(group) == shape
    except ValueError:  # rows of unequal length
        return False
    except RuntimeError:  # tensors that need .detach(), which the first error says
        return True
