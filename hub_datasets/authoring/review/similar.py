"""Search for similar images by an image-only model, for annotators who need a contrasting image.

TRICD (Kamath, Price et al., 2023), section 4.1.1, step 3, shows the 60 nearest images by the embeddings of an image
model. It avoids multimodal retrieval, whose blind spots the benchmark would inherit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ....metrics.common.errors import DataError, ModelError
from ...core.pretrained import load_part
from .pictures import Pictures

HISTOGRAM = "histogram"
NEIGHBOURS = 60
_SIDE = 128
_CELLS = 4
_LEVELS = 4
_DIRECTIONS = 8
Embedder = Callable[[Sequence[Image.Image]], NDArray[np.float32]]


class SimilarImages:
    """Search among the images of a folder, which are embedded at the first search.

    Args:
        pictures: the images.
        embed: `histograms`, or what `load_embedder` returned.
        batch: images per call of `embed`.
    """

    def __init__(self, pictures: Pictures, embed: Embedder, *, batch: int = 16) -> None:
        self._pictures, self._embed, self._batch = pictures, embed, batch
        self._lock = threading.Lock()
        self._names: list[str] = []
        self._embeddings: NDArray[np.float32] | None = None

    def nearest(self, image: str, count: int = NEIGHBOURS) -> list[tuple[str, float]]:
        """The images most similar to one in the folder, the nearest first, without that one.

        Unreadable images are left out, with a warning on the console.

        Returns:
            Names, and the cosines of their embeddings with that of the image, in [-1, 1]; ties are in order of names.

        Raises:
            DataError: the image is not in the folder or cannot be read.
        """
        name = self._pictures.name(image)
        with self._lock:
            if self._embeddings is None:
                self._names, self._embeddings = self._embed_all()
        if name in self._names:
            query = self._embeddings[self._names.index(name)]
        else:  # added later, or with another suffix
            query = _unit(self._embed([self._pictures.load(name)]))[0]
        similarities = self._embeddings @ query
        order = np.argsort(-similarities, kind="stable")[: count + 1]
        near = [(self._names[row], float(similarities[row])) for row in order if self._names[row] != name]
        return near[:count]

    def _embed_all(self) -> tuple[list[str], NDArray[np.float32]]:
        from rich.progress import track

        names, parts = [], []
        every = self._pictures.names()
        for start in track(range(0, len(every), self._batch), description="embedding images", transient=True):
            loaded = {}
            for name in every[start : start + self._batch]:
                try:
                    loaded[name] = self._pictures.load(name)
                except DataError as error:
                    print(f"warning: {error}")
            if loaded:
                names += loaded
                parts.append(_unit(self._embed([*loaded.values()])))
        return names, np.concatenate(parts) if parts else np.zeros((0, 1), np.float32)


def histograms(images: Sequence[Image.Image]) -> NDArray[np.float32]:
    """Embeddings without weights: histograms of colours and edges by place.

    Each image is resized to 128 × 128 and cut into 4 × 4 cells. A cell has a histogram of its colours (4 × 4 × 4 levels
    of red, green and blue, a pixel shared between the nearest levels) and one of the directions of its grey gradients
    (8, weighted by their lengths). Both parts have the same weight. Square roots are taken, so that the cosine is a
    Bhattacharyya coefficient.

    Returns:
        float32 of shape (n, 4 · 4 · (64 + 8)), not negative.
    """
    return np.stack([_histogram(image) for image in images])


def load_embedder(checkpoint: str) -> Embedder:
    """Embeddings by an image model of ``transformers``: the mean of its last hidden states.

    Args:
        checkpoint: a name on the Hub or a folder, such as ``"facebook/dinov2-small"``; ``"histogram"`` is
            `histograms`.

    Raises:
        DataError: torch or transformers is not installed.
        ModelError: it cannot be loaded, lacks weights, has no image processor, or was trained with text: then the
            benchmark would inherit the blind spots that it is to measure.
    """
    if checkpoint == HISTOGRAM:
        return histograms
    try:
        import torch
        from transformers import AutoConfig, AutoImageProcessor, AutoModel
    except ModuleNotFoundError as error:
        raise DataError(f"an image model needs {error.name}: pip install 'vl-assay[models]'") from error
    try:
        config = load_part(AutoConfig, checkpoint)
        kind = str(config.model_type)
        if hasattr(config, "text_config") or kind.endswith("_vision_model"):
            raise ModelError(
                f"{checkpoint} is a {kind} model, which was trained with text. The benchmark would inherit its blind "
                "spots (TRICD, section 4.1.1). Give an image-only model, such as facebook/dinov2-small or "
                "facebook/convnext-tiny-224"
            )
        processor = load_part(AutoImageProcessor, checkpoint, backend="pil")
        options = {"dtype": torch.float32, "weights_only": True, "output_loading_info": True}
        model, loading = load_part(AutoModel, checkpoint, **options)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"{checkpoint} cannot be loaded as an image model: {error}. Name a checkpoint of one, such as "
            f"facebook/dinov2-small, or {HISTOGRAM}, which needs no weights"
        ) from error
    missing = [name for name in loading["missing_keys"] if not name.startswith("pooler.")]
    if missing:
        raise ModelError(
            f"{checkpoint} lacks {len(missing)} weights, such as {missing[0]}; it is not a complete image model"
        )
    model.eval()

    def embed(images: Sequence[Image.Image]) -> NDArray[np.float32]:
        with torch.inference_mode():
            states = model(**processor(images=list(images), return_tensors="pt")).last_hidden_state
        pooled = states.flatten(2).mean(2) if states.ndim == 4 else states.mean(1)
        return pooled.numpy().astype(np.float32)

    return embed


def _histogram(image: Image.Image) -> NDArray[np.float32]:
    small = np.asarray(image.convert("RGB").resize((_SIDE, _SIDE), Image.Resampling.BILINEAR), np.float32)
    cell_of_line = np.arange(_SIDE) * _CELLS // _SIDE
    cell = cell_of_line[:, None] * _CELLS + cell_of_line[None, :]
    down, across = np.gradient(small.mean(axis=2))
    direction = ((np.arctan2(down, across) / (2 * np.pi) + 0.5) * _DIRECTIONS).astype(np.intp) % _DIRECTIONS
    parts = [
        sum(_counts(cell * _LEVELS**3 + colour, _CELLS**2 * _LEVELS**3, share) for colour, share in _colours(small)),
        _counts(cell * _DIRECTIONS + direction, _CELLS**2 * _DIRECTIONS, np.hypot(down, across)),
    ]
    # An image without edges has no gradients to divide by.
    return np.concatenate([np.sqrt(counts / (np.sum(counts) or 1.0)) for counts in parts]).astype(np.float32)


def _colours(pixels: NDArray[np.float32]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32]]]:
    """The eight nearest colour levels of each pixel with its shares in them, so that brightness changes little."""
    position = np.clip(pixels * (_LEVELS / 256) - 0.5, 0, _LEVELS - 1)
    below = np.minimum(position.astype(np.intp), _LEVELS - 2)
    rest = position - below
    for upper in product((0, 1), repeat=3):
        level = below + np.array(upper)
        share = np.where(upper, rest, 1 - rest).prod(axis=2)
        yield (level[..., 0] * _LEVELS + level[..., 1]) * _LEVELS + level[..., 2], share


def _counts(bins: NDArray[np.intp], size: int, weights: NDArray[Any]) -> NDArray[np.float64]:
    return np.bincount(bins.ravel(), weights.ravel(), size).astype(np.float64)


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)
