"""Balancing of score gaps: cells that each have a mirror image, and the rows that make both equally full."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ....metrics.common.errors import ScoresError
from ....metrics.estimation.bootstrap import check_whole
from ....metrics.estimation.checks import Labels, label_codes, name_rows

GRID = 100

_FINEST_GRID = 1_000_000


def balance(
    gaps: ArrayLike,
    ids: Sequence[str] | None = None,
    *,
    groups: Labels | None = None,
    grid: int | Sequence[int] = GRID,
    seed: int = 0,
) -> NDArray[np.bool_]:
    """Choose rows so that each cell holds as many rows as its mirror image through the origin.

    All rows of the smaller of the two cells are kept, and as many rows of the larger one are drawn at random, so that
    each column has as many gaps above 0 as below. Rows whose gaps are all exactly 0 are kept.

    Args:
        gaps: array-like of shape (n, m), m >= 1, in [-1, 1]: for each scorer the score of the positive caption minus
            the score of the negative caption.
        ids: a distinct text per row. Only the ids and the seed decide the draw, so that neither the order of rows nor
            other cells matter. None numbers the rows.
        groups: a label per row, such as its category; each group is balanced by itself. None is one group.
        grid: the number of cells in [-1, 1], at least 1, for all columns or for each; 100 in the paper. Cells do not
            reach over 0, so that 1 and 2 balance signs only.
        seed: any integer.

    Returns:
        bool array of shape (n,): the rows kept.

    Raises:
        ScoresError: no gaps, another shape, NaN, gaps outside [-1, 1], repeated ids, another number of labels, or a
            grid outside its range.

    Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), Algorithm 1.

    >>> balance([[0.31], [0.32], [-0.31], [-0.5], [0.0]]).sum()  # one of the first two, the third and the last
    np.int64(3)
    """
    cell = find_cells(gaps, grid)
    n = len(cell)
    names = list(map(str, range(n))) if ids is None else ids
    if len(names) != n or len(set(names)) != n:
        raise ScoresError(f"{len(set(names))} different ids came for {n} rows; give each row an id of its own")
    signs = np.sign(cell)
    # The sign of the first non-zero number in each row; 0 if all are 0.
    side = signs[np.arange(n), (signs != 0).argmax(axis=1)]
    code = np.zeros(n, np.int64) if groups is None else label_codes(groups, n, "groups")[1].astype(np.int64)
    for column in (cell * side[:, np.newaxis]).T:
        # Numbered anew each time, so that the product cannot grow out of range.
        code = np.unique(code * (2 * _FINEST_GRID) + column, return_inverse=True)[1]
    pile = 2 * code + (side > 0)
    sizes = np.bincount(pile, minlength=2 * (int(code.max()) + 1))
    quota = np.repeat(sizes.reshape(-1, 2).min(axis=1), 2)
    # A random number for each row; the rows with the lowest in a cell are kept.
    digests = (hashlib.blake2b(f"{seed}/{id}".encode(errors="surrogatepass"), digest_size=8).digest() for id in names)
    order = np.lexsort((np.frombuffer(b"".join(digests), np.uint64), pile))
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n) - (np.cumsum(sizes) - sizes)[pile[order]]
    is_kept = rank < quota[pile]
    return is_kept | (side == 0)


def find_cells(gaps: ArrayLike, grid: int | Sequence[int] = GRID) -> NDArray[np.int64]:
    """Return the cell number of each gap, column by column; the negated gap has the negated cell number.

    Cells are intervals (a, b] of absolute gaps, of width 2 / grid, and a cell number has the sign of its gaps, so that
    the mirror image of a cell is a cell. Cell 0 holds only gaps of exactly 0. If the grid is odd, the cell around 0 is
    split at 0.

    Args:
        gaps, grid: as for `balance`.

    Returns:
        int64 array of the shape of the gaps.

    Raises:
        ScoresError: as for `balance`.

    >>> find_cells([[0.02, -0.03, 0.0, 1.0]]).tolist()
    [[1, -2, 0, 50]]
    """
    values = _check_gaps(gaps)
    grids = np.broadcast_to(np.asarray(grid), values.shape[1:]) if np.ndim(grid) == 0 else np.asarray(grid)
    if grids.shape != values.shape[1:]:
        raise ScoresError(f"{grids.size} grids came for {values.shape[1]} columns of gaps; give one, or one for each")
    cells = np.empty(values.shape, np.int64)
    for column, number in enumerate(grids.tolist()):
        check_whole(grid=(number, 1))
        if number > _FINEST_GRID:
            raise ScoresError(f"grid is {number:,}; it must be at most {_FINEST_GRID:,}")
        edges = np.arange(number % 2 or 2, number, 2) / number
        cells[:, column] = np.searchsorted(edges, np.abs(values[:, column]), "left") + 1
    return cells * np.sign(values).astype(np.int64)


def rank_gaps(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace the absolute value of each gap by its rank, divided by n (ties: the mean rank), keeping signs.

    The cells of `balance` are then filled evenly, so that sizes are balanced finely and few pairs are kept.

    Args:
        gaps: shape (n,), finite.

    Returns:
        float64 array of shape (n,), in [-1, 1].

    >>> rank_gaps(np.array([4.0, -1.0, 3.0, -5.0])).tolist()
    [0.75, -0.25, 0.5, -1.0]
    """
    sizes = np.abs(gaps)
    ordered = np.sort(sizes)
    ranks = np.searchsorted(ordered, sizes, "left") + np.searchsorted(ordered, sizes, "right") + 1
    return np.sign(gaps) * ranks / max(1, 2 * len(gaps))


def _check_gaps(gaps: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(gaps, np.float64)
    if values.ndim != 2 or not values.size:
        raise ScoresError(
            f"gaps of shape {values.shape} came; give one row for each pair and one column for each scorer"
        )
    outside = ~(np.abs(values) <= 1).all(axis=1)  # NaN too
    if outside.any():
        raise ScoresError(
            f"the gaps are outside [-1, 1] or NaN in {name_rows(outside)}: {values[outside][0].tolist()}; leave out "
            "pairs whose scores are not finite"
        )
    return values
