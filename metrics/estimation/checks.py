"""The input checks that all metrics share: scores, labels, clusters, tie policies."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence, Sized
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError, check_known

TIES = ("wrong", "half", "right")
Labels = Sequence[Any] | NDArray[Any]

_ROWS_NAMED = 5
# For `refuse`; `what` are the inputs to score again.
NOT_FINITE = (
    "the scores are NaN or infinite in {rows}: {first}; such a score compares with nothing. Score these {what} again "
    "(float32 mends most overflows of float16), or leave them out and report how many"
)


def check_ties(ties: str) -> str:
    """Return a tie policy; raise `UnknownNameError`, which lists `TIES`, if it is unknown."""
    check_known("tie policy", [str(ties)], TIES)
    return ties


def check_values(values: ArrayLike, allow_nan: bool = False) -> NDArray[np.float64]:
    """Return per-example scores as a float64 array of shape (n,).

    Raises:
        ScoresError: no examples, another shape, or a value that is outside [0, 1] or, unless allowed, NaN.
    """
    values = as_float64(values, "values")
    if values.ndim != 1 or not values.size:
        raise ScoresError(f"the values have shape {values.shape}; pass one value per example, at least one")
    bad = ~((values >= 0) & (values <= 1)) & ~(allow_nan & np.isnan(values))
    refuse(bad, "the value is {first:g} in {rows}; it must lie between 0 and 1, without NaN", values)
    return values


def as_list(labels: Labels) -> list[Any]:
    """Return labels in any container as a list; a single label becomes a list of one."""
    check_unmasked(labels, "labels")
    if isinstance(labels, list | tuple):
        return list(labels)
    try:
        return list(np.atleast_1d(np.asarray(labels, dtype=object)))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ScoresError(f"the labels cannot be read ({error}); pass a list with one label per example") from error


def label_codes(labels: Labels, n: int, what: str) -> tuple[list[str], NDArray[np.intp]]:
    """Number labels in the order in which they first appear.

    Args:
        labels: list or array of shape (n,), text or numbers, compared as text: 7 and "7" are one label.
        n: the number of labels needed.
        what: a plural noun for the labels, for messages.

    Returns:
        The distinct labels, and an array of shape (n,) with the position of each example's label in them.

    Raises:
        ScoresError: another number of labels, or a label that is ``None``, NaN or empty.
    """
    check_unmasked(labels, what)
    values = np.asarray(labels, dtype=object)
    kinds = set(map(type, values.tolist())) if values.ndim == 1 else set()
    if any(issubclass(kind, list | tuple | np.ndarray) for kind in kinds):
        raise ScoresError(f"{what} hold lists; pass one label per example, such as text or a number")
    if values.shape != (n,):
        shape = f"{len(values)} {what}" if values.ndim == 1 else f"{what} of shape {values.shape}"
        raise ScoresError(f"got {shape} for {n} examples; pass a list with one label per example")
    texts = values.tolist()
    if kinds != {str} or "" in texts:
        missing = [_is_missing(value) for value in texts]
        refuse(missing, "{what} are missing in {rows}; give every example a label", what=what)
        texts = list(map(str, texts))
    position = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    return list(position), np.array([position[text] for text in texts], dtype=np.intp)


def cluster_codes(clusters: Labels | None, n: int) -> NDArray[np.intp]:
    """Return the number of each example's cluster; without clusters each example is its own."""
    return np.arange(n) if clusters is None else label_codes(clusters, n, "clusters")[1]


def component_codes(keys: Iterable[Iterable[Hashable]]) -> NDArray[np.intp]:
    """Return the number of each example's group; examples that share a key, directly or indirectly, form a group.

    >>> component_codes([["a"], ["b"], ["c", "a"], []]).tolist()
    [0, 1, 0, 2]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    places: dict[Hashable, int] = {}
    indices = [[places.setdefault(key, len(places)) for key in row] for row in keys]
    n = len(indices)
    rows, columns = np.repeat(np.arange(n), [len(row) for row in indices]), np.array([*chain(*indices)], dtype=np.intp)
    links = coo_array((np.ones(len(rows)), (rows, n + columns)), shape=(n + len(places),) * 2)
    return connected_components(links, directed=False)[1][:n].astype(np.intp)


def _is_missing(label: Any) -> bool:
    try:
        return label is None or label == "" or bool(label != label)
    except (TypeError, ValueError):  # pandas' NA compares with nothing
        return True


def name_rows(bad: ArrayLike) -> str:
    """Describe the true rows of a mask of shape (n,) for a message: the first few, and their number.

    >>> name_rows([False, True, True])
    'rows 1, 2 (2 of 3 rows, counted from 0)'
    """
    mask = np.asarray(bad, dtype=bool)
    rows = np.flatnonzero(mask).tolist()
    listed = ", ".join(map(str, rows[:_ROWS_NAMED])) + (", …" if len(rows) > _ROWS_NAMED else "")
    return f"row{'s' * (len(rows) > 1)} {listed} ({len(rows)} of {mask.size} rows, counted from 0)"


def refuse(bad: ArrayLike, message: str, values: Any = None, **facts: Any) -> None:
    """Raise a `ScoresError` if any row is bad.

    Args:
        bad: array-like of bool of shape (n,).
        message: a format string with the fields ``rows``, which names the bad rows, ``first``, and the keys of `facts`.
        values: the value of each row; ``first`` is the value of the first bad row.

    >>> refuse([False, True], "the answer is {first} in {rows}", [1, 7])
    Traceback (most recent call last):
    vl_assay.metrics.common.errors.ScoresError: the answer is 7 in row 1 (1 of 2 rows, counted from 0)
    """
    mask = np.asarray(bad, dtype=bool)
    if mask.any():
        first = None if values is None else values[mask.argmax()]
        first = first.tolist() if isinstance(first, np.ndarray) else first
        raise ScoresError(message.format(rows=name_rows(mask), first=first, **facts))


def as_float64(values: ArrayLike, what: str) -> NDArray[np.float64]:
    """Return numbers as a float64 array of the same shape; `what` names them in the message of a `ScoresError`."""
    check_unmasked(values, what)
    check_real(values, what)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ScoresError(
            f"the {what} cannot be read as numbers ({error}); pass lists or arrays of numbers, and "
            "of a tensor its .detach().float().cpu()"
        ) from error


def check_unmasked(values: Any, what: str) -> None:
    """Raise a `ScoresError` for masked arrays, also inside lists, since NumPy would read the masked values.

    >>> check_unmasked([np.ma.array([0.9, 0.1], mask=[True, False])], "scores")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    vl_assay.metrics.common.errors.ScoresError: the scores mask 1 of 2 values; leave these examples out (in all ...
    """
    if isinstance(values, np.ma.MaskedArray):
        if masked := int(np.ma.getmaskarray(values).sum()):
            raise ScoresError(
                f"the {what} mask {masked:,} of {values.size:,} values; leave these examples out (in all inputs) and "
                "report how many, or fill the values in"
            )
    elif isinstance(values, list | tuple | dict):
        entries = values.values() if isinstance(values, dict) else values
        if any(issubclass(kind, list | tuple | dict | np.ma.MaskedArray) for kind in set(map(type, entries))):
            for entry in entries:
                check_unmasked(entry, what)


def check_real(values: Any, what: str) -> None:
    """Raise a `ScoresError` for text, which NumPy would parse, and for complex numbers, which would be truncated.

    >>> check_real([["0.9", "0.1"]], "scores")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    vl_assay.metrics.common.errors.ScoresError: the scores cannot be read as numbers: they hold text, such as '0.9'; ...
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # of unequal length, or a tensor that needs .detach()
        for row in values if isinstance(values, list | tuple) else ():
            check_real(row, what)
        return
    kind, first = array.dtype.kind, next(iter(array.flat), None)
    if kind == "O":
        first = next((value for value in array.flat if isinstance(value, str | bytes | complex)), None)
        kind = "c" if isinstance(first, complex) else "U" if first is not None else "O"
        for value in array.flat if kind == "O" else ():
            if isinstance(value, list | tuple | np.ndarray):
                check_real(value, what)
    if kind in "USc":
        held = "complex numbers" if kind == "c" else "text"
        shown = first.item() if isinstance(first, np.generic) else first
        raise ScoresError(
            f"the {what} cannot be read as numbers: they hold {held}, such as {shown!r}; pass lists or arrays of "
            "numbers"
        )


def score_matrix(scores: ArrayLike) -> NDArray[np.float64]:
    """Return the scores of examples as a float64 array of shape (n, k).

    Raises:
        ScoresError: no examples, rows of unequal length, fewer than two columns, or a score that is NaN or infinite;
            the message names the rows.
    """
    try:
        matrix = as_float64(scores, "scores")
    except ScoresError:
        check_equal_lengths(scores, "score the same number of captions for every example")
        raise
    if not matrix.size:
        raise ScoresError("there are no scores; pass at least one example with the scores of its captions")
    if matrix.ndim != 2 or matrix.shape[1] < 2:
        raise ScoresError(
            f"the scores have shape {matrix.shape}; pass one row per example and one column per caption, "
            "with at least two captions"
        )
    refuse(~np.isfinite(matrix).all(axis=1), NOT_FINITE, matrix, what="examples")
    return matrix


def check_equal_lengths(scores: Any, remedy: str) -> None:
    """Raise a `ScoresError` with this remedy if the rows of scores differ in length."""
    try:
        widths = np.array([len(row) if isinstance(row, Sized) and not isinstance(row, str) else 1 for row in scores])
    except TypeError:
        return
    message = "row 0 has {own} scores, but another number stands in {rows}: {first}; {remedy}"
    refuse(widths != widths[:1], message, widths, own=widths[:1].sum(), remedy=remedy)
