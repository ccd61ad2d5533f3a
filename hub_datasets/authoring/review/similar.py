"""Search for similar images by an image-only model, for annotators who need a contrasting image.

TRICD (Kamath, Price et al., 2023), section 4.1.1, step 3, shows the 60 nearest images by the embeddings of an image
model. It avoids multimodal retrieval, whose blind spots the benchmark would inherit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ....metrics.common.errors import DataError, ModelError
from ...core.pretrained import load_part
from .pictures import Pictures

HISTOGRAM = "histogram"
NEIGHBOURS = 60
# Histogram: side of the image in pixels, cells per side, levels of each colour, directions of gradients.
_SIDE, _CELLS, _LEVELS, _DIRECTIONS = 128, 4, 4, 8
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
        self._embeddings: dict[str, NDArray[np.float32]] | None = None

    def nearest(self, image: str, count: int = NEIGHBOURS) -> list[tuple[str, float]]:
        """Return the images of the folder most similar to a given one, excluding it, the nearest first.

        Unreadable images are left out, with a warning on the console.

        Returns:
            Names, and the cosines of their embeddings with the image's, in [-1, 1]; ties are in order of names.

        Raises:
            DataError: the image is not in the folder or cannot be read.
        """
        name = self._pictures.name(image)
        with self._lock:
            if self._embeddings is None:
                self._embeddings = self._embed_all()
        embeddings = self._embeddings
        query = embeddings[name] if name in embeddings else self._unit([self._pictures.load(name)])[0]  # added later
        others = [other for other in embeddings if other != name]
        similarities = np.array([embeddings[other] @ query for other in others])
        return [(others[row], float(similarities[row])) for row in np.argsort(-similarities, kind="stable")[:count]]

    def _embed_all(self) -> dict[str, NDArray[np.float32]]:
        from rich.progress import track

        embeddings, names = {}, self._pictures.names()
        for start in track(range(0, len(names), self._batch), description="embedding images", transient=True):
            loaded = {}
            for name in names[start : start + self._batch]:
                try:
                    loaded[name] = self._pictures.load(name)
                except DataError as error:
                    print(f"warning: {error}")
            if loaded:
                embeddings |= zip(loaded, self._unit([*loaded.values()]), strict=True)
        return embeddings

    def _unit(self, images: Sequence[Image.Image]) -> NDArray[np.float32]:
        rows = self._embed(images)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def histograms(images: Sequence[Image.Image]) -> NDArray[np.float32]:
    """Embed images without weights, by histograms of colours and edges by place.

    Each image is resized to 128 × 128 and cut into 4 × 4 cells. A cell has a histogram of its colours (4 × 4 × 4 levels
    of red, green and blue, a pixel shared between the nearest levels, so that brightness changes little) and one of the
    directions of its grey gradients (8, weighted by their lengths). Both parts have the same weight. Square roots are
    taken, so that the cosine is a Bhattacharyya coefficient.

    Returns:
        float32 of shape (n, 4 · 4 · (64 + 8)), not negative.
    """
    return np.stack([_histogram(image) for image in images])


def _histogram(image: Image.Image) -> NDArray[np.float32]:
    small = np.asarray(image.convert("RGB").resize((_SIDE, _SIDE), Image.Resampling.BILINEAR), np.float32)
    place = np.arange(_SIDE) * _CELLS // _SIDE
    cell = place[:, np.newaxis] * _CELLS + place
    position = np.clip(small * (_LEVELS / 256) - 0.5, 0, _LEVELS - 1)
    below = np.minimum(position.astype(np.intp), _LEVELS - 2)
    colours = np.zeros(_CELLS**2 * _LEVELS**3)
    for upper in product((0, 1), repeat=3):
        share = np.where(upper, position - below, 1 - (position - below)).prod(axis=2)
        bins = cell * _LEVELS**3 + (below + upper) @ [_LEVELS**2, _LEVELS, 1]
        colours += np.bincount(bins.ravel(), share.ravel(), len(colours))
    down, across = np.gradient(small.mean(axis=2))
    direction = ((np.arctan2(down, across) / (2 * np.pi) + 0.5) * _DIRECTIONS).astype(np.intp) % _DIRECTIONS
    edges = np.bincount(
        (cell * _DIRECTIONS + direction).ravel(), np.hypot(down, across).ravel(), _CELLS**2 * _DIRECTIONS
    )
    # An image without edges has no gradients to divide by.
    return np.concatenate([np.sqrt(counts / (counts.sum() or 1.0)) for counts in (colours, edges)]).astype(np.float32)


def load_embedder(checkpoint: str) -> Embedder:
    """Load an image model of ``transformers``, which embeds images by the mean of its last hidden states.

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
