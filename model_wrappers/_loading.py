"""What families share: loading `transformers` checkpoints so that nothing is missing, and telling what was loaded."""

from __future__ import annotations

import copy
import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer

from ..metrics.errors import ModelError, UnknownNameError
from ._families import checkpoint_path, families_of
from ._protocol import LoadOptions, ModelInfo

# Every vocabulary tells some of these apart, however small.
_WORDS = ("one", "two", "red", "dog", "cat", "a", "b", "the", "0", "的")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


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

    def chosen(self, exact: bool) -> Any:
        """The model; in double precision where `exact`, made when it is first wanted, on the CPU for Apple's GPUs."""
        if not exact:
            return self._model
        if self._exact_model is None:
            device = "cpu" if self.device.type == "mps" else self.device
            self._exact_model = copy.deepcopy(self._model).to(device, torch.float64)
        return self._exact_model


def load_config(
    checkpoint: str, options: LoadOptions, family: str, model_types: Sequence[str], described: str = ""
) -> Any:
    """The configuration of a checkpoint of one of the model types.

    Args:
        checkpoint, options, family: as given to ``load``.
        model_types: the types that the family can read.
        described: what to say instead of them in messages, where they are many.

    Raises:
        ModelError: not found, or of another type.
    """
    path = checkpoint_path(checkpoint)
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
        model_class: of `transformers`, named outright: an Auto class may choose one without the heads that score.
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
        ModelError: it has none. Without its files it loads all the same, empty, and gives all words one token.
    """
    with loading_errors(checkpoint, family):
        tokenizer = AutoTokenizer.from_pretrained(checkpoint_path(checkpoint), revision=options.revision)
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
    *,
    preprocessing: Mapping[str, Any] | None = None,
    settings: Mapping[str, str] | None = None,
) -> ModelInfo:
    """What a sheet says of a loaded model.

    Args:
        checkpoint: as the user named it; of a local folder only its name is told, since sheets are published.
        options: as given to ``load``.
        family: the family's name.
        model: the loaded module, for the number of its parameters.
        config: of the checkpoint, for its commit.
        preprocessing: what was done to images; see `image_preprocessing`.
        settings: the family's settings as they are in effect; those that the user chose become part of the name.
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
        preprocessing=dict(preprocessing or {}),
        settings={**(settings or {}), **({"compile": "true"} if options.compile else {})},
    )


def choose(family: str, options: LoadOptions, known: Mapping[str, Sequence[str] | None]) -> dict[str, str]:
    """The settings of a family, each with its first value where the user chose none.

    Args:
        family: its name, for messages.
        options: with the user's settings.
        known: for each setting its values, the default first; or a sequence of one default and any value where the
            sequence ends with ``"…"``.

    Raises:
        UnknownNameError: a setting or value that does not exist.
    """
    for name in options.settings:
        if name not in known:
            raise UnknownNameError(f"setting of {family}", name, known)
    chosen = {}
    for name, values in known.items():
        values = list(values or ())
        value = options.settings.get(name, values[0])
        if value not in values and values[-1] != "…":
            raise UnknownNameError(f"{name} of {family}", value, values)
        chosen[name] = value
    return chosen


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
    """What an image processor does, for the sheet."""
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


def cut_tokens(ids: Sequence[int], limit: int) -> list[int]:
    """The ids as truncation leaves them: the last one, the end token, stays."""
    ids = list(ids)
    return ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]]


def pad_right(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, both (n, longest), with `pad` at the right: positions stay as they are alone."""
    longest = max(map(len, rows), default=0)
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], dtype=torch.long)
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], dtype=torch.long)
    return ids.to(device), mask.to(device)


def log_likelihoods(logits: torch.Tensor, targets: Sequence[int]) -> torch.Tensor:
    """Log-probability (k,), float64, of each target token by the logits (k, vocabulary) before it."""
    # In single precision their sum over a caption would differ in the sixth decimal. Apple's GPUs have no double.
    wide = logits.to("cpu" if logits.device.type == "mps" else logits.device).double()
    chosen = torch.as_tensor(list(targets), dtype=torch.long, device=wide.device)
    return wide.log_softmax(-1).gather(-1, chosen[:, None])[:, 0]


def normalised(output: Any, exact: bool) -> np.ndarray:
    """Embeddings of length 1, float32, or float64 where `exact`, from a model's output."""
    embeddings = getattr(output, "pooler_output", output)
    embeddings = embeddings.to(torch.float64 if exact else torch.float32)
    return (embeddings / embeddings.norm(dim=-1, keepdim=True)).cpu().numpy()


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
