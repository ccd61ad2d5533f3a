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

# Images that are embedded at once, and rows that are compared with all others at once.
_BATCH = 64
_ROWS = 1024


def mine(
    training_set: TrainingSet,
    embed: Callable[[Sequence[Image.Image]], NDArray[Any]],
    k: int,
    *,
    device: str = "cpu",
    progress: bool = True,
) -> dict[str, tuple[str, ...]]:
    """Return the k nearest images of each image of a training set; `draw_epoch` draws one of them (of 3 in the paper).

    Each image is embedded once. Images with identical files count as one: an image's neighbours are neither itself
    nor its copies, and no two of them are copies of each other.

    Args:
        training_set: its images are read and decoded one batch at a time.
        embed: maps b images to embeddings (b, d), finite and not 0; the paper uses CLIP's image encoder.
        k: the number of neighbours.
        device: where torch compares embeddings.
        progress: whether to show a progress bar.

    Returns:
        For each image the keys of its neighbours, the nearest first.

    Raises:
        DataError: an image cannot be read.
        ScoresError: there are fewer than k other images, or embeddings are not finite or 0.
    """
    first: dict[str, str] = {}
    same: dict[str, str] = {}
    for key in training_set.image_keys:
        same[key] = first.setdefault(content_key(training_set.images.read(key)), key)
    names, parts = list(first.values()), []
    with Progress(show=progress).bar("embedding images", len(names)) as advance:
        for start in range(0, len(names), _BATCH):
            images = [training_set.image(name) for name in names[start : start + _BATCH]]
            parts.append(np.asarray(embed(images), np.float32))
            advance(len(images))
    rows = nearest(np.concatenate(parts), k, device=device).tolist()
    near = {name: tuple(names[index] for index in row) for name, row in zip(names, rows, strict=True)}
    return {key: near[name] for key, name in same.items()}


def nearest(embeddings: NDArray[np.float32], k: int, *, device: str = "cpu") -> NDArray[np.int64]:
    """Return for each row the k other rows with the highest cosine, exactly.

    Args:
        embeddings: (n, d), of any length but 0.
        k: from 1 to n - 1.
        device: where torch compares; a block of 1,024 × n similarities is in its memory.

    Returns:
        (n, k) indices of rows, the nearest first; ties in any order.

    Raises:
        ScoresError: `k` is out of its range, or embeddings are not finite or 0.
    """
    n = len(embeddings)
    if not 1 <= k < n:
        raise ScoresError(
            f"{k} neighbours of each of {n} images cannot be found; there must be 1 or more, and fewer than images: "
            "use more images, or fewer neighbours (--set neighbours=0 for none)"
        )
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    wrong = ~(np.isfinite(lengths) & (lengths > 0))[:, 0]
    if wrong.any():
        raise ScoresError(f"the embedding of image {int(wrong.argmax())} is 0 or not finite; check the model")
    units = torch.from_numpy(embeddings / lengths).to(device)
    indices = []
    for start in range(0, n, _ROWS):
        similarities = units[start : start + _ROWS] @ units.T
        similarities.diagonal(start).fill_(-torch.inf)
        indices.append(similarities.topk(k).indices.cpu().numpy())
    return np.concatenate(indices)
