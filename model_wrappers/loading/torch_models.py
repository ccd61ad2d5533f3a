"""What models of torch share: the base classes of the families, and arithmetic on the device."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from PIL import Image

from ..engine.protocol import ModelInfo

# Layers that are matrix products, nearly all of a model's work.
_PRODUCTS = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d, torch.nn.MultiheadAttention)
# The setting of a `RerankingModel`.
CANDIDATES = {"candidates": ("256", "128", "all")}


class Checkpoint(NamedTuple):
    """A loaded checkpoint; `image_processor` is None for a text-only model."""

    model: Any
    tokenizer: Any
    image_processor: Any
    info: ModelInfo


class TorchModel:
    """A torch model on its device; a float64 copy for the re-check of near-ties is made when it is first needed."""

    def __init__(self, model: Any, info: ModelInfo) -> None:
        self.info = info
        self._model = model
        self._exact_model: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the weights: worker processes only prepare images."""
        return {**self.__dict__, "_model": None, "_exact_model": None}

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self._model.parameters()).device

    @property
    def module(self) -> Any:
        """The torch module, whose parameters can be trained."""
        return self._model

    def holding(self, module: Any, info: ModelInfo) -> Self:
        """A copy of this object with another module of the same class, for example one with updated weights."""
        other = copy.copy(self)
        other.info, other._model, other._exact_model = info, module, None
        return other

    def chosen(self, exact: bool) -> Any:
        """The module; with `exact` its float64 copy, which is on the CPU for Apple's GPUs."""
        if not exact:
            return self._model
        if self._exact_model is None:
            device = "cpu" if self.device.type == "mps" else self.device
            self._exact_model = copy.deepcopy(self._model).to(device, torch.float64)
        return self._exact_model


class TextModel(TorchModel):
    """A model that reads captions, at most `max_tokens` of each."""

    def __init__(self, checkpoint: Checkpoint, max_tokens: int) -> None:
        super().__init__(checkpoint.model, checkpoint.info)
        self.max_tokens = max_tokens
        self._tokenizer = checkpoint.tokenizer

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """The token ids of each caption, with the tokenizer's start and end tokens."""
        return self._tokenizer(list(captions), verbose=False)["input_ids"] if captions else []

    def batch_tokens(self, captions: Sequence[Sequence[int]], model: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Truncated token ids and attention mask, both (n, longest), on the device of `model`."""
        cut = [cut_tokens(ids, self.max_tokens) for ids in captions]
        return pad_right(cut, self._tokenizer.pad_token_id, model.device)


class ImageTextModel(TextModel):
    """A model that reads captions and sees images."""

    def __init__(self, checkpoint: Checkpoint, max_tokens: int) -> None:
        super().__init__(checkpoint, max_tokens)
        self._image_processor = checkpoint.image_processor

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """Pixel values (3, height, width), float32, from the checkpoint's image processor.

        An orientation in EXIF data is not applied, as in the papers' own scripts.
        """
        return self._image_processor(image.convert("RGB"), return_tensors="np")["pixel_values"][0]

    def save(self, folder: Path) -> None:
        """Write model, tokenizer and image processor as a folder that `from_pretrained` opens."""
        for part in (self._model, self._tokenizer, self._image_processor):
            part.save_pretrained(folder)

    def batch_pixels(self, images: Sequence[np.ndarray], tower: torch.nn.Module) -> torch.Tensor:
        """Prepared images of one size as a batch for `tower`."""
        weight = next(tower.parameters())
        return on_device(images, weight.device, weight.dtype)


class DualEncoderMixin(TorchModel, ABC):
    """Makes a `DualEncoder` of a class with `see` and `read`.

    Attributes:
        shares_prefixes: whether `read_shared` saves work for captions that begin alike, which then go together.
    """

    shares_prefixes: bool = False
    _is_mixed: bool = False

    @abstractmethod
    def see(self, model: Any, images: Sequence[np.ndarray]) -> torch.Tensor:
        """Embeddings (n, d) of prepared images by `model`, not normalised."""

    @abstractmethod
    def read(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Embeddings (n, d) of prepared captions by `model`, not normalised."""

    def read_shared(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """As `read`; a family whose text tower allows it computes what captions begin with alike once."""
        return self.read(model, captions)

    def embed_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> torch.Tensor:
        """Embeddings (n, d) of prepared images before normalisation, with gradients if these are enabled."""
        with precise_convolutions():
            return self.see(self.chosen(exact), images)

    def embed_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> torch.Tensor:
        """Embeddings (n, d) of prepared captions before normalisation, with gradients if these are enabled."""
        return self.read(self.chosen(exact), captions)

    def fresh(self) -> Any:
        """A module of the same architecture with random weights, of torch's generator, as `transformers` draws them."""
        return type(self._model)(copy.deepcopy(self._model.config))

    @torch.inference_mode()
    def encode_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) of length 1; float32, or float64 with `exact`."""
        with self._precision():
            return _normalised(self.embed_images(images, exact=exact), exact)

    @torch.inference_mode()
    def encode_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) of length 1; float32, or float64 with `exact`."""
        with self._precision():
            if self.shares_prefixes and not exact and len(captions) > 1:
                return _normalised(self.read_shared(self._model, captions), exact)
            return _normalised(self.embed_captions(captions, exact=exact), exact)

    def use_mixed_precision(self) -> None:
        """Encode in mixed precision from now on: matrix products in bfloat16, all else in float32, as the weights are.

        Embeddings are off by some 0.6 of what they are in bfloat16, since what layers add up is not rounded.
        """
        for part in self._model.modules():
            if isinstance(part, _PRODUCTS):
                part.to(torch.bfloat16)  # else they would be converted for each batch
        self._is_mixed = True

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16) if self._is_mixed else nullcontext()


class FusedModel(ImageTextModel, ABC):
    """A `CrossEncoder` of `transformers`: a family says how its model sees images, and fuses them with captions."""

    @abstractmethod
    def see(self, model: Any, images: Sequence[np.ndarray]) -> Any:
        """The part of `model` that needs no caption, for a batch of prepared images."""

    @abstractmethod
    def fuse(self, model: Any, seen: Any, rows: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Scores (n,) of pairs: row ``rows[i]`` of `seen` with caption i.

        Args:
            model: the module, or its float64 copy.
            seen: the result of `see`.
            rows: (n,), int64, on the device.
            ids, mask: token ids and attention mask of the captions, both (n, longest).
        """

    @torch.inference_mode()
    def encode_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> Any:
        """The result of `see`, which stays on the device."""
        with precise_convolutions():
            return self.see(self.chosen(exact), images)

    @torch.inference_mode()
    def match(
        self, features: Any, images: Sequence[int], captions: Sequence[Sequence[int]], *, exact: bool = False
    ) -> np.ndarray:
        """Scores (n,), float64; the docstring of the family's module defines them."""
        model = self.chosen(exact)
        ids, mask = self.batch_tokens(captions, model)
        rows = torch.as_tensor(list(images), dtype=torch.long, device=ids.device)
        return self.fuse(model, features, rows, ids, mask).cpu().double().numpy()


class RerankingModel(FusedModel, ABC):
    """A `Reranker`: a fused model whose checkpoint has a contrastive head, too.

    The setting ``candidates`` is the number of captions of an image, and of images of a caption, that are matched in a
    retrieval set, as BLIP does with 256 on COCO and 128 on Flickr30k; ``all`` matches every pair.
    """

    @property
    def candidates(self) -> int:
        """The number of candidates; 0 for all."""
        chosen = self.info.settings["candidates"]
        return 0 if chosen == "all" else int(chosen)

    @property
    @abstractmethod
    def first_stage(self) -> DualEncoderMixin:
        """The contrastive head, of the same module."""

    def _as(self, head: type[ImageTextModel], module: Any, max_tokens: int) -> Any:
        return head(Checkpoint(module, self._tokenizer, self._image_processor, self.info), max_tokens)


def cut_tokens(ids: Sequence[int], limit: int) -> list[int]:
    """The ids after truncation, which keeps the last one, the end token."""
    ids = list(ids)
    return ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]]


def text_limit(checkpoint: Checkpoint) -> int:
    """How many tokens a language model reads: the smaller limit of its positions and its tokenizer."""
    positions = getattr(checkpoint.model.config, "max_position_embeddings", None)
    return min(int(limit) for limit in (positions, checkpoint.tokenizer.model_max_length) if limit)


def pad_right(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, both (n, longest), padded on the right so that positions do not move."""
    ids = pad_to(rows, pad, max(map(len, rows), default=0))
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long).reshape(-1, 1)
    mask = (torch.arange(ids.shape[1]) < lengths).long()
    return ids.to(device), mask.to(device)


def pad_to(rows: Sequence[Sequence[int]], pad: int, length: int) -> torch.Tensor:
    """Token ids (n, length), truncated or padded on the right."""
    cut = [cut_tokens(row, length) for row in rows]
    return torch.tensor([[*row, *[pad] * (length - len(row))] for row in cut], dtype=torch.long).reshape(
        len(cut), length
    )


def on_device(arrays: Sequence[np.ndarray], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Arrays of one shape as a batch on a device; the copy to a GPU overlaps with its work on the last batch."""
    batch = torch.from_numpy(np.stack(list(arrays)))
    if device.type == "cuda":
        batch = batch.pin_memory()
    return batch.to(device, dtype, non_blocking=True)


@contextmanager
def precise_convolutions() -> Iterator[None]:
    """Disable TF32, in which a patch embedding, a convolution, has errors of 1e-3 on recent GPUs."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


def _normalised(output: torch.Tensor, exact: bool) -> np.ndarray:
    return unit(output.to(torch.float64 if exact else torch.float32)).cpu().numpy()


def unit(embeddings: torch.Tensor) -> torch.Tensor:
    """Embeddings of length 1, in single precision at least."""
    embeddings = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
    return embeddings / embeddings.norm(dim=-1, keepdim=True)


def head_logits(head: torch.nn.Linear, states: torch.Tensor) -> torch.Tensor:
    """The head's logits, float64, on the CPU; bfloat16 would round them to a few hundred values."""
    bias = torch.zeros(()) if head.bias is None else head.bias
    return states.cpu().double() @ head.weight.cpu().double().T + bias.cpu().double()


def log_odds(head: torch.nn.Linear, states: torch.Tensor) -> torch.Tensor:
    """Log-odds of a match, float64, from a head of two classes, the second of which is "match".

    The authors' probability is the logistic function of it, which rounds to 1, a tie, for all confident pairs.
    """
    logits = head_logits(head, states)
    return logits[..., 1] - logits[..., 0]


def log_likelihoods(logits: torch.Tensor, targets: Sequence[int]) -> torch.Tensor:
    """Log-probability (k,), float64, of each target token by the logits (k, vocabulary) before it."""
    # In single precision their sum over a caption would differ in the sixth decimal. Apple's GPUs have no float64.
    wide = logits.to("cpu" if logits.device.type == "mps" else logits.device).double()
    chosen = torch.as_tensor(list(targets), dtype=torch.long, device=wide.device)
    return wide.log_softmax(-1).gather(-1, chosen[:, None])[:, 0]
