"""CLIP and the models built like it: any `transformers` checkpoint of the types below, from the Hub or a local folder.

CLIP (Radford et al. 2021), MetaCLIP 2 (Chuang et al. 2025), ALIGN (Jia et al. 2021), AltCLIP (Chen et al. 2022) and
Chinese-CLIP (Yang et al. 2022). A score is the cosine of the projected embeddings, as each model's own ``forward``
takes it before its temperature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AlignModel, AltCLIPModel, ChineseCLIPModel, CLIPModel, MetaClip2Model

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
    on_device,
    precise_convolutions,
)
from ._protocol import LoadOptions, ModelInfo

_CLASSES: dict[str, Any] = {
    "clip": CLIPModel,
    "metaclip_2": MetaClip2Model,
    "align": AlignModel,
    "altclip": AltCLIPModel,
    "chinese_clip": ChineseCLIPModel,
}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = (
    "openai/clip-vit-base-patch32",
    "openai/clip-vit-large-patch14",
    "laion/CLIP-ViT-B-32-laion2B-s34B-b79K",
    "facebook/metaclip-2-worldwide-huge-quickgelu",
    "kakaobrain/align-base",
    "BAAI/AltCLIP",
    "OFA-Sys/chinese-clip-vit-base-patch16",
)


class Clip(TorchModel):
    """A `CLIPModel`, or one built like it, as a dual encoder."""

    def __init__(self, model: Any, tokenizer: Any, image_processor: Any, info: ModelInfo) -> None:
        super().__init__(model, info)
        self.max_tokens = longest_caption(model.config, tokenizer)
        self._tokenizer = tokenizer
        self._image_processor = image_processor

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """Pixel values (3, height, width), float32, as the checkpoint's image processor makes them.

        An orientation in EXIF data is not applied, as in the papers' own scripts.
        """
        return self._image_processor(image.convert("RGB"), return_tensors="np")["pixel_values"][0]

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """The token ids of each caption, with start and end token."""
        return self._tokenizer(list(captions), verbose=False)["input_ids"] if captions else []

    @torch.inference_mode()
    def encode_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) of length 1; float32, or float64 where `exact`."""
        model = self.chosen(exact)
        pixels = on_device(images, model.device, model.dtype)
        with precise_convolutions():
            return normalised(model.get_image_features(pixel_values=pixels), exact)

    @torch.inference_mode()
    def encode_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) of length 1; float32, or float64 where `exact`."""
        model = self.chosen(exact)
        cut = [cut_tokens(ids, self.max_tokens) for ids in captions]
        # Padding on the left would move the first token, at which ALIGN and its like read a caption.
        tokens = self._tokenizer.pad({"input_ids": cut}, padding_side="right", return_tensors="pt").to(model.device)
        return normalised(
            model.get_text_features(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]),
            exact,
        )


def load(checkpoint: str, options: LoadOptions) -> Clip:
    """Load a checkpoint of one of the types.

    Raises:
        ModelError: not found, of another type, without a tokenizer or with one that does not fit, or with weights
            missing, of another shape or not the model's.
        UnknownNameError: a setting; there are none.
    """
    settings = choose("clip", options, {})
    config = load_config(checkpoint, options, "clip", MODEL_TYPES)
    model = load_model_class(_CLASSES[config.model_type], checkpoint, options, "clip")
    processor = load_image_processor(checkpoint, options, "clip")
    tokenizer = load_tokenizer(checkpoint, options, "clip")
    refuse_lost_end(checkpoint, config, tokenizer)
    preprocessing = image_preprocessing(processor)
    info = model_info(checkpoint, options, "clip", model, config, preprocessing=preprocessing, settings=settings)
    return Clip(model, tokenizer, processor, info)


def longest_caption(config: Any, tokenizer: Any) -> int:
    """How many tokens of a caption the model reads: as many as it has positions and its tokenizer leaves."""
    text = config.text_config
    positions = text.max_position_embeddings
    if config.model_type == "altclip":
        # RoBERTa counts positions from behind the id of its padding token.
        positions -= text.pad_token_id + 1
    return min(positions, tokenizer.model_max_length)


def refuse_lost_end(checkpoint: str, config: Any, tokenizer: Any) -> None:
    """Raise where a model that reads a caption at its end token would look for it at another place.

    CLIP's historic configurations give 2 for the end token, and the model then reads at the highest id of a caption.
    """
    if config.model_type not in ("clip", "metaclip_2"):
        return
    end, ids = config.text_config.eos_token_id, tokenizer("one")["input_ids"]
    if config.model_type == "clip" and end == 2:
        sought, found = "the highest of its vocabulary", ids[-1] == max(tokenizer.get_vocab().values())
    else:
        sought, found = str(end), end in ids and ids.index(end) == len(ids) - 1
    if not found:
        raise ModelError(
            f"{checkpoint} reads a caption at its end token, by its configuration the id {sought} (text_config."
            f"eos_token_id is {end}), but its tokenizer ends captions with {ids[-1]}: every caption would be read at "
            "another word. Use the tokenizer that the model was trained with, or mend eos_token_id"
        )
