"""What fused families share: loading, padding captions, and scores in double precision from the last hidden states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from ._loading import (
    TorchModel,
    cut_tokens,
    image_preprocessing,
    load_config,
    load_image_processor,
    load_model_class,
    load_tokenizer,
    model_info,
    on_device,
    pad_right,
)
from ._protocol import LoadOptions, ModelInfo


class Parts(NamedTuple):
    """A loaded checkpoint."""

    model: Any
    tokenizer: Any
    image_processor: Any
    info: ModelInfo


class FusedModel(TorchModel):
    """Images and captions prepared and put on the device; a family adds what it does with them."""

    def __init__(self, parts: Parts, max_tokens: int) -> None:
        super().__init__(parts.model, parts.info)
        self.max_tokens = max_tokens
        self._tokenizer = parts.tokenizer
        self._image_processor = parts.image_processor

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """Pixel values (3, height, width), float32, as the checkpoint's image processor makes them.

        An orientation in EXIF data is not applied, as in the papers' own scripts.
        """
        return self._image_processor(image.convert("RGB"), return_tensors="np")["pixel_values"][0]

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """The token ids of each caption, with start and end token."""
        return self._tokenizer(list(captions), verbose=False)["input_ids"] if captions else []

    def _pixels(self, images: Sequence[np.ndarray], tower: torch.nn.Module) -> torch.Tensor:
        """Prepared images of one size as a batch for that part of the model."""
        weight = next(tower.parameters())
        return on_device(images, weight.device, weight.dtype)

    def _tokens(self, captions: Sequence[Sequence[int]], model: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids and attention mask, both (n, longest), on the model's device."""
        cut = [cut_tokens(ids, self.max_tokens) for ids in captions]
        return pad_right(cut, self._tokenizer.pad_token_id, model.device)


def load_parts(
    model_class: Any,
    checkpoint: str,
    options: LoadOptions,
    family: str,
    model_types: Sequence[str],
    settings: Mapping[str, str],
    *,
    unused: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> Parts:
    """Everything of a checkpoint; the arguments are those of the functions of `_loading`.

    Raises:
        ModelError: not found, of another type, without a tokenizer, or with weights missing or of another shape.
    """
    config = load_config(checkpoint, options, family, model_types)
    model = load_model_class(model_class, checkpoint, options, family, unused, changes)
    processor = load_image_processor(checkpoint, options, family)
    tokenizer = load_tokenizer(checkpoint, options, family)
    preprocessing = image_preprocessing(processor)
    info = model_info(checkpoint, options, family, model, config, preprocessing=preprocessing, settings=settings)
    return Parts(model, tokenizer, processor, info)


def chosen_rows(images: Sequence[int], features: torch.Tensor) -> torch.Tensor:
    """The numbers of the images as an index on the device of `features`."""
    return torch.as_tensor(list(images), dtype=torch.long, device=features.device)


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


def unit(embeddings: torch.Tensor) -> torch.Tensor:
    """Embeddings of length 1, in single precision at least."""
    embeddings = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
    return embeddings / embeddings.norm(dim=-1, keepdim=True)


def float64(scores: torch.Tensor) -> np.ndarray:
    """Scores for the runner."""
    return scores.cpu().double().numpy()
