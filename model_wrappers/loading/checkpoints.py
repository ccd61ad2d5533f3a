"""Loading checkpoints of `transformers`: incomplete ones are refused, and what was loaded is described."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from huggingface_hub import is_offline_mode, resolve_revision
from huggingface_hub.errors import RevisionResolutionError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer
from transformers.utils.hub import cached_file

from ...hub_datasets.core.pretrained import ADAPTER, load_part, no_model_code
from ...metrics.common.errors import ModelError
from ...metrics.common.storage import cache_error, with_home
from ...metrics.records.predictions import file_hash
from ..engine.families import checkpoint_path, families_of
from ..engine.protocol import LoadOptions, ModelInfo, choose
from .torch_models import Checkpoint

# Even a small vocabulary gives some of these words different tokens.
_WORDS = ("one", "two", "red", "dog", "cat", "a", "b", "the", "0", "的")
# The fields of an image processor that predictions record.
_PREPROCESSING = (
    *("size", "crop_size", "resample", "image_mean", "image_std", "do_center_crop", "do_resize", "do_pad"),
    *("rescale_factor", "rescale_offset", "include_top", "patch_size", "max_num_patches"),
)
# The suffixes of files in a folder that a model is loaded from, and the folder of records that `finetune` adds.
_LOADED = (".json", ".txt", ".model", ".safetensors", ".bin", ".jinja", ".spm", ".codes", ".tokenizer", ".tiktoken")
_RECORDS = "training"
# The errors that `transformers` raises for checkpoints that are missing or damaged.
_ERRORS = (OSError, ValueError, RuntimeError, KeyError, EOFError, TypeError, AttributeError, SafetensorError)


def load_checkpoint(
    family: str,
    checkpoint: str,
    options: LoadOptions,
    classes: Mapping[str, Any],
    settings: Mapping[str, Sequence[str]] | None = None,
    *,
    described: str = "",
    processor_class: Any = AutoImageProcessor,
    unused: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """Return model, tokenizer and image processor of a checkpoint, ready to score.

    Args:
        family, checkpoint, options: as given to ``load``.
        classes: the class of `transformers` for each ``model_type``; an Auto class may choose one without the heads.
        settings: the settings of the family and their values; see `choose`.
        described: a text for messages instead of the model types, if these are many.
        processor_class: of the image processor; None for a model that sees no images.
        unused, changes: see `CheckpointFiles.model`.

    Raises:
        ModelError: not found, of another type (the message names its family), without a tokenizer, or with weights that
            are missing, unexpected or of another shape.
        UnknownNameError: a setting or value that does not exist.
    """
    values = choose(family, options, settings or {})
    files = CheckpointFiles(family, checkpoint, options)
    config = files.config(tuple(classes), described)
    model = files.model(classes[config.model_type], unused, changes)
    processor = files.image_processor(processor_class) if processor_class else None
    info = files.info(model, values, image_preprocessing(processor))
    return Checkpoint(model, files.tokenizer(), processor, info)


@dataclass(frozen=True)
class CheckpointFiles:
    """The parts of one checkpoint, all from one commit.

    Each method raises `ModelError`, with the checkpoint's name, if the part is missing or damaged.

    Args:
        family, checkpoint, options: as given to ``load``.
        cache_dir: where files of the Hub are kept; None for the folder of huggingface_hub.
    """

    family: str
    checkpoint: str
    options: LoadOptions
    cache_dir: str | None = None

    @property
    def path(self) -> str:
        """The folder or Hub repository."""
        return checkpoint_path(self.checkpoint)

    @cached_property
    def commit(self) -> str | None:
        """The commit of a Hub repository, asked for once, as a branch may move; None for a local folder or file."""
        revision = self.options.revision
        if with_home(self.path).exists():
            if revision is not None:
                raise ModelError(
                    f"{self.checkpoint} is a folder, which has no revision {revision!r}; leave it out, or name a "
                    "repository"
                )
            return None
        with loading_errors(self.checkpoint, self.family):
            return resolve_revision(
                self.path, revision=revision, cache_dir=self.cache_dir, local_files_only=is_offline_mode()
            ).resolved

    def config(self, model_types: Sequence[str], described: str = "") -> Any:
        """Return the configuration; `ModelError` for another type, or for a revision of a folder, which has none."""
        with loading_errors(self.checkpoint, self.family):
            config = load_part(AutoConfig, self.path, revision=self.commit)
        if config.model_type not in model_types:
            right = " or ".join(families_of(config.model_type)) or "no family here"
            raise ModelError(
                f"{self.checkpoint} is a {config.model_type!r} checkpoint, not one for {self.family} "
                f"({described or ', '.join(model_types)}); its family is {right}"
            )
        for section in (config, *(getattr(config, name, None) for name in config.sub_configs)):
            attention = getattr(section, "_attn_implementation", None) or ""
            if "/" in attention:
                raise ModelError(
                    f"the configuration of {self.checkpoint} asks for the attention {attention}, which is code of a "
                    "Hub repository and never runs here; remove attn_implementation"
                )
        return config

    def file(self, name: str) -> Path | None:
        """Return the path of a file of the checkpoint; None if it has no such file."""
        options = {"revision": self.commit, "cache_dir": self.cache_dir}
        path = cached_file(self.path, name, _raise_exceptions_for_missing_entries=False, **options)
        return None if path is None else Path(path)

    def refuse_adapter(self) -> None:
        """Raise `ModelError` for an adapter of peft in a Hub repository, whose base may be of another one."""
        if self.commit and self.file("adapter_config.json"):
            raise ModelError(ADAPTER)

    def model(self, model_class: Any, unused: Sequence[str] = (), changes: Mapping[str, Any] | None = None) -> Any:
        """Load the weights as a model of `model_class`, in evaluation mode, with the device and dtype of the options.

        Args:
            model_class: a class of `transformers`.
            unused: prefixes of weights that may be in the file although this class has no use for them.
            changes: values of the configuration to replace, for example to leave out parts that score nothing, and
                arguments of ``from_pretrained``, of which ``device_map`` decides the devices.
        """
        with loading_errors(self.checkpoint, self.family), _without_warnings():
            self.refuse_adapter()
            model, loading = load_part(
                model_class,
                self.path,
                revision=self.commit or "main",
                dtype=torch_dtype(self.options),
                weights_only=True,  # pickles
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below with their names, which transformers only logs
                **(changes or {}),
            )
        self.refuse_incomplete(loading, unused)
        return self.ready(model, is_placed="device_map" in (changes or {}))

    def ready(self, model: Any, *, is_placed: bool = False) -> Any:
        """Return a model in evaluation mode, on the device of the options unless its parts are placed already."""
        return model.eval() if is_placed else model.eval().to(self.options.device)

    def image_processor(self, processor_class: Any = AutoImageProcessor) -> Any:
        """Return the image processor, for Pillow if there is one: that for torchvision gives other pixels."""
        backend = {"backend": "pil"} if processor_class is AutoImageProcessor else {}
        with loading_errors(self.checkpoint, self.family):
            return load_part(processor_class, self.path, revision=self.commit, **backend)

    def tokenizer(self) -> Any:
        """Return the tokenizer; without its files `transformers` loads an empty one, which is refused."""
        with loading_errors(self.checkpoint, self.family):
            tokenizer = load_part(AutoTokenizer, self.path, revision=self.commit)
        if len({tuple(tokenizer(word)["input_ids"]) for word in _WORDS}) == 1:
            raise ModelError(
                f"{self.checkpoint} has no tokenizer, or an empty one: it cannot tell two words apart. Save the "
                "tokenizer in the folder of the model: tokenizer.save_pretrained(folder)"
            )
        return tokenizer

    def info(self, model: Any, settings: Mapping[str, str], preprocessing: dict[str, Any]) -> ModelInfo:
        """Return the description of a loaded model in its predictions.

        Of a local folder or file it holds the last part of the path only, since predictions are published. Settings
        that the user chose become part of the name.
        """
        options, path = self.options, with_home(self.path)
        name = with_home(self.checkpoint).resolve().name if path.exists() else self.checkpoint
        changed = ", ".join(f"{key}={options.settings[key]}" for key in sorted(options.settings))
        return ModelInfo(
            name=f"{name} ({changed})" if changed else name,
            family=self.family,
            checkpoint=name,
            revision=self.commit or (f"sha256:{file_hash(path)}" if path.is_file() else folder_hash(path)),
            dtype=options.dtype,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            preprocessing=preprocessing,
            settings={**settings},
        )

    def refuse_incomplete(self, loading: Mapping[str, Any], unused: Sequence[str] = ()) -> None:
        """Raise `ModelError` for weights that are missing, unexpected or of another shape; `transformers` only warns.

        Args:
            loading: their names under `missing_keys`, `unexpected_keys` and `mismatched_keys`, as `from_pretrained`
                returns them.
            unused: prefixes of weights that may be in the file although the model has no use for them.
        """
        problems = []
        for name in ("missing_keys", "mismatched_keys", "unexpected_keys"):
            keys = sorted(str(key[0] if isinstance(key, tuple) else key) for key in loading.get(name, ()))
            if name == "unexpected_keys":
                # Old files hold buffers that are computed nowadays.
                keys = [key for key in keys if not key.startswith(tuple(unused)) and not key.endswith("position_ids")]
            if keys:
                listed = f"{', '.join(keys[:5])}{' …' if len(keys) > 5 else ''}"
                problems.append(f"{len(keys)} {name.replace('_', ' ')}: {listed}")
        if problems:
            raise ModelError(
                f"{self.checkpoint} does not have the weights of {self.family} ({'; '.join(problems)}); missing ones "
                "would be random numbers. Is this the whole model, and of this family?"
            )


def torch_dtype(options: LoadOptions) -> torch.dtype:
    """Return the torch type that the options name."""
    return getattr(torch, options.dtype)


@contextmanager
def loading_errors(checkpoint: str, family: str) -> Iterator[None]:
    """Turn what libraries raise into a `ModelError` that names the checkpoint, whose own code never runs within."""
    try:
        with no_model_code():
            yield
    except ModelError:
        raise
    except RevisionResolutionError as error:
        raise ModelError(
            f"cannot load {checkpoint} as {family}: it was not downloaded before, and the Hub cannot be reached; "
            "connect, or name a folder"
        ) from error
    except ImportError as error:
        raise ModelError(
            f"{checkpoint} needs a library that is not installed ({str(error).strip().splitlines()[0]}): most often "
            "`pip install sentencepiece protobuf` for a tokenizer, or timm, or the torchvision that matches torch, for "
            "images"
        ) from error
    except _ERRORS as error:
        raise cache_error(error) or ModelError(f"cannot load {checkpoint} as {family}: {error}") from error
    except UnpicklingError as error:  # torch's message explains how to run the code anyway
        raise ModelError(
            f"cannot load {checkpoint} as {family}: its weights are a pickle that would run code; save them as "
            "safetensors"
        ) from error


def image_preprocessing(processor: Any) -> dict[str, Any]:
    """Return the settings of an image processor that predictions record; none for None."""
    if processor is None:
        return {}
    values = processor.to_dict()
    return {
        "backend": getattr(processor, "backend", "pil"),
        **{name: values[name] for name in _PREPROCESSING if name in values},
    }


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence `transformers`' warnings of missing and unexpected weights, which are errors here."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def folder_hash(folder: Path) -> str:
    """Return a hash over the weights, configurations, templates and vocabulary in a local folder and its subfolders.

    Hidden files and the records of fine-tuning are left out.
    """
    digest = hashlib.sha256()
    for file in sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file()):
        if file.suffix in _LOADED and not file.parts[0].startswith(".") and file.parts[0] != _RECORDS:
            digest.update(str(file).encode() + b"\0" + bytes.fromhex(file_hash(folder / file)))
    return f"sha256:{digest.hexdigest()}"
