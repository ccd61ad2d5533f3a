"""The base classes of the families of torch models, and arithmetic on the device."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from PIL import Image

from ..engine.arithmetic import full_float32
from ..engine.protocol import ModelInfo
from .exact import exact_copy

# Layers that are matrix products, nearly all of a model's work.
_PRODUCTS = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d, torch.nn.MultiheadAttention)


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

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self._model.parameters()).device

    @property
    def module(self) -> Any:
        """The torch module, whose parameters can be trained."""
        return self._model

    def holding(self, module: Any, info: ModelInfo) -> Self:
        """Return a copy of this object with another module of the same class, for example one with updated weights."""
        copied = copy.copy(self)
        copied.info, copied._model, copied._exact_model = info, module, None
        return copied

    def chosen(self, exact: bool) -> Any:
        """Return the module, or with `exact` its copy in float64, which is made once; raises as `exact_copy`."""
        if not exact:
            return self._model
        if self._exact_model is None:
            self._exact_model = exact_copy(self._model, self.info.name)
        return self._exact_model


class TextModel(TorchModel):
    """A model that reads captions, at most `max_tokens` of each."""

    def __init__(self, checkpoint: Checkpoint, max_tokens: int) -> None:
        super().__init__(checkpoint.model, checkpoint.info)
        self.max_tokens = max_tokens
        self._tokenizer = checkpoint.tokenizer

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each caption, with the tokenizer's start and end tokens."""
        return self._tokenizer(list(captions), verbose=False)["input_ids"] if captions else []

    def batch_tokens(self, captions: Sequence[Sequence[int]], model: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return truncated token ids and attention mask, both (n, longest), on the device of `model`."""
        cut = [cut_tokens(ids, self.max_tokens) for ids in captions]
        return pad_right(cut, self._tokenizer.pad_token_id, model.device)


class TextScorerModel(TextModel, ABC):
    """Makes a `TextScorer` of a class with `plausibility`."""

    @abstractmethod
    def plausibility(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return scores (n,), float64, of one or more prepared captions by `model`."""

    @torch.inference_mode()
    @full_float32()
    def score_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> torch.Tensor:
        """Return scores (n,), float64, as a tensor; the docstring of the family's module defines them."""
        if not captions:
            return torch.empty(0, dtype=torch.float64)
        return self.plausibility(self.chosen(exact), captions)


class ImageTextModel(TextModel):
    """A model that reads captions and sees images."""

    def __init__(self, checkpoint: Checkpoint, max_tokens: int) -> None:
        super().__init__(checkpoint, max_tokens)
        self._image_processor = checkpoint.image_processor

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """Return pixel values (3, height, width), float32, from the checkpoint's image processor.

        An orientation in EXIF data is not applied, as in the papers' own scripts.
        """
        return self._image_processor(image.convert("RGB"), return_tensors="np")["pixel_values"][0]

    def save(self, folder: Path) -> None:
        """Write model, tokenizer and image processor as a folder that `from_pretrained` opens."""
        for component in (self._model, self._tokenizer, self._image_processor):
            component.save_pretrained(folder)

    def batch_pixels(self, images: Sequence[np.ndarray], tower: torch.nn.Module) -> torch.Tensor:
        """Return prepared images of one size as a batch for `tower`."""
        weight = next(tower.parameters())
        return on_device(images, weight.device, weight.dtype)


class DualEncoderMixin(TorchModel, ABC):
    """Makes a `DualEncoder` of a class with `see` and `read`."""

    _is_mixed: bool = False

    @abstractmethod
    def see(self, model: Any, images: Sequence[np.ndarray]) -> torch.Tensor:
        """Return embeddings (n, d) of prepared images by `model`, not normalised."""

    @abstractmethod
    def read(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return embeddings (n, d) of prepared captions by `model`, not normalised."""

    def embed_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> torch.Tensor:
        """Return embeddings (n, d) of prepared images before normalisation, with gradients if these are enabled."""
        with full_float32():
            return self.see(self.chosen(exact), images)

    def embed_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> torch.Tensor:
        """Return embeddings (n, d) of prepared captions before normalisation, with gradients if these are enabled."""
        with full_float32():
            return self.read(self.chosen(exact), captions)

    def fresh(self) -> Any:
        """Return a module of the same architecture with random weights that `transformers` draws."""
        return type(self._model)(copy.deepcopy(self._model.config))

    @torch.inference_mode()
    def encode_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> torch.Tensor:
        """Return embeddings (n, d) of length 1 on the device; float32, or float64 with `exact`."""
        with self._precision():
            return unit(self.embed_images(images, exact=exact))

    @torch.inference_mode()
    def encode_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> torch.Tensor:
        """Return embeddings (n, d) of length 1 on the device; float32, or float64 with `exact`."""
        with self._precision():
            return unit(self.embed_captions(captions, exact=exact))

    def use_mixed_precision(self) -> None:
        """Encode in mixed precision from now on: matrix products in bfloat16, all else in float32, as the weights are.

        Embeddings are off by some 0.6 of what they are in bfloat16, since what layers add up is not rounded.
        """
        for layer in self._model.modules():
            if isinstance(layer, _PRODUCTS):
                layer.to(torch.bfloat16)  # else they would be converted for each batch
        self._is_mixed = True

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16) if self._is_mixed else nullcontext()


class FusedModel(ImageTextModel, ABC):
    """A `CrossEncoder` of `transformers`; a family implements `see` for images and `fuse` for image and caption."""

    @abstractmethod
    def see(self, model: Any, images: Sequence[np.ndarray]) -> Any:
        """Return the part of `model` that needs no caption, for a batch of prepared images."""

    @abstractmethod
    def fuse(
        self, model: Any, features: Any, rows: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Return scores (n,) of pairs: row ``rows[i]`` of `features` with caption i.

        Args:
            model: the module, or its float64 copy.
            features: the result of `see`.
            rows: (n,), int64, on the device.
            ids, mask: token ids and attention mask of the captions, both (n, longest).
        """

    @torch.inference_mode()
    def encode_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> Any:
        """Return the result of `see`, which stays on the device."""
        with full_float32():
            return self.see(self.chosen(exact), images)

    @torch.inference_mode()
    def match(
        self, features: Any, images: Sequence[int], captions: Sequence[Sequence[int]], *, exact: bool = False
    ) -> torch.Tensor:
        """Return scores (n,), float64, as a tensor; the docstring of the family's module defines them."""
        model = self.chosen(exact)
        ids, mask = self.batch_tokens(captions, model)
        with full_float32():
            return wide(self.fuse(model, features, to_device(torch.tensor(images), ids.device), ids, mask))


class ImageStates(NamedTuple):
    """Hidden states (n, patches, d) of images, and embeddings (n, e), of length 1, of the contrastive head."""

    states: torch.Tensor
    embeddings: torch.Tensor


def cut_tokens(ids: Sequence[int], limit: int) -> list[int]:
    """Return the ids after truncation, which keeps the last one, the end token."""
    ids = list(ids)
    return ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]]


def text_limit(checkpoint: Checkpoint) -> int:
    """Return how many tokens a language model reads: the smaller limit of its positions and its tokenizer."""
    positions = getattr(checkpoint.model.config, "max_position_embeddings", None)
    return min(int(limit) for limit in (positions, checkpoint.tokenizer.model_max_length) if limit)


def pad_right(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and attention mask, both (n, longest), padded on the right so that positions do not move."""
    ids = pad_to(rows, pad, max(map(len, rows), default=0))
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long).reshape(-1, 1)
    mask = (torch.arange(ids.shape[1]) < lengths).long()
    return to_device(ids, device), to_device(mask, device)


def pad_to(rows: Sequence[Sequence[int]], pad: int, length: int) -> torch.Tensor:
    """Return token ids (n, length), truncated or padded on the right."""
    padded = [[*cut_tokens(row, length), *[pad] * (length - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long).reshape(len(rows), length)


def on_device(arrays: Sequence[np.ndarray], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return arrays of one shape as a batch on a device.

    Args:
        arrays: the items. A list with the attribute ``blocks``, CPU tensors (k, …) that hold the items one after the
            other, is copied block by block.
        device, dtype: of the batch; a type is converted on the device.
    """
    blocks = getattr(arrays, "blocks", None) or [torch.from_numpy(np.stack(list(arrays)))]
    moved = [to_device(block, device) for block in blocks]
    return (moved[0] if len(moved) == 1 else torch.cat(moved)).to(dtype)


def to_device(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on a device; a GPU is not waited for, as it would be without pinned memory."""
    if device.type == "cuda" and values.device.type == "cpu" and not values.is_pinned():
        values = values.pin_memory()
    return values.to(device, non_blocking=device.type == "cuda")


def wide(values: torch.Tensor) -> torch.Tensor:
    """Return values in float64, on their device or, for Apple's GPUs, which have no float64, on the CPU."""
    return (values.cpu() if values.device.type == "mps" else values).double()


def unit(embeddings: torch.Tensor) -> torch.Tensor:
    """Return embeddings scaled to length 1; float64 stays, other types become float32."""
    embeddings = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
    return embeddings / embeddings.norm(dim=-1, keepdim=True)


def head_logits(head: torch.nn.Linear, states: torch.Tensor) -> torch.Tensor:
    """Return the head's logits in float64; bfloat16 would round them to a few hundred values."""
    logits = wide(states) @ wide(head.weight).T
    return logits if head.bias is None else logits + wide(head.bias)


def log_odds(head: torch.nn.Linear, states: torch.Tensor) -> torch.Tensor:
    """Return log-odds of a match, float64, from a head of two classes, the second of which is "match".

    The authors' probability is the logistic function of it, which rounds to 1, a tie, for all confident pairs.
    """
    logits = head_logits(head, states)
    return logits[..., 1] - logits[..., 0]


def log_likelihoods(logits: torch.Tensor, targets: Sequence[int]) -> torch.Tensor:
    """Return the log-probability (k,), float64, of each target token by the logits (k, vocabulary) before it."""
    # In single precision their sum over a caption would differ in the sixth decimal.
    logs = wide(logits).log_softmax(-1)
    return logs.gather(-1, torch.tensor(targets, dtype=torch.long, device=logs.device)[:, None])[:, 0]
