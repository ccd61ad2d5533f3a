"""What models of torch share: the classes that families are made of, and arithmetic on the device."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from PIL import Image

from ..engine.protocol import ModelInfo


class Checkpoint(NamedTuple):
    """A loaded checkpoint; without an image processor where its model sees no images."""

    model: Any
    tokenizer: Any
    image_processor: Any
    info: ModelInfo


class TorchModel:
    """A model of torch on its device, with a copy in double precision for scores that rounding cannot tell apart."""

    def __init__(self, model: Any, info: ModelInfo) -> None:
        self.info = info
        self._model = model
        self._exact_model: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the weights: worker processes only prepare images."""
        return {**self.__dict__, "_model": None, "_exact_model": None}

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self._model.parameters()).device

    @property
    def module(self) -> Any:
        """The model itself, whose parameters can be trained."""
        return self._model

    def holding(self, module: Any, info: ModelInfo) -> Self:
        """The same with another module of the same kind, such as one whose weights have moved on."""
        other = copy.copy(self)
        other.info, other._model, other._exact_model = info, module, None
        return other

    def chosen(self, exact: bool) -> Any:
        """The model; in double precision where `exact`, made when it is first wanted, on the CPU for Apple's GPUs."""
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
        """The token ids of each caption, with the start and end tokens that its tokenizer puts."""
        return self._tokenizer(list(captions), verbose=False)["input_ids"] if captions else []

    def _tokens(self, captions: Sequence[Sequence[int]], model: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids and attention mask, both (n, longest), cut, on the model's device."""
        cut = [cut_tokens(ids, self.max_tokens) for ids in captions]
        return pad_right(cut, self._tokenizer.pad_token_id, model.device)


class ImageTextModel(TextModel):
    """A model that sees images too."""

    def __init__(self, checkpoint: Checkpoint, max_tokens: int) -> None:
        super().__init__(checkpoint, max_tokens)
        self._image_processor = checkpoint.image_processor

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """Pixel values (3, height, width), float32, as the checkpoint's image processor makes them.

        An orientation in EXIF data is not applied, as in the papers' own scripts.
        """
        return self._image_processor(image.convert("RGB"), return_tensors="np")["pixel_values"][0]

    def save(self, folder: Path) -> None:
        """Write model, tokenizer and image processor as a folder that `from_pretrained` opens."""
        for part in (self._model, self._tokenizer, self._image_processor):
            part.save_pretrained(folder)

    def _pixels(self, images: Sequence[np.ndarray], tower: torch.nn.Module) -> torch.Tensor:
        """Prepared images of one size as a batch for that part of the model."""
        weight = next(tower.parameters())
        return on_device(images, weight.device, weight.dtype)


def cut_tokens(ids: Sequence[int], limit: int) -> list[int]:
    """The ids as truncation leaves them: the last one, the end token, stays."""
    ids = list(ids)
    return ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]]


def text_limit(checkpoint: Checkpoint) -> int:
    """How many tokens a language model reads: as many as it has positions and its tokenizer leaves."""
    positions = getattr(checkpoint.model.config, "max_position_embeddings", None)
    return min(int(limit) for limit in (positions, checkpoint.tokenizer.model_max_length) if limit)


def pad_right(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, both (n, longest), with `pad` at the right: positions stay as they are alone."""
    longest = max(map(len, rows), default=0)
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], dtype=torch.long)
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], dtype=torch.long)
    return ids.to(device), mask.to(device)


def pad_to(rows: Sequence[Sequence[int]], pad: int, length: int) -> torch.Tensor:
    """Token ids (n, length), cut or with `pad` at the right."""
    cut = [cut_tokens(row, length) for row in rows]
    return torch.tensor([[*row, *[pad] * (length - len(row))] for row in cut], dtype=torch.long).reshape(-1, length)


def on_device(arrays: Sequence[np.ndarray], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Arrays of one shape as a batch on a device; to a GPU they are copied while it still works on the last one."""
    batch = torch.from_numpy(np.stack(list(arrays)))
    if device.type == "cuda":
        batch = batch.pin_memory()
    return batch.to(device, dtype, non_blocking=True)


@contextmanager
def precise_convolutions() -> Iterator[None]:
    """In TF32 a patch embedding, which is a convolution, would be off by a thousandth on recent GPUs."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


def chosen_rows(images: Sequence[int], features: torch.Tensor) -> torch.Tensor:
    """The numbers of the images as an index on the device of `features`."""
    return torch.as_tensor(list(images), dtype=torch.long, device=features.device)


def normalised(output: Any, exact: bool) -> np.ndarray:
    """Embeddings of length 1, float32, or float64 where `exact`, from a model's output."""
    return unit(pooled(output).to(torch.float64 if exact else torch.float32)).cpu().numpy()


def pooled(output: Any) -> torch.Tensor:
    """The embeddings in a model's output, which may be these alone."""
    return getattr(output, "pooler_output", output)


def unit(embeddings: torch.Tensor) -> torch.Tensor:
    """Embeddings of length 1, in single precision at least."""
    embeddings = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
    return embeddings / embeddings.norm(dim=-1, keepdim=True)


def head_logits(head: torch.nn.Linear, states: torch.Tensor) -> torch.Tensor:
    """The head's logits, float64, on the CPU; in bfloat16 they would be rounded to a few hundred values."""
    bias = torch.zeros(()) if head.bias is None else head.bias
    return states.cpu().double() @ head.weight.cpu().double().T + bias.cpu().double()


def log_odds(head: torch.nn.Linear, states: torch.Tensor) -> torch.Tensor:
    """Log-odds of a match from a head of two classes, the second of them "match"; float64.

    The authors' probability is its logistic function, which would round to 1, and so tie, for all sure pairs.
    """
    logits = head_logits(head, states)
    return logits[..., 1] - logits[..., 0]


def log_likelihoods(logits: torch.Tensor, targets: Sequence[int]) -> torch.Tensor:
    """Log-probability (k,), float64, of each target token by the logits (k, vocabulary) before it."""
    # In single precision their sum over a caption would differ in the sixth decimal. Apple's GPUs have no double.
    wide = logits.to("cpu" if logits.device.type == "mps" else logits.device).double()
    chosen = torch.as_tensor(list(targets), dtype=torch.long, device=wide.device)
    return wide.log_softmax(-1).gather(-1, chosen[:, None])[:, 0]


def float64(scores: torch.Tensor) -> np.ndarray:
    """Scores for the runner."""
    return scores.cpu().double().numpy()
