"""CLIP: any `transformers` checkpoint of model type ``clip``, from the Hub or a local folder."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError
from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer, CLIPModel

from ..metrics.errors import ModelError
from ._families import checkpoint_path
from ._protocol import LoadOptions, ModelInfo

MODEL_TYPES = ("clip",)
CHECKPOINTS = (
    "openai/clip-vit-base-patch32",
    "openai/clip-vit-large-patch14",
    "laion/CLIP-ViT-B-32-laion2B-s34B-b79K",
)
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Clip:
    """A `CLIPModel` as a dual encoder."""

    def __init__(self, model: Any, tokenizer: Any, image_processor: Any, info: ModelInfo) -> None:
        self.info = info
        self.max_tokens = model.config.text_config.max_position_embeddings
        self._model = model
        self._exact_model: Any = None
        self._tokenizer = tokenizer
        self._image_processor = image_processor

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._model.device

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
        model = self._precise() if exact else self._model
        pixels = torch.from_numpy(np.stack(list(images))).to(model.device, model.dtype)
        # In TF32 the patch embedding, a convolution, would be off by a thousandth on recent GPUs.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return _normalised(model.get_image_features(pixel_values=pixels), exact)

    @torch.inference_mode()
    def encode_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) of length 1; float32, or float64 where `exact`."""
        model = self._precise() if exact else self._model
        cut = [_cut(list(ids), self.max_tokens) for ids in captions]
        tokens = self._tokenizer.pad({"input_ids": cut}, return_tensors="pt").to(model.device)
        return _normalised(
            model.get_text_features(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]),
            exact,
        )

    def _precise(self) -> Any:
        """The model in double precision, made when it is first wanted; on the CPU where the device has none."""
        if self._exact_model is None:
            device = "cpu" if self._model.device.type == "mps" else self._model.device
            self._exact_model = copy.deepcopy(self._model).to(device, torch.float64)
        return self._exact_model


def load(checkpoint: str, options: LoadOptions) -> Clip:
    """Load a CLIP checkpoint.

    Raises:
        ModelError: not found, not a CLIP checkpoint, without a tokenizer, or with weights missing or of another
            shape.
    """
    if options.dtype not in _DTYPES:
        raise ModelError(f"unknown dtype {options.dtype!r}; known: {', '.join(_DTYPES)}")
    path = checkpoint_path(checkpoint)
    try:
        config = AutoConfig.from_pretrained(path, revision=options.revision)
        if config.model_type not in MODEL_TYPES:
            raise ModelError(f"{checkpoint} is a {config.model_type!r} checkpoint, not CLIP (model type clip)")
        loaded: Any = CLIPModel.from_pretrained(
            path, revision=options.revision or "main", dtype=_DTYPES[options.dtype], output_loading_info=True
        )
        model, loading = loaded
        # The backend is named: with torchvision about, another one would be taken and give other pixels.
        processor = AutoImageProcessor.from_pretrained(path, revision=options.revision, backend="pil")
        tokenizer = AutoTokenizer.from_pretrained(path, revision=options.revision)
    except ModelError:
        raise
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"cannot load {checkpoint} as CLIP: {error}") from error
    _refuse_incomplete(checkpoint, loading)
    _refuse_without_tokenizer(checkpoint, tokenizer)
    # Of a local folder only its name is told: a score sheet is made to be published.
    name = Path(checkpoint).expanduser().resolve().name if Path(path).expanduser().is_dir() else checkpoint
    info = ModelInfo(
        name=name,
        family="clip",
        checkpoint=name,
        revision=_revision(path, config),
        dtype=options.dtype,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        preprocessing=_preprocessing(processor),
    )
    return Clip(model.eval().to(options.device), tokenizer, processor, info)


def _refuse_incomplete(checkpoint: str, loading: dict[str, Any]) -> None:
    problems = {name: sorted(map(str, loading[name])) for name in ("missing_keys", "mismatched_keys") if loading[name]}
    if problems:
        text = "; ".join(f"{name.replace('_', ' ')}: {', '.join(keys[:5])}" for name, keys in problems.items())
        count = sum(map(len, problems.values()))
        raise ModelError(
            f"{checkpoint} lacks {count} of CLIP's weights, which would be random numbers ({text}); "
            "is this the whole model, and is it CLIP?"
        )


def _refuse_without_tokenizer(checkpoint: str, tokenizer: Any) -> None:
    """Without its files the tokenizer loads all the same, empty, and gives every word the same token."""
    if tokenizer("one")["input_ids"] == tokenizer("two")["input_ids"]:
        raise ModelError(
            f"{checkpoint} has no tokenizer, or an empty one: it cannot tell two words apart. Save the tokenizer "
            "beside the model: tokenizer.save_pretrained(folder)"
        )


def _revision(path: str, config: Any) -> str:
    """The commit of a Hub checkpoint; for a local folder a hash over its weights, configuration and vocabulary."""
    commit = getattr(config, "_commit_hash", None)
    if commit:
        return str(commit)
    digest = hashlib.sha256()
    for file in sorted(Path(path).expanduser().iterdir()):
        if file.suffix in (".json", ".txt", ".model", ".safetensors", ".bin"):
            with file.open("rb") as stream:
                digest.update(file.name.encode() + b"\0" + hashlib.file_digest(stream, "sha256").digest())
    return f"sha256:{digest.hexdigest()}"


def _preprocessing(processor: Any) -> dict[str, Any]:
    names = (
        "size",
        "crop_size",
        "resample",
        "image_mean",
        "image_std",
        "do_center_crop",
        "do_resize",
        "rescale_factor",
    )
    values = processor.to_dict()
    return {"backend": "pil", **{name: values[name] for name in names if name in values}}


def _cut(ids: list[int], limit: int) -> list[int]:
    """The ids as truncation leaves them: the end token stays."""
    return ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]]


def _normalised(output: Any, exact: bool) -> np.ndarray:
    embeddings = getattr(output, "pooler_output", output)
    embeddings = embeddings.to(torch.float64 if exact else torch.float32)
    return (embeddings / embeddings.norm(dim=-1, keepdim=True)).cpu().numpy()
