"""Image-text models of `mteb`, which the extra ``vl-assay[mteb]`` installs: ``mteb:google/siglip-so400m-patch14-384``.

Any name that ``mteb.get_model`` loads and that embeds texts and images. The library tokenizes, truncates and prepares
images itself, so that nothing is known here of truncated captions, and near-ties are re-checked one at a time in the
precision of the model, not in float64. A family of this package, where there is one, knows more: `clip`, `siglip` ….
A score is the cosine of the embeddings.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from ..hub_datasets.core.pretrained import no_model_code
from ..metrics.common.errors import ModelError
from .engine.arrays import as_array
from .engine.families import import_library
from .engine.protocol import LoadOptions, ModelInfo, choose

MODEL_TYPES = ()
LIBRARY = "mteb"
CHECKPOINTS = ("google/siglip-so400m-patch14-384", "kakaobrain/align-base", "laion/CLIP-ViT-bigG-14-laion2B-39B-b160k")
_LIMITLESS = 1 << 30


class MtebModel:
    """A model of `mteb` as a dual encoder; a prepared caption is the bytes of its text."""

    max_tokens = _LIMITLESS

    def __init__(self, model: Any, info: ModelInfo, device: str) -> None:
        self.info, self.device = info, device
        self._model = model

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """Return the pixels in RGB, (height, width, 3), uint8."""
        return np.asarray(image.convert("RGB"))

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the bytes of each caption."""
        return [list(caption.encode()) for caption in captions]

    def encode_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> np.ndarray:
        """Return embeddings (n, d) of length 1, float32; `exact` changes nothing."""
        batch = {"image": [Image.fromarray(pixels) for pixels in images]}
        return _unit(self._model.get_image_embeddings([batch], show_progress_bar=False))

    def encode_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Return embeddings (n, d) of length 1, float32; `exact` changes nothing."""
        batch = {"text": [bytes(caption).decode() for caption in captions]}
        return _unit(self._model.get_text_embeddings([batch], show_progress_bar=False))


def _unit(rows: Any) -> np.ndarray:
    """Return rows of the library, tensors or arrays, as float32 of length 1."""
    array = as_array("mteb", rows).astype(np.float32)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


def load(checkpoint: str, options: LoadOptions) -> MtebModel:
    """Load a model of `mteb` by its name.

    Raises:
        ModelError: the library does not know it or cannot load it, it embeds no images or no texts, or another dtype
            than float32 was asked for, which the library chooses itself.
    """
    choose("mteb", options, {})
    if options.dtype != "float32" or options.compile:
        raise ModelError(
            f"mteb loads its models itself: dtype is float32 and compile is off; got {options.dtype} and "
            f"{options.compile}, leave them out"
        )
    library = import_library(LIBRARY)
    try:
        library.get_model_meta(checkpoint)
    except KeyError as error:
        raise ModelError(
            f"mteb has no model {checkpoint!r}: only its own loaders are used; see mteb.get_model_metas()"
        ) from error
    try:
        with no_model_code(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model: Any = library.get_model(checkpoint, revision=options.revision, device=options.device)
    except Exception as error:  # whatever the code of its models raises
        raise ModelError(f"mteb cannot load {checkpoint} ({type(error).__name__}: {str(error)[:300]})") from error
    lacking = [modality for modality in ("image", "text") if not hasattr(model, f"get_{modality}_embeddings")]
    if lacking:
        raise ModelError(
            f"{checkpoint} of mteb embeds no {' and no '.join(lacking)}s; take a model of images and texts"
        )
    module: Any = getattr(model, "model", None)
    meta = getattr(model, "mteb_model_meta", None)
    parameters = sum(parameter.numel() for parameter in module.parameters()) if hasattr(module, "parameters") else 0
    revision = options.revision or getattr(meta, "revision", None) or "unversioned"
    info = ModelInfo(f"mteb:{checkpoint}", "mteb", checkpoint, str(revision), parameters=parameters)
    return MtebModel(model, info, options.device)
