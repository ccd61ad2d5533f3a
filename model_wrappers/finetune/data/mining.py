"""The images most similar to each image, of which NegCLIP adds one to the batch (ARO, section 4, appendix C.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from ....hub_datasets.core.image_keys import content_key
from ....metrics.common.errors import ScoresError
from ...engine.progress import Progress
from .training_set import TrainingSet


def mine(
    training_set: TrainingSet,
    embed: Callable[[Sequence[Image.Image]], NDArray[Any]],
    k: int,
    *,
    batch_size: int = 64,
    device: str = "cpu",
    progress: bool = True,
) -> dict[str, tuple[str, ...]]:
    """The k nearest images of each image of a training set; `draw_epoch` draws one of them (of 3 in the paper).

    Each image is embedded once. Images with identical files count as one: an image's neighbours are neither itself
    nor its copies, and no two of them are copies of each other.

    Args:
        training_set: its images are read and decoded one batch at a time.
        embed: maps b images to embeddings (b, d), finite and not 0; the paper uses CLIP's image encoder.
        k: the number of neighbours.
        batch_size: how many images are embedded at a time.
        device: where torch compares embeddings.
        progress: whether to show a progress bar.

    Returns:
        For each image the keys of its neighbours, the nearest first.

    Raises:
        DataError: an image cannot be read.
        ScoresError: there are fewer than k other images, or embeddings are not finite, 0, or of the wrong shape.
    """
    first: dict[str, str] = {}
    same: dict[str, str] = {}
    for key in training_set.image_keys:
        same[key] = first.setdefault(content_key(training_set.images.read(key)), key)
    names, parts = list(first.values()), []
    with Progress(show=progress).bar("embedding images", len(names)) as advance:
        for start in range(0, len(names), batch_size):
            images = [training_set.image(name) for name in names[start : start + batch_size]]
            found = np.asarray(embed(images), np.float32)
            if found.ndim != 2 or len(found) != len(images):
                raise ScoresError(
                    f"{len(images)} images were embedded with the shape {found.shape}; expected a row for each"
                )
            parts.append(found)
            advance(len(images))
    rows = nearest(np.concatenate(parts), k, device=device).tolist()
    near = {name: tuple(names[index] for index in row) for name, row in zip(names, rows, strict=True)}
    return {key: near[name] for key, name in same.items()}


def nearest(embeddings: NDArray[np.float32], k: int, *, chunk: int = 4096, device: str = "cpu") -> NDArray[np.int64]:
    """For each row the k other rows with the highest cosine, exactly.

    Memory in addition to the embeddings is a square of `chunk` rows.

    Args:
        embeddings: (n, d), of any length but 0; may be a memory map.
        k: from 1 to n - 1.
        chunk: how many rows are compared at a time.
        device: where torch compares.

    Returns:
        (n, k) indices of rows, the nearest first; ties in any order.

    Raises:
        ScoresError: `k` or `chunk` out of its range, or embeddings that are not finite, 0, or not a matrix.
    """
    if embeddings.ndim != 2:
        raise ScoresError(f"embeddings must have the shape (n, d); got {embeddings.shape}")
    n = len(embeddings)
    if not 1 <= k < n or chunk < 1:
        raise ScoresError(
            f"{k} neighbours of each of {n} images, {chunk} at a time, cannot be found; there must be 1 or more, and "
            "fewer than images: use more images, or fewer neighbours (--set neighbours=0 for none)"
        )
    found = np.empty((n, k), np.int64)
    for start in range(0, n, chunk):
        queries = _units(embeddings, start, chunk, device)
        best = queries.new_full((len(queries), 0), 0.0)
        rows = best.long()
        for other in range(0, n, chunk):
            similar = queries @ _units(embeddings, other, chunk, device).T
            if other == start:
                similar.fill_diagonal_(-torch.inf)
            values, columns = similar.topk(min(k, similar.shape[1]))
            values, rows = torch.cat([best, values], 1), torch.cat([rows, columns + other], 1)
            best, kept = values.topk(min(k, values.shape[1]))
            rows = rows.gather(1, kept)
        found[start : start + chunk] = rows.cpu().numpy()
    return found


def _units(embeddings: NDArray[np.float32], start: int, chunk: int, device: str) -> torch.Tensor:
    """Rows normalised to length 1."""
    rows = np.asarray(embeddings[start : start + chunk], np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    wrong = ~(np.isfinite(lengths) & (lengths > 0))[:, 0]
    if wrong.any():
        raise ScoresError(f"the embedding of image {start + int(wrong.argmax())} is 0 or not finite; check the model")
    return torch.from_numpy(rows / lengths).to(device)
