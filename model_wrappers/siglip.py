"""SigLIP and SigLIP 2: `transformers` checkpoints of type ``siglip`` (fixed resolution) and ``siglip2`` (NaFlex).

SigLIP (Zhai et al. 2023) and SigLIP 2 (Tschannen et al. 2025). A score is the cosine of the embeddings; the models'
logit is that cosine times a positive scale plus a bias, and its sigmoid rises with it, so no decision depends on them.

Captions are padded to the model's full length (64) without a mask and read at the last place, as in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import Siglip2Model, SiglipModel

from ..metrics.errors import ModelError
from ._loading import (
    TorchModel,
    choose,
    cut_tokens,
    image_preprocessing,
    load_config,
    load_image_processor,
    load_model_class,
    load_tokenizer,
    model_info,
    normalised,
    precise_convolutions,
)
from ._protocol import LoadOptions, ModelInfo

_CLASSES: dict[str, Any] = {"siglip": SiglipModel, "siglip2": Siglip2Model}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = (
    "google/siglip-base-patch16-224",
    "google/siglip-so400m-patch14-384",
    "google/siglip2-base-patch16-224",
    "google/siglip2-base-patch16-naflex",
)


class Siglip(TorchModel):
    """A `SiglipModel` or `Siglip2Model` as a dual encoder."""

    def __init__(self, model: Any, tokenizer: Any, image_processor: Any, info: ModelInfo) -> None:
        super().__init__(model, info)
        self.max_tokens = model.config.text_config.max_position_embeddings
        self._tokenizer = tokenizer
        self._image_processor = image_processor

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """Pixel values (3, height, width), float32, as the checkpoint's image processor makes them.

        For NaFlex its patches (1 + n, values), of which the first row begins with how many there are down and across;
        the rest is padding.
        """
        prepared = self._image_processor(image.convert("RGB"), return_tensors="np")
        pixels = prepared["pixel_values"][0]
        if "spatial_shapes" not in prepared:
            return pixels
        first = np.zeros_like(pixels[:1])
        first[0, :2] = prepared["spatial_shapes"][0]
        return np.concatenate([first, pixels])

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """The token ids of each caption, with the end token and no padding."""
        lower = self.info.settings["lower_case"] == "yes"
        texts = [caption.lower() if lower else caption for caption in captions]
        rows = self._tokenizer(texts, verbose=False)["input_ids"] if texts else []
        end = [self._tokenizer.eos_token_id] if self.info.settings["end_token"] == "added" else []
        return [[*ids, *end] for ids in rows]

    @torch.inference_mode()
    def encode_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) of length 1; float32, or float64 where `exact`."""
        model = self.chosen(exact)
        pixels = torch.from_numpy(np.stack(list(images))).to(model.device)
        inputs = {"pixel_values": pixels.to(model.dtype)}
        if model.config.model_type == "siglip2":
            shapes, patches = pixels[:, 0, :2].long(), pixels[:, 1:]
            places = torch.arange(patches.shape[1], device=model.device)
            inputs = {
                "pixel_values": patches.to(model.dtype),
                "pixel_attention_mask": (places < shapes.prod(dim=1, keepdim=True)).int(),
                "spatial_shapes": shapes,
            }
        with precise_convolutions():
            return normalised(model.get_image_features(**inputs), exact)

    @torch.inference_mode()
    def encode_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) of length 1; float32, or float64 where `exact`."""
        model = self.chosen(exact)
        rows = torch.full((len(captions), self.max_tokens), self._tokenizer.pad_token_id)
        for row, ids in zip(rows, captions, strict=True):
            cut = cut_tokens(ids, self.max_tokens)
            row[: len(cut)] = torch.tensor(cut)
        return normalised(model.get_text_features(input_ids=rows.to(model.device)), exact)


def load(checkpoint: str, options: LoadOptions) -> Siglip:
    """Load a SigLIP or SigLIP 2 checkpoint.

    Settings:
        lower_case: whether captions are lower-cased before they are tokenized. ``auto``: for SigLIP 2, which was
            trained so (section 2 of its paper) while the tokenizer of its fixed-resolution checkpoints keeps capitals;
            SigLIP's own tokenizer does as its checkpoint says. ``yes`` or ``no``: for any checkpoint.

    The sheet's settings say besides whether the tokenizer puts the end token, or it is ``added``, as in training.

    Raises:
        ModelError: not found, of another type, without a tokenizer, or with weights missing, of another shape or not
            the model's.
        UnknownNameError: a setting or value that does not exist.
    """
    settings = choose("siglip", options, {"lower_case": ("auto", "yes", "no")})
    config = load_config(checkpoint, options, "siglip", MODEL_TYPES)
    model = load_model_class(_CLASSES[config.model_type], checkpoint, options, "siglip")
    processor = load_image_processor(checkpoint, options, "siglip")
    tokenizer = _load_tokenizer(checkpoint, options)
    if settings["lower_case"] == "auto":
        second = config.model_type == "siglip2" or type(tokenizer).__name__.startswith(("Gemma", "Siglip2"))
        settings["lower_case"] = "yes" if second else "no"
    ends = tokenizer("one")["input_ids"][-1] == tokenizer.eos_token_id
    settings["end_token"] = "by the tokenizer" if ends else "added"
    preprocessing = image_preprocessing(processor)
    info = model_info(checkpoint, options, "siglip", model, config, preprocessing=preprocessing, settings=settings)
    return Siglip(model, tokenizer, processor, info)


def _load_tokenizer(checkpoint: str, options: LoadOptions) -> Any:
    try:
        tokenizer = load_tokenizer(checkpoint, options, "siglip")
    except ImportError as error:
        raise ModelError(
            f"the tokenizer of {checkpoint} needs SentencePiece: pip install sentencepiece protobuf ({error})"
        ) from error
    for name in ("pad_token_id", "eos_token_id"):
        if getattr(tokenizer, name) is None:
            raise ModelError(f"the tokenizer of {checkpoint} has no {name}, which every caption of SigLIP needs")
    return tokenizer
