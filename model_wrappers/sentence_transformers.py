"""Embedding models of `sentence_transformers`, which the extra ``vl-assay[sentence-transformers]`` installs.

``sentence_transformers:Qwen/Qwen3-VL-Embedding-2B``, or any other repository or folder of the library whose model
embeds both texts and images, without custom code. A score is the cosine of the embeddings.

Captions are queries and images documents, as in retrieval of images by texts, with the prompts that the model has for
them (`encode_query`, `encode_document`). The settings ``caption`` and ``image`` change that: ``none`` is no prompt.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image

from ..hub_datasets.core.pretrained import check_folder, read_json
from ..metrics.common.errors import ModelError
from .engine.families import checkpoint_path, import_library
from .engine.protocol import LoadOptions, ModelInfo, choose
from .loading.checkpoints import CheckpointFiles, image_preprocessing, loading_errors, torch_dtype
from .loading.prompts import cut_before
from .loading.torch_models import DualEncoderMixin, pad_right

MODEL_TYPES = ()
LIBRARY = "sentence_transformers"
CHECKPOINTS = ("Qwen/Qwen3-VL-Embedding-2B", "Qwen/Qwen3-VL-Embedding-8B", "sentence-transformers/clip-ViT-B-32")
SETTINGS = {"caption": ("query", "document", "none"), "image": ("document", "query", "none")}
# The names that the library tries, in its order.
_PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus"), "none": ()}
# Captions that end differently.
_TWO = ("a dog", "two dogs and a cat")
# Longer limits are not tried out when a model is loaded.
_LONG, _LIMITLESS = 2048, 1 << 30
# A row of the table that `transformers` logs; a terminal's colours may stand before the word.
_MISSING = re.compile(r"^(\S+) *\| *\S*MISSING\b", re.MULTILINE)
_ROWS = ("input_ids", "attention_mask")
# Modules that choose among further modules, whose folders and arguments they name.
_ROUTERS = ("Router", "Asym")
# The library finds arguments of `from_pretrained` in these entries of these files; harmless ones are allowed.
_SETTINGS_FILES = tuple(
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_PASSES = re.compile("^(model|processor|tokenizer|config)_(kw)?args$")
_ARGUMENTS = (
    *("dtype", "torch_dtype", "attn_implementation", "add_pooling_layer", "do_lower_case", "use_fast", "padding_side"),
    *("truncation_side", "model_max_length", "max_length", "min_pixels", "max_pixels"),
)


class SentenceEmbedder(DualEncoderMixin):
    """A `SentenceTransformer` for texts and images as a dual encoder."""

    def __init__(self, model: Any, info: ModelInfo, prompts: Mapping[str, str | None]) -> None:
        super().__init__(model, info)
        self._prompts = prompts
        text = model.config.get_text_config()
        limits = (model.max_seq_length, getattr(text, "max_position_embeddings", None))
        self.max_tokens = int(min((limit for limit in limits if limit), default=_LIMITLESS))
        two = self._features(_TWO)
        if lacking := [name for name in _ROWS if name not in two]:
            raise ModelError(f"{info.name} reads captions without {' and '.join(lacking)}; its own script can score it")
        # Rows that the library pads on the left are padded backwards.
        self._step = 1 if two["attention_mask"][0, 0] else -1
        self._pad = model.tokenizer.pad_token_id
        self._others = {name: value for name, value in two.items() if name not in _ROWS}
        # The tokens after a caption, such as the end token, which truncation keeps.
        ends = zip(*(ids[::-1] for ids in self.prepare_captions(_TWO)), strict=False)
        self._suffix = len([*itertools.takewhile(lambda pair: pair[0] == pair[1], ends)])

    def prepare_image(self, image: Image.Image) -> Image.Image:
        """Return the image in RGB; the library's processor takes whole batches, in `see`."""
        return image.convert("RGB")

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each caption, with the prompt or the conversation around it, not truncated."""
        if not captions:
            return []
        features = self._features(captions, text={"truncation": False, "max_length": None, "verbose": False})
        rows = zip(features["input_ids"], features["attention_mask"].bool(), strict=True)
        return [ids[mask].tolist() for ids, mask in rows]

    def see(self, model: Any, images: Sequence[Any]) -> torch.Tensor:
        """Return image embeddings (n, d), as the library's ``encode`` gives them."""
        features = model.preprocess(list(images), prompt=self._prompts["image"], **self._task("image"))
        return self._embed(model, features, "image")

    def read(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return caption embeddings (n, d), as the library's ``encode`` gives them."""
        return self._embed(model, self.batch(captions), "caption")

    def batch(self, captions: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Return features of prepared captions as the library makes them: truncated, and padded on its side."""
        cut = [cut_before(row, self.max_tokens, self._suffix) for row in captions]
        ids, mask = pad_right([row[:: self._step] for row in cut], self._pad, torch.device("cpu"))
        ids, mask = (rows.flip(1) if self._step < 0 else rows for rows in (ids, mask))
        further = {
            name: torch.full_like(ids, int(value.flatten()[0])) if isinstance(value, torch.Tensor) else value
            for name, value in self._others.items()
        }
        return {"input_ids": ids, "attention_mask": mask, **further}

    def check(self, captions: Sequence[str]) -> None:
        """Raise `ModelError` if the library makes other features of captions than `batch`."""
        theirs, ours = self._features(captions), self.batch(self.prepare_captions(captions))
        for name in theirs.keys() | ours.keys():
            expected, actual = theirs.get(name), ours.get(name)
            if torch.is_tensor(expected) and torch.is_tensor(actual):
                expected, actual = expected.tolist(), actual.tolist()
            if expected != actual:
                raise ModelError(f"{self.info.name} prepares captions in a way that is not known here (by {name})")

    def _features(self, captions: Sequence[str], **processing: Any) -> dict[str, Any]:
        options = self._task("caption") | ({"processing_kwargs": processing} if processing else {})
        return dict(self._model.preprocess(list(captions), prompt=self._prompts["caption"], **options))

    def _task(self, kind: str) -> dict[str, str]:
        role = self.info.settings[kind]
        return {} if role == "none" else {"task": role}

    def _embed(self, model: Any, features: dict[str, Any], kind: str) -> torch.Tensor:
        weight = next(model.parameters())
        moved = {
            name: value.to(weight.device, weight.dtype if value.is_floating_point() else value.dtype)
            if isinstance(value, torch.Tensor)
            else value
            for name, value in features.items()
        }
        return model(moved, **self._task(kind))["sentence_embedding"][:, : model.truncate_dim]


def load(checkpoint: str, options: LoadOptions) -> SentenceEmbedder:
    """Load a model of the library; the preprocessing in the predictions holds the prompts that were used.

    Raises:
        ModelError: not a model of the library, or a model that needs custom code, has incomplete weights, does not
            embed both texts and images, or is meant for another similarity than the cosine.
        UnknownNameError: a setting or value that does not exist.
    """
    values = choose("sentence_transformers", options, SETTINGS)
    library, path = import_library(LIBRARY), checkpoint_path(checkpoint)
    files = CheckpointFiles("sentence_transformers", checkpoint, options, os.environ.get("SENTENCE_TRANSFORMERS_HOME"))
    with loading_errors(checkpoint, "sentence_transformers"):
        check_folder(Path(path))
        if not library.util.is_sentence_transformer_model(path, revision=files.commit, cache_folder=files.cache_dir):
            raise ModelError("it has no modules.json, without which the library would guess how to pool")
        files.refuse_adapter()
        _check_modules(files)
        with _complete():
            model = library.SentenceTransformer(
                path,
                revision=files.commit,
                device=options.device,
                trust_remote_code=False,
                model_kwargs={"dtype": torch_dtype(options), "weights_only": True},
            )
        _refuse_unfit(model)
    model = files.ready(model.to(torch_dtype(options)))
    prompts = {kind: _prompt(model, values[kind]) for kind in SETTINGS}
    used = {f"{kind}_prompt": prompt for kind, prompt in prompts.items() if prompt}
    info = files.info(model, values, _prepare_with_pillow(model.processor) | used)
    loaded = SentenceEmbedder(model, info, prompts)
    loaded.check(_TWO)
    if (model.max_seq_length or _LONG) < _LONG:
        loaded.check(["a dog", "two cats and a dog " * model.max_seq_length])
    return loaded


def _check_modules(files: CheckpointFiles) -> None:
    """Raise `ModelError` if modules are in hidden folders or elsewhere, or pass other arguments than `_ARGUMENTS`."""
    for module in json.loads((files.file("modules.json") or Path()).read_text(encoding="utf-8")):
        path = module["path"]
        if module["type"].rpartition(".")[2] in _ROUTERS:
            raise ModelError("its modules depend on the input (Router), which is not supported; use its own script")
        if path.startswith(".") or Path(path).is_absolute() or ".." in Path(path).parts:
            raise ModelError(f"modules.json names {path!r}, which is hidden or outside the folder; move it")
        settings = next(filter(None, (files.file(f"{path}/{name}".lstrip("/")) for name in _SETTINGS_FILES)), None)
        if settings is None:
            continue
        content = read_json(settings)
        if tokenizer := content.get("tokenizer_name_or_path"):
            raise ModelError(f"{settings.name} names the tokenizer {tokenizer!r}; save it in the folder of the model")
        passed = [name for key, value in content.items() if _PASSES.search(key) for name in value or ()]
        if unknown := [name for name in passed if name not in _ARGUMENTS]:
            raise ModelError(
                f"{settings.name} passes {', '.join(unknown)} to transformers; allowed are {', '.join(_ARGUMENTS)}"
            )


def _prepare_with_pillow(processor: Any) -> dict[str, Any]:
    """Prepare images with Pillow, as all families do, and return the record of it for predictions.

    Torchvision, if it is installed, gives other pixels; a processor for which there is nothing else keeps it.
    """
    images: Any = getattr(processor, "image_processor", None)
    pillow = getattr(transformers, f"{type(images).__name__}Pil", None)
    if pillow is not None:
        images = processor.image_processor = pillow.from_dict(images.to_dict())
    return {**image_preprocessing(images), "backend": getattr(images, "backend", "pil")}


def _prompt(model: Any, role: str) -> str | None:
    """Return the prompt of a model for a query or document; None if it has none."""
    names = [*_PROMPTS[role], *([model.default_prompt_name] if role != "none" else [])]
    return next((model.prompts[name] for name in names if name in model.prompts), None) or None


def _refuse_unfit(model: Any) -> None:
    if lacking := [kind for kind in ("text", "image") if not model.supports(kind)]:
        raise ModelError(f"it embeds {', '.join(map(str, model.modalities))}, and not {' or '.join(lacking)}")
    normalises = type(model[-1]).__name__ == "Normalize"
    if model.similarity_fn_name != "cosine" and not (model.similarity_fn_name == "dot" and normalises):
        raise ModelError(f"its similarity is {model.similarity_fn_name}; only the cosine is computed here")


@contextmanager
def _complete() -> Iterator[None]:
    """Raise `ModelError` for weights that are missing, of which `transformers` only logs a report."""
    logger, reports = logging.getLogger("transformers"), BufferingHandler(sys.maxsize)
    level = logger.level
    logger.addHandler(reports)
    logger.setLevel(min(level, logging.WARNING))
    try:
        yield
    finally:
        logger.removeHandler(reports)
        logger.setLevel(level)
    missing = [name for record in reports.buffer for name in _MISSING.findall(record.getMessage())]
    if missing:
        raise ModelError(f"{len(missing)} weights are missing, and would be random numbers: {', '.join(missing[:5])}")
