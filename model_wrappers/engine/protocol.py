"""The interface between model families and the runner: families know no benchmark, the runner knows no family.

A family is one public module of this package with

- ``load(checkpoint, options) -> Model``, which raises `ModelError` when it fails;
- ``MODEL_TYPES``, the ``model_type`` values of ``config.json`` that it loads (empty: it is chosen by its name only);
- ``CHECKPOINTS``, a few examples for ``vl-assay list``.

A model implements one or more of the protocols below, which determine the tasks it is evaluated on (`abilities`).
`prepare_image` runs in forked processes or threads and must not change the model; the other methods run on the device.
Where an array is wanted, a torch tensor of any dtype will do, with gradients or without. Leave it on the device, so
that the device is not waited for after each batch.
The result for an item must not depend on the other items of its batch beyond rounding. With ``exact=True`` the runner
passes one item at a time and the model computes in float64: this is the re-check of near-ties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from PIL import Image

from ...metrics.common.errors import UnknownNameError, check_known

DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class LoadOptions:
    """The options with which a checkpoint is loaded.

    Args:
        device: a torch device name, such as ``"cpu"`` or ``"cuda:0"``.
        dtype: the type of weights and activations, one of `DTYPES`.
        revision: branch, tag or commit of a Hub repository; None for the default branch.
        settings: settings of the family, such as ``{"head": "itc"}``; values are strings.

    Raises:
        UnknownNameError: a dtype that does not exist.
    """

    device: str = "cpu"
    dtype: str = "float32"
    revision: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_known("dtype", [self.dtype], DTYPES)


def choose(family: str, options: LoadOptions, known: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Validate the settings of a family and fill in the defaults.

    Args:
        family: its name, for messages.
        options: with the user's settings.
        known: for each setting its values, the default first; ``(default, "…")`` allows any value.

    Raises:
        UnknownNameError: a setting or value that does not exist.
    """
    check_known(f"setting of {family}", options.settings, known)
    values_by_name = {}
    for name, values in known.items():
        value = options.settings.get(name, values[0])
        if value not in values and values[-1] != "…":
            raise UnknownNameError(f"{name} of {family}", value, values)
        values_by_name[name] = value
    return values_by_name


@dataclass(frozen=True)
class ModelInfo:
    """The description of a model in its predictions; together these values determine the scores.

    A name is enough for a model of your own; its checkpoint is then that name. A run resumes what an earlier one with
    the same description left unfinished, so change `revision` when the scores change. The leaderboard lists baselines,
    such as the mock models, separately.
    """

    name: str
    family: str = "custom"
    checkpoint: str = ""
    revision: str = "unversioned"
    dtype: str = "float32"
    parameters: int = 0
    preprocessing: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    is_baseline: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "checkpoint", self.checkpoint or self.name)


class PhraseQuery(NamedTuple):
    """A phrase to localise: the characters `start` to `end` of a caption."""

    caption: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The phrase itself."""
        return self.caption[self.start : self.end]


class Detections(NamedTuple):
    """The boxes of a phrase by descending score: float64 (k, 4), x1, y1, x2, y2 in pixels; scores float64 (k,)."""

    boxes: np.ndarray
    scores: np.ndarray


class _SeesImages(Protocol):
    info: ModelInfo

    def prepare_image(self, image: Image.Image) -> Any:
        """Return the input of `encode_images` or `detect` for one image; may run in another process."""
        ...


class _EncodesImages(_SeesImages, Protocol):
    def encode_images(self, images: Sequence[Any], *, exact: bool = False) -> Any:
        """Return features of a batch of prepared images, in any form; they stay on the device."""
        ...


class _ReadsCaptions(Protocol):
    info: ModelInfo
    max_tokens: int

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each caption, not truncated."""
        ...


@runtime_checkable
class DualEncoder(_SeesImages, _ReadsCaptions, Protocol):
    """A model that embeds images and captions separately; scores are dot products of embeddings of length 1."""

    def encode_images(self, images: Sequence[Any], *, exact: bool = False) -> np.ndarray:
        """Return embeddings (n, d) of prepared images, each of length 1."""
        ...

    def encode_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Return embeddings (n, d) of prepared captions, truncated to `max_tokens`, each of length 1."""
        ...


@runtime_checkable
class CrossEncoder(_EncodesImages, _ReadsCaptions, Protocol):
    """A model that scores pairs of image and caption, after a part that depends on the image only.

    The runner calls `encode_images` once for an image, and `match` with its result for all captions of the image.
    """

    def match(
        self, features: Any, images: Sequence[int], captions: Sequence[Sequence[int]], *, exact: bool = False
    ) -> np.ndarray:
        """Return scores (n,), float64, of n pairs: image number ``images[i]`` of `features` with prepared caption i."""
        ...


@runtime_checkable
class ChoiceModel(_EncodesImages, Protocol):
    """A model that chooses among the captions of an image, which it reads at once; for matching tasks."""

    max_tokens: int

    def prepare_choices(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of the question about these captions, in one or more orders of them."""
        ...

    def choose(
        self, features: Any, images: Sequence[int], choices: Sequence[Sequence[Sequence[int]]], *, exact: bool = False
    ) -> list[np.ndarray]:
        """Return for prepared choice i, about image number ``images[i]``, the scores of its captions, float64."""
        ...


@runtime_checkable
class PairScorer(Protocol):
    """A model that scores the captions of one image at a time: the simplest protocol to implement."""

    info: ModelInfo

    def score(self, image: Image.Image, captions: Sequence[str]) -> Sequence[float]:
        """Return how well each caption matches the image; higher is better, any range."""
        ...


@runtime_checkable
class TextPairScorer(Protocol):
    """A model that scores how near texts are in meaning, without an image; a `DualEncoder` need not implement it."""

    info: ModelInfo

    def score_texts(self, text: str, others: Sequence[str]) -> Sequence[float]:
        """Return how similar each of the other texts is to a text; higher is more similar, any range, symmetric."""
        ...


@runtime_checkable
class TextScorer(_ReadsCaptions, Protocol):
    """A text-only baseline: it scores captions without the image."""

    def score_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Return scores (n,), float64, of prepared captions; higher is more plausible."""
        ...


@runtime_checkable
class Detector(_SeesImages, Protocol):
    """A model that localises phrases."""

    def detect(
        self, images: Sequence[Any], sizes: Sequence[tuple[int, int]], queries: Sequence[Sequence[PhraseQuery]]
    ) -> list[list[Detections]]:
        """Return the boxes of each query of each prepared image, in pixels of the original image.

        Args:
            images: n prepared images.
            sizes: widths and heights of the original images.
            queries: for each image its queries, at least one; their number may differ.
        """
        ...


@runtime_checkable
class VQAModel(_EncodesImages, Protocol):
    """A model that answers yes-no questions about an image."""

    max_tokens: int

    def prepare_questions(self, questions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each question, not truncated."""
        ...

    def answer(
        self, features: Any, images: Sequence[int], questions: Sequence[Sequence[int]], *, exact: bool = False
    ) -> np.ndarray:
        """Return scores (n,), float64: above 0 for yes, below 0 for no, such as log P(yes) - log P(no)."""
        ...


class RemoteImage(NamedTuple):
    """An image to send: its content key, and functions for its width and height and for its media type and file.

    The file has the pixels of ``hub_datasets.core.images.decode`` for any decoder. Both raise DataError.
    """

    key: str
    size: Callable[[], tuple[int, int]]
    file: Callable[[], tuple[str, bytes]]


class RemoteItem(NamedTuple):
    """Texts to score with an image: captions, or questions with the answer yes or no."""

    image: RemoteImage
    texts: list[str]
    are_questions: bool = False


@dataclass(frozen=True)
class RequestPlan:
    """The requests that a run would send to a server.

    Args:
        requests: the number of distinct requests.
        answered: how many of them need not be sent, as their answers are kept.
        images: the number of distinct images in the others.
        prompt_tokens, completion_tokens: estimates for the others.
    """

    requests: int
    answered: int
    images: int
    prompt_tokens: int
    completion_tokens: int

    def __str__(self) -> str:
        return (
            f"{self.requests - self.answered:,} requests with {self.images:,} images, about {self.prompt_tokens:,} "
            f"tokens read and {self.completion_tokens:,} written; {self.answered:,} more are answered already"
        )


@runtime_checkable
class RemoteModel(Protocol):
    """A model behind a server, which is queried from several threads and caches its answers.

    `task_types` are the types of tasks that it can be evaluated on. `compares_texts` is True if the score of a caption
    depends on the other captions of its example; an item then has all texts of one example. `threads` is the number of
    concurrent items.
    """

    info: ModelInfo
    task_types: tuple[str, ...]
    compares_texts: bool
    threads: int

    def plan(self, items: Iterable[RemoteItem]) -> RequestPlan:
        """Count the requests that `ask` would send for all items; raises ModelError if they are over the limit."""
        ...

    def connect(self) -> None:
        """Find out what the server can do, which completes `info`; called before `ask`."""
        ...

    def ask(self, item: RemoteItem) -> Sequence[float]:
        """Return a score for each text: for captions as in `PairScorer`, for questions as in `VQAModel`."""
        ...

    def facts(self, items: Iterable[RemoteItem]) -> dict[str, Any]:
        """Return counts for the metadata of the predictions, after all items were asked."""
        ...

    def stop(self) -> None:
        """Send nothing more; called when the run fails."""
        ...


Model = (
    DualEncoder
    | CrossEncoder
    | ChoiceModel
    | PairScorer
    | TextPairScorer
    | TextScorer
    | Detector
    | VQAModel
    | RemoteModel
)


def abilities(model: Any) -> tuple[str, ...]:
    """Return the types of tasks that a model can be evaluated on; see ``hub_datasets.core.benchmarks.TASK_TYPES``."""
    if isinstance(model, RemoteModel):
        return model.task_types
    able: list[str] = []
    if isinstance(model, DualEncoder | CrossEncoder | PairScorer | TextScorer):
        able += ["matching", "retrieval"]
    elif isinstance(model, ChoiceModel):
        able.append("matching")
    if isinstance(model, DualEncoder | TextPairScorer):
        able.append("text_similarity")
    if isinstance(model, Detector):
        able.append("detection")
    if isinstance(model, VQAModel):
        able.append("vqa")
    return tuple(able)
