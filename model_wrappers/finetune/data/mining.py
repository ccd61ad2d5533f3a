"""The images most similar to each image, of which NegCLIP adds one to the batch (ARO, section 4, appendix C.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ....hub_datasets.core.image_keys import content_key
from ....metrics.common.errors import ModelError, ScoresError, UnknownNameError
from ...engine.progress import Progress
from .data import TrainingSet

# The paper draws one of the 3 nearest.
NEAREST = 3
BACKENDS = ("auto", "faiss", "torch")
Embedder = Callable[[Sequence[Image.Image]], NDArray[Any]]


def mine(
    training_set: TrainingSet,
    embed: Embedder,
    k: int = NEAREST,
    *,
    batch_size: int = 64,
    chunk: int = 4096,
    backend: str = "auto",
    device: str = "cpu",
    progress: bool = True,
) -> dict[str, tuple[str, ...]]:
    """The k nearest images of each image of a training set; `data.epoch` draws of them.

    Each image is embedded once. Images whose files are equal count as one, so that an image's neighbours are neither
    itself nor its copies, and no two of them are copies of one another.

    Args:
        training_set: its images are read and decoded one batch at a time.
        embed: what gives b images their embeddings, (b, d), finite and not 0; the paper takes CLIP's image encoder.
        k: how many neighbours.
        batch_size: how many images are embedded at a time.
        chunk, backend, device: see `nearest`.
        progress: whether a bar is shown on standard error.

    Returns:
        For each image the keys of its neighbours, the nearest first.

    Raises:
        DataError: an image cannot be read.
        ScoresError: there are no k other images, or embeddings are not finite, 0, or of the wrong shape.
    """
    first: dict[str, str] = {}
    same: dict[str, str] = {}
    waiting: list[Image.Image] = []
    parts: list[NDArray[np.float32]] = []

    def embed_waiting() -> None:
        if waiting:
            found = np.asarray(embed(waiting), np.float32)
            if found.ndim != 2 or len(found) != len(waiting):
                raise ScoresError(
                    f"{len(waiting)} images were embedded with the shape {found.shape}; one row each is due"
                )
            parts.append(found)
            waiting.clear()

    keys = training_set.image_keys
    with Progress(show=progress).bar("embedding images", len(keys)) as advance:
        for key in keys:
            content = content_key(training_set.image_bytes(key))
            same[key] = first.setdefault(content, key)
            if same[key] == key:
                waiting.append(training_set.image(key))
            if len(waiting) == batch_size:
                embed_waiting()
            advance(1)
        embed_waiting()
    found = nearest(np.concatenate(parts), k, chunk=chunk, backend=backend, device=device)
    names = list(first.values())
    near = {name: tuple(names[place] for place in row) for name, row in zip(names, found.tolist(), strict=True)}
    return {key: near[same[key]] for key in keys}


def nearest(
    embeddings: NDArray[np.float32],
    k: int = NEAREST,
    *,
    chunk: int = 4096,
    backend: str = "auto",
    device: str = "cpu",
) -> NDArray[np.int64]:
    """For each row the k other rows with the highest cosine; exact, and the same by either library, up to ties.

    Memory beside the embeddings is linear in n: faiss keeps a copy of them, torch a square of `chunk` rows.

    Args:
        embeddings: (n, d), of any length but 0; may be a memory map.
        k: from 1 to n - 1.
        chunk: how many rows are compared at a time.
        backend: ``"faiss"``, ``"torch"``, or ``"auto"``: faiss where it is installed.
        device: where torch compares.

    Returns:
        (n, k) numbers of rows, the nearest first; of rows equally near any.

    Raises:
        UnknownNameError: no such backend.
        ModelError: faiss is asked for and not installed.
        ScoresError: `k` or `chunk` out of its range, or embeddings that are not finite, 0, or no matrix.
    """
    if backend not in BACKENDS:
        raise UnknownNameError("backend", backend, BACKENDS)
    if embeddings.ndim != 2:
        raise ScoresError(f"embeddings must have the shape (n, d); got {embeddings.shape}")
    if not 1 <= k < len(embeddings) or chunk < 1:
        raise ScoresError(
            f"{k} neighbours of each of {len(embeddings)} images, {chunk} at a time, cannot be found; there must be 1 "
            "or more, and fewer than images: take more images, or fewer neighbours (--set neighbours=0 for none)"
        )
    has_faiss = find_spec("faiss") is not None
    if backend == "faiss" and not has_faiss:
        raise ModelError("faiss is not installed; run 'pip install faiss-cpu', or take the backend 'torch'")
    if backend == "torch" or not has_faiss:
        return _by_torch(embeddings, k, chunk, device)
    return _by_faiss(embeddings, k, chunk)


def _units(embeddings: NDArray[np.float32], start: int, chunk: int) -> NDArray[np.float32]:
    """Rows made of length 1."""
    rows = np.asarray(embeddings[start : start + chunk], np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    wrong = ~(np.isfinite(lengths) & (lengths > 0))[:, 0]
    if wrong.any():
        raise ScoresError(
            f"the embedding of image {start + int(wrong.argmax())} is 0 or not finite; is the model sound?"
        )
    return rows / lengths


def _by_torch(embeddings: NDArray[np.float32], k: int, chunk: int, device: str) -> NDArray[np.int64]:
    import torch

    n = len(embeddings)
    found = np.empty((n, k), np.int64)
    for start in range(0, n, chunk):
        queries = torch.from_numpy(_units(embeddings, start, chunk)).to(device)
        best = queries.new_full((len(queries), 0), 0.0)
        rows = best.long()
        for other in range(0, n, chunk):
            similar = queries @ torch.from_numpy(_units(embeddings, other, chunk)).to(device).T
            if other == start:
                similar.fill_diagonal_(-torch.inf)
            values, places = similar.topk(min(k, similar.shape[1]))
            values, rows = torch.cat([best, values], 1), torch.cat([rows, places + other], 1)
            best, kept = values.topk(min(k, values.shape[1]))
            rows = rows.gather(1, kept)
        found[start : start + chunk] = rows.cpu().numpy()
    return found


def _by_faiss(embeddings: NDArray[np.float32], k: int, chunk: int) -> NDArray[np.int64]:
    import faiss  # pyright: ignore[reportMissingImports]

    n = len(embeddings)
    index = faiss.IndexFlatIP(embeddings.shape[1])
    for start in range(0, n, chunk):
        index.add(_units(embeddings, start, chunk))
    found = np.empty((n, k), np.int64)
    for start in range(0, n, chunk):
        _, rows = index.search(_units(embeddings, start, chunk), k + 1)
        # A row is among its own nearest unless k + 1 equal ones come before it; it goes, or else the last one.
        own = rows == np.arange(start, start + len(rows))[:, None]
        order = np.argsort(own, axis=1, kind="stable")[:, :k]
        found[start : start + chunk] = np.take_along_axis(rows, order, axis=1)
    return found
