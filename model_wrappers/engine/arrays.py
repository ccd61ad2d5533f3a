"""The numbers that models return, as arrays: of NumPy, torch or another library, in any dtype, on any device."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...metrics.common.errors import ModelError

# The lengths of embeddings that were normalised in bfloat16 differ from 1 by up to 0.004.
_LENGTH_TOLERANCE = 0.01


def as_numbers(model: str, values: Any) -> Any:
    """Convert a model's output to an array or a tensor of float32 or float64.

    Args:
        model: its name, for messages.
        values: an array, a tensor, or a sequence of numbers, arrays or tensors of one shape. A tensor may have
            gradients; it stays on its device, so that the device is not waited for.

    Returns:
        float64 for float64, integers and booleans, and float32 for the shorter types, which it holds exactly.

    Raises:
        ModelError: something else than real numbers, or rows of different lengths.
    """
    rows: Any = values
    if isinstance(values, list | tuple) and not all(isinstance(value, int | float) for value in values):
        rows = [as_array(model, value) for value in values]
    try:
        if is_tensor(rows):
            rows = rows.detach()
            if rows.layout is not sys.modules["torch"].strided:
                rows = rows.to_dense()
            if rows.is_floating_point():
                return rows if rows.element_size() == 8 else rows.float()
            if rows.is_complex():
                raise TypeError("complex numbers")
            return rows.cpu().double()
        array = np.asarray(rows)
        if array.dtype.kind not in "fiubV":
            raise TypeError(f"an array of {array.dtype}")
        # bfloat16 of other libraries is of kind V.
        is_short = array.dtype.kind in "fV" and array.itemsize < 8
        return array.astype(np.float32 if is_short else np.float64, copy=False)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise ModelError(
            f"{model} gave something else than rows of numbers ({type(values).__name__}: {error}); return an array of "
            "NumPy or a tensor, with a row or a number for each item"
        ) from error


def as_array(model: str, values: Any) -> np.ndarray:
    """Return what `as_numbers` returns, copied from its device."""
    rows = as_numbers(model, values)
    return rows.cpu().numpy() if is_tensor(rows) else rows


def as_column(model: str, scores: Any, count: int) -> Any:
    """Return scores (n,) as (n, 1), see `as_numbers`; raises ModelError if there are not `count` of them."""
    column = as_numbers(model, scores)
    if tuple(column.shape) != (count,):
        raise ModelError(
            f"{model} gave scores of the shape {tuple(column.shape)} for {count} texts; expected ({count},)"
        )
    return column[:, None]


def joined(model: str, batches: Sequence[Any]) -> Any:
    """Return the rows of some batches as one array, or as one tensor if all are tensors on one device.

    Args:
        model: its name, for messages.
        batches: results of `as_numbers`, of shape (n, width).

    Raises:
        ModelError: batches of other shapes.
    """
    shapes = {tuple(batch.shape[1:]) for batch in batches}
    if len(shapes) > 1 or any(len(batch.shape) not in (1, 2) for batch in batches):
        shapes_text = " and ".join(str(tuple(batch.shape)) for batch in batches[:2])
        raise ModelError(f"{model} gave arrays of the shapes {shapes_text}; expected one row of numbers for each item")
    if all(map(is_tensor, batches)) and len({batch.device for batch in batches}) == 1:
        return sys.modules["torch"].cat(list(batches))
    return np.concatenate([as_array(model, batch) for batch in batches])


def check_unit_length(model: str, what: str, rows: np.ndarray) -> None:
    """Raise `ModelError` unless embeddings (n, d) have length 1, as cosines are computed as dot products."""
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    if len(lengths) and np.abs(lengths - 1).max() > _LENGTH_TOLERANCE:
        raise ModelError(
            f"{model} gave embeddings of {what} of length {lengths.min():.3g} to {lengths.max():.3g}; a dual encoder "
            "gives embeddings of length 1: divide each by its norm"
        )


def is_tensor(values: Any) -> bool:
    """Return whether this is a tensor of torch, without importing it."""
    return "torch" in sys.modules and isinstance(values, sys.modules["torch"].Tensor)
