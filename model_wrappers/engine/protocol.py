"""The seam between families and the runner: a family knows no benchmark, the runner knows no family.

A family is one public module of this package with

- ``load(checkpoint, options) -> Model``, which raises `ModelError` when it cannot;
- ``MODEL_TYPES``, the ``model_type`` values of ``config.json`` that it answers for (empty: only by its name);
- ``CHECKPOINTS``, a few checkpoints to show in ``vl-assay list``.

A model follows one or more of the protocols below; what it can do decides which tasks it is given (`abilities`).
`prepare_…` runs in threads on the CPU and must not change the model; everything else runs on the device. What comes of
an item must not depend on the other items of its batch beyond rounding. With `exact` it is computed in double
precision and one item at a time, which is how the runner settles scores that rounding cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from PIL import Image

from ...metrics.common.errors import UnknownNameError

if TYPE_CHECKING:
    from .plan import ScoringPlan
    from .rows import Results


@dataclass(frozen=True)
class LoadOptions:
    """How to load a checkpoint.

    Args:
        device: a torch device name, such as ``"cpu"`` or ``"cuda:0"``.
        dtype: the type of weights and activations: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        revision: branch, tag or commit of a Hub repository; None for the default branch.
        settings: what a family lets the user choose, by name, such as ``{"head": "itc"}``; values are texts.
        compile: whether `torch.compile` translates the parts of the model first, which pays for large sets only.
    """

    device: str = "cpu"
    dtype: str = "float32"
    revision: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    compile: bool = False


def choose(family: str, options: LoadOptions, known: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The settings of a family, each with its first value where the user chose none.

    Args:
        family: its name, for messages.
        options: with the user's settings.
        known: for each setting its values, the default first; or a sequence of one default and any value where the
            sequence ends with ``"…"``.

    Raises:
        UnknownNameError: a setting or value that does not exist.
    """
    for name in options.settings:
        if name not in known:
            raise UnknownNameError(f"setting of {family}", name, known)
    chosen = {}
    for name, values in known.items():
        value = options.settings.get(name, values[0])
        if value not in values and values[-1] != "…":
            raise UnknownNameError(f"{name} of {family}", value, values)
        chosen[name] = value
    return chosen


@dataclass(frozen=True)
class ModelInfo:
    """What predictions say of their model; together these decide the scores.

    A baseline is there to compare with, such as a mock model: the leaderboard lists it apart.
    """

    name: str
    family: str
    checkpoint: str
    revision: str
    dtype: str
    parameters: int = 0
    preprocessing: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    is_baseline: bool = False


class PhraseQuery(NamedTuple):
    """A phrase to find: the characters `start` to `end` of a caption."""

    caption: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The phrase alone."""
        return self.caption[self.start : self.end]


class Detections(NamedTuple):
    """The boxes of a phrase, the surest first: float64 (k, 4), x1, y1, x2, y2 in pixels; and (k,) how sure."""

    boxes: np.ndarray
    scores: np.ndarray


@runtime_checkable
class DualEncoder(Protocol):
    """A model that embeds images and captions apart; a score is the dot product of two embeddings of length 1."""

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
class CrossEncoder(Protocol):
    """A model that reads image and caption together, after a part that sees the image alone.

    The runner calls `encode_images` once for each image and keeps its result on the device for all its captions.
    """

    info: ModelInfo
    max_tokens: int

    def prepare_image(self, image: Image.Image) -> Any:
        """What `encode_images` wants of one image."""
        ...

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """The token ids of each caption, all of them, also beyond `max_tokens`."""
        ...

    def encode_images(self, images: Sequence[Any], *, exact: bool = False) -> Any:
        """The part of the model that needs no caption, for a batch of prepared images; stays on the device."""
        ...

    def match(
        self, features: Any, images: Sequence[int], captions: Sequence[Sequence[int]], *, exact: bool = False
    ) -> np.ndarray:
        """Scores (n,), float64, of n pairs: image number ``images[i]`` of `features` with prepared caption i."""
        ...


@runtime_checkable
class PairScorer(Protocol):
    """A model that sees image and caption together, one image at a time: the simplest thing to write."""

    info: ModelInfo

    def score(self, image: Image.Image, captions: Sequence[str]) -> Sequence[float]:
        """How well each caption matches the image; higher is better."""
        ...


@runtime_checkable
class TextScorer(Protocol):
    """A blind model: it judges captions and is shown no image."""

    info: ModelInfo
    max_tokens: int

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """The token ids of each caption, all of them, also beyond `max_tokens`."""
        ...

    def score_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Scores (n,), float64, of prepared captions; higher is more plausible."""
        ...


@runtime_checkable
class Detector(Protocol):
    """A model that draws boxes for phrases."""

    info: ModelInfo

    def prepare_image(self, image: Image.Image) -> Any:
        """What `detect` wants of one image."""
        ...

    def detect(
        self, images: Sequence[Any], sizes: Sequence[tuple[int, int]], queries: Sequence[Sequence[PhraseQuery]]
    ) -> list[list[Detections]]:
        """The boxes of each query of each prepared image, in pixels of the image as it was.

        Args:
            images: n prepared images.
            sizes: their widths and heights before they were prepared.
            queries: for each image its queries, at least one; their numbers may differ.
        """
        ...


@runtime_checkable
class VQAModel(Protocol):
    """A model that answers questions about an image by yes or no."""

    info: ModelInfo
    max_tokens: int

    def prepare_image(self, image: Image.Image) -> Any:
        """What `encode_images` wants of one image."""
        ...

    def prepare_questions(self, questions: Sequence[str]) -> list[list[int]]:
        """The token ids of each question, all of them, also beyond `max_tokens`."""
        ...

    def encode_images(self, images: Sequence[Any], *, exact: bool = False) -> Any:
        """As a `CrossEncoder`'s."""
        ...

    def answer(
        self, features: Any, images: Sequence[int], questions: Sequence[Sequence[int]], *, exact: bool = False
    ) -> np.ndarray:
        """Scores (n,), float64: above 0 for yes, below for no, such as the difference of their log-probabilities."""
        ...


@runtime_checkable
class PredictionsSource(Protocol):
    """What has been said before, such as a file of somebody's answers: nothing is asked of it, and no image is read.

    Its `task_types` are those of the tasks that it has predictions for; see
    ``hub_datasets.core.benchmarks.TASK_TYPES``.
    """

    info: ModelInfo
    task_types: tuple[str, ...]

    def results(self, work: ScoringPlan) -> tuple[Results, dict[str, int]]:
        """What was said of everything that a work wants, and facts for the predictions."""
        ...


Matcher = DualEncoder | CrossEncoder | PairScorer | TextScorer
Model = Matcher | Detector | VQAModel | PredictionsSource


def abilities(model: Model) -> tuple[str, ...]:
    """The types of tasks that a model can be given; see ``hub_datasets.core.benchmarks.TASK_TYPES``."""
    if isinstance(model, PredictionsSource):
        return model.task_types
    able = []
    if isinstance(model, DualEncoder | CrossEncoder | PairScorer | TextScorer):
        able += ["matching", "retrieval"]
    if isinstance(model, Detector):
        able.append("detection")
    if isinstance(model, VQAModel):
        able.append("vqa")
    return tuple(able)
