"""The seam between families and the runner: a family knows no benchmark, the runner knows no family.

A family is one public module of this package with

- ``load(checkpoint, options) -> DualEncoder | PairScorer``, which raises `ModelError` when it cannot;
- ``MODEL_TYPES``, the ``model_type`` values of ``config.json`` that it answers for (empty: only by its name);
- ``CHECKPOINTS``, a few checkpoints to show in ``vl-assay list``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from PIL import Image


@dataclass(frozen=True)
class LoadOptions:
    """How to load a checkpoint.

    Args:
        device: a torch device name, such as ``"cpu"`` or ``"cuda:0"``.
        dtype: the type of weights and activations: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        revision: branch, tag or commit of a Hub repository; None for the default branch.
    """

    device: str = "cpu"
    dtype: str = "float32"
    revision: str | None = None


@dataclass(frozen=True)
class ModelInfo:
    """What a score sheet says of its model; together these decide the scores."""

    name: str
    family: str
    checkpoint: str
    revision: str
    dtype: str
    parameters: int = 0
    preprocessing: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class DualEncoder(Protocol):
    """A model that embeds images and captions apart; a score is the dot product of two embeddings of length 1.

    `prepare_…` runs in threads on the CPU and must not change the model; `encode_…` runs on the device. An item's
    embedding must not depend on the other items of its batch beyond rounding; with `exact` it is computed in double
    precision.
    """

    info: ModelInfo
    max_tokens: int

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """What `encode_images` wants of one image."""
        ...

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """The token ids of each caption, all of them, also beyond `max_tokens`."""
        ...

    def encode_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) of prepared images, each of length 1."""
        ...

    def encode_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) of prepared captions, each of length 1; longer ones are cut to `max_tokens`."""
        ...


@runtime_checkable
class PairScorer(Protocol):
    """A model that must see image and caption together."""

    info: ModelInfo

    def score(self, image: Image.Image, captions: Sequence[str]) -> Sequence[float]:
        """How well each caption matches the image; higher is better."""
        ...


Model = DualEncoder | PairScorer
