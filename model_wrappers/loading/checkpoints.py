"""Loading checkpoints of `transformers` so that nothing is missing, and telling what was loaded."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer

from ...metrics.common.errors import ModelError
from ..engine.families import checkpoint_path, families_of
from ..engine.protocol import LoadOptions, ModelInfo
from .torch_models import Checkpoint

# Every vocabulary tells some of these apart, however small.
_WORDS = ("one", "two", "red", "dog", "cat", "a", "b", "the", "0", "的")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_checkpoint(
    family: str,
    checkpoint: str,
    options: LoadOptions,
    classes: Mapping[str, Any],
    settings: Mapping[str, str],
    *,
    described: str = "",
    sees_images: bool = True,
    unused: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """Everything of a checkpoint, ready to score.

    Args:
        family: its name.
        checkpoint, options: as given to ``load``.
        classes: for each ``model_type`` that the family reads the class of `transformers` that scores it, named
            outright: an Auto class may choose one without the heads.
        settings: of the family, as they are in effect.
        described: see `load_config`.
        sees_images: whether there is an image processor to load.
        unused, changes: see `load_model_class`.

    Raises:
        ModelError: not found, of another type (the message names its family), an unknown dtype, without a tokenizer,
            or with weights that are missing, of another shape, or not the model's.
    """
    config = load_config(checkpoint, options, family, tuple(classes), described)
    model = load_model_class(classes[config.model_type], checkpoint, options, family, unused, changes)
    processor = load_image_processor(checkpoint, options, family) if sees_images else None
    tokenizer = load_tokenizer(checkpoint, options, family)
    info = model_info(checkpoint, options, family, model, config, settings, image_preprocessing(processor))
    return Checkpoint(model, tokenizer, processor, info)


def load_config(
    checkpoint: str, options: LoadOptions, family: str, model_types: Sequence[str], described: str = ""
) -> Any:
    """The configuration of a checkpoint of one of the model types.

    Args:
        checkpoint, options, family: as given to ``load``.
        model_types: the types that the family can read.
        described: what to say instead of them in messages, where they are many.

    Raises:
        ModelError: not found, or of another type; or a revision of a folder, which has none.
    """
    path = checkpoint_path(checkpoint)
    if options.revision is not None and Path(path).expanduser().is_dir():
        raise ModelError(
            f"{checkpoint} is a folder, which has no revision {options.revision!r}; leave it out, or name a repository"
        )
    with loading_errors(checkpoint, family):
        config = AutoConfig.from_pretrained(path, revision=options.revision)
    if config.model_type not in model_types:
        right = " or ".join(families_of(config.model_type)) or "no family here"
        raise ModelError(
            f"{checkpoint} is a {config.model_type!r} checkpoint, not one for {family} "
            f"({described or ', '.join(model_types)}); its family is {right}"
        )
    return config


def load_model_class(
    model_class: Any,
    checkpoint: str,
    options: LoadOptions,
    family: str,
    unused: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> Any:
    """The weights of a checkpoint as a model of that class, on the device, in the dtype, ready to score.

    Args:
        model_class: of `transformers`.
        checkpoint, options, family: as given to ``load``.
        unused: see `refuse_incomplete`.
        changes: values of the configuration to replace, such as those that build parts which score nothing.

    Raises:
        ModelError: not found, an unknown dtype, or weights that are missing, of another shape, or not the model's.
    """
    path = checkpoint_path(checkpoint)
    with loading_errors(checkpoint, family), _unreported():
        model, loading = model_class.from_pretrained(
            path,
            revision=options.revision or "main",
            dtype=torch_dtype(options),
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below with their names, which transformers only logs
            **(changes or {}),
        )
    refuse_incomplete(checkpoint, family, loading, unused)
    model = model.eval().to(options.device)
    if options.compile:
        # The parts, not the whole: scores come from methods that call the parts and never the whole.
        for part in model.children():
            part.compile(dynamic=True)
    return model


def load_image_processor(checkpoint: str, options: LoadOptions, family: str) -> Any:
    """The image processor of a checkpoint, in Pillow: with torchvision about, another would give other pixels."""
    with loading_errors(checkpoint, family):
        return AutoImageProcessor.from_pretrained(checkpoint_path(checkpoint), revision=options.revision, backend="pil")


def load_tokenizer(checkpoint: str, options: LoadOptions, family: str) -> Any:
    """The tokenizer of a checkpoint.

    Raises:
        ModelError: it lacks a library, or the checkpoint has none: without its files it loads all the same, empty, and
            gives all words one token.
    """
    with loading_errors(checkpoint, family):
        try:
            tokenizer = AutoTokenizer.from_pretrained(checkpoint_path(checkpoint), revision=options.revision)
        except ImportError as error:
            raise ModelError(
                f"the tokenizer of {checkpoint} lacks a library, most often SentencePiece: pip install sentencepiece "
                f"protobuf ({error})"
            ) from error
    if len({tuple(tokenizer(word)["input_ids"]) for word in _WORDS}) == 1:
        raise ModelError(
            f"{checkpoint} has no tokenizer, or an empty one: it cannot tell two words apart. Save the tokenizer "
            "beside the model: tokenizer.save_pretrained(folder)"
        )
    return tokenizer


def model_info(
    checkpoint: str,
    options: LoadOptions,
    family: str,
    model: Any,
    config: Any,
    settings: Mapping[str, str],
    preprocessing: dict[str, Any],
) -> ModelInfo:
    """What a predictions file says of a loaded model.

    Args:
        checkpoint: as the user named it; of a local folder only its name is told, since predictions are published.
        options: as given to ``load``.
        family: the family's name.
        model: the loaded module, for the number of its parameters.
        config: of the checkpoint, for its commit.
        settings: the family's settings as they are in effect; those that the user chose become part of the name.
        preprocessing: what is done to images; see `image_preprocessing`.
    """
    path = checkpoint_path(checkpoint)
    name = Path(checkpoint).expanduser().resolve().name if Path(path).expanduser().is_dir() else checkpoint
    chosen = ", ".join(f"{key}={options.settings[key]}" for key in sorted(options.settings))
    return ModelInfo(
        name=f"{name} ({chosen})" if chosen else name,
        family=family,
        checkpoint=name,
        revision=revision(path, config),
        dtype=options.dtype,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        preprocessing=preprocessing,
        settings={**settings, **({"compile": "true"} if options.compile else {})},
    )


def torch_dtype(options: LoadOptions) -> torch.dtype:
    """The torch type that the options name."""
    if options.dtype not in DTYPES:
        raise ModelError(f"unknown dtype {options.dtype!r}; known: {', '.join(DTYPES)}")
    return DTYPES[options.dtype]


@contextmanager
def _unreported() -> Iterator[None]:
    """Without `transformers`' warnings of missing and unexpected weights: `refuse_incomplete` judges them."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def loading_errors(checkpoint: str, family: str) -> Iterator[None]:
    """Turn what `transformers` raises into a `ModelError` that names the checkpoint."""
    try:
        yield
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise ModelError(f"cannot load {checkpoint} as {family}: {error}") from error


def refuse_incomplete(checkpoint: str, family: str, loading: Mapping[str, Any], unused: Sequence[str] = ()) -> None:
    """Raise where weights are missing, of another shape, or not the model's; all three come as mere warnings.

    Args:
        checkpoint, family: for the message.
        loading: the loading info of ``from_pretrained``.
        unused: beginnings of names that may be in the file although this class has no use for them, such as those of
            a head that is not scored.
    """
    problems = {}
    for name in ("missing_keys", "mismatched_keys", "unexpected_keys"):
        keys = sorted(str(key[0] if isinstance(key, tuple) else key) for key in loading.get(name, ()))
        if name == "unexpected_keys":
            # Old files hold buffers that are computed nowadays.
            keys = [key for key in keys if not key.startswith(tuple(unused)) and not key.endswith("position_ids")]
        if keys:
            problems[name] = keys
    if problems:
        text = "; ".join(
            f"{len(keys)} {name.replace('_', ' ')}: {', '.join(keys[:5])}{' …' if len(keys) > 5 else ''}"
            for name, keys in problems.items()
        )
        raise ModelError(
            f"{checkpoint} does not have the weights of {family} ({text}); missing ones would be random numbers. Is "
            "this the whole model, and of this family?"
        )


def revision(path: str, config: Any) -> str:
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


def image_preprocessing(processor: Any) -> dict[str, Any]:
    """What an image processor does, for the predictions file; nothing where there is none."""
    if processor is None:
        return {}
    names = (
        "size",
        "crop_size",
        "resample",
        "image_mean",
        "image_std",
        "do_center_crop",
        "do_resize",
        "do_pad",
        "rescale_factor",
        "rescale_offset",
        "include_top",
        "patch_size",
        "max_num_patches",
    )
    values = processor.to_dict()
    return {"backend": "pil", **{name: values[name] for name in names if name in values}}
