"""Files of weights as `open_clip` and its forks save them in training, read as tensors by name, without running code.

Such files hold more than weights: an optimizer, NumPy numbers, arguments of the training, low-rank adapters, a teacher.
`read_weights` returns the model's own tensors and a description; other pickled objects are refused by name.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple
from zipfile import is_zipfile

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from ...hub_datasets.core.pretrained import check_file
from ...metrics.common.errors import ModelError

# `torch.load` calls none of these: it rebuilds numbers, and a namespace of plain values.
_NUMBER = np.float64(0).__reduce__()[0]
_HARMLESS: list[Any] = [
    argparse.Namespace,
    np.dtype,
    *(type(np.dtype(name)) for name in ("bool", "int32", "int64", "float16", "float32", "float64")),
    *((_NUMBER, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]
_ENTRIES = ("state_dict", "model")
# Entries of OpenAI's archives that are not weights.
_SIZES = ("input_resolution", "context_length", "vocab_size")
_SCALE, _POSITIONS = "logit_scale", "positional_embedding"
# The matrices of an adapter, and the authors' `lora_alpha`: a product is divided by the rank.
_DOWN, _UP, _ALPHA = "lora_A", "lora_B", 1.0


class Weights(NamedTuple):
    """Tensors by the names of `open_clip`, and in words what makes them differ from those in the file."""

    state: dict[str, Tensor]
    changes: tuple[str, ...] = ()


def read_weights(path: Path) -> Weights:
    """Return the weights in a file of `torch.save` or safetensors, with adapters merged.

    They are those under ``state_dict`` or ``model``, or the file itself. Prefixes ``module.`` are removed, a teacher's
    tensors left out, and a missing ``logit_scale``, which no score depends on, is added.

    Raises:
        ModelError: damaged, not tensors by name, with adapters that do not fit, or with pickled objects other than
            numbers of NumPy and `argparse.Namespace`; these are listed and never loaded.
    """
    check_file(path)
    if path.suffix == ".safetensors":
        try:
            content, changes = load_file(path), []
        except Exception as error:
            raise _damaged(path, error) from error
    else:
        content, changes = load_values(path)
    for entry in _ENTRIES:
        if isinstance(content, Mapping) and isinstance(content.get(entry), Mapping):
            content = content[entry]
            changes += [f"taken from the entry {entry}"] if entry != "state_dict" else []
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        is_mapping = isinstance(content, Mapping)
        description = f"entries {', '.join(map(str, content))}" if is_mapping else type(content).__name__
        raise ModelError(
            f"{path.name} holds no weights by name but {description[:200]}; tensors under {_ENTRIES} are read"
        )
    state = {str(name).removeprefix("module."): value for name, value in content.items() if name not in _SIZES}
    return _own_tensors(state, tuple(changes))


def cut_positions(weights: Weights, length: int) -> Weights:
    """Return the weights with the first `length` positions of captions."""
    positions = weights.state[_POSITIONS]
    if len(positions) <= length:
        return weights
    change = f"the first {length} of {len(positions)} positions of captions kept"
    return Weights({**weights.state, _POSITIONS: positions[:length]}, (*weights.changes, change))


def mean_with(weights: Weights, base: Mapping[str, Tensor], share: float, name: str) -> Weights:
    """Return ``share · base + (1 - share) · weights`` in single precision: model patching (Ilharco et al. 2022).

    Args:
        weights: fine-tuned weights.
        base: those before fine-tuning, with the same names and shapes.
        share: of the base, in [0, 1].
        name: of the base, for messages.

    Raises:
        ModelError: names or shapes that differ.
    """
    state = weights.state
    differing = sorted(key for key in state if key not in base or base[key].shape != state[key].shape)
    if wrong := differing or sorted(base.keys() - state.keys()):
        raise ModelError(f"no mean with {name}, which differs in {', '.join(wrong[:5])}; is it the model of the file?")
    mean = {key: share * base[key].float() + (1 - share) * value.float() for key, value in state.items()}
    change = f"mean of {share:g} × {name} and {1 - share:g} × the file"
    return Weights(mean, (*weights.changes, change))


def load_values(path: Path) -> tuple[Any, list[str]]:
    """Load a file of `torch.save` with plain values and, if needed, those in `_HARMLESS`; return it with the changes.

    Raises:
        ModelError: damaged, or a pickle that names anything else.
    """
    check_file(path)
    options: dict[str, Any] = {"map_location": "cpu", "weights_only": True, "mmap": is_zipfile(path)}
    try:
        return torch.load(path, **options), []
    except UnpicklingError as error:
        first = error
    except Exception as error:  # a damaged pickle can raise anything
        raise _damaged(path, error) from error
    try:
        with safe_globals(_HARMLESS):
            refused = get_unsafe_globals_in_checkpoint(path)
            if not refused:
                return torch.load(path, **options), ["numbers and arguments of the training left out"]
    except Exception:
        raise _damaged(path, first) from first
    raise ModelError(
        f"{path.name} is a pickle that names {', '.join(sorted(refused)[:5])}, and could run code: only tensors, plain "
        "values, numbers of NumPy and argparse.Namespace are loaded. If you trust its source, open it in an isolated "
        "place with torch.load(FILE, weights_only=False), and save the tensors alone: torch.save(state_dict, FILE)"
    ) from None


def merge_lora(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add the adapters in a state dict to their weights: ``weight += lora_B @ lora_A / rank``.

    SVLC, DAC and FSC-CLIP have them (SivanDoveh/TSVLC at 19168b3, ``src/open_clip/loralib``): by the names of
    CLIP's modules, of the joint projection of attention, its output, both layers of the MLPs and the convolution of
    patches. The matrices of a convolution of k × k have k times the rank: (out · k, rank · k) and (rank · k, in · k).

    Returns:
        The weights without the adapters; those without an adapter are the same tensors.

    Raises:
        ModelError: an adapter without its second matrix or its weight, or of another shape.
    """
    merged = {name: tensor for name, tensor in state.items() if not name.endswith((_DOWN, _UP))}
    for name in (name for name in state if name.endswith(_DOWN)):
        stem = name.removesuffix(_DOWN)
        target = stem.removesuffix("_") if stem.endswith("_") else f"{stem}weight"
        down, up, weight = state[name], state.get(stem + _UP), merged.get(target)
        if up is None or weight is None:
            raise ModelError(f"{name} has no {stem + _UP if up is None else target}; the file is not complete")
        if up.shape[1] != down.shape[0] or up.shape[0] * down.shape[1] != weight.numel():
            raise ModelError(
                f"{name} has the shape {tuple(down.shape)} and {stem + _UP} {tuple(up.shape)}, which do not fit the "
                f"shape {tuple(weight.shape)} of {target}: the adapters belong to another model"
            )
        rank = down.shape[0] // (weight.shape[-1] if weight.ndim == 4 else 1)
        product = up.to(weight.dtype) @ down.to(weight.dtype)
        merged[target] = weight + product.view(weight.shape) * (_ALPHA / rank)
    return merged


def _damaged(path: Path, error: Exception) -> ModelError:
    if "TorchScript" in str(error):
        return ModelError(
            f"{path.name} is a TorchScript archive, a program, as OpenAI publishes its models; the weights are "
            "open_clip:MODEL-quickgelu/openai, or openai/clip-vit-base-patch32 of the Hub"
        )
    [reason, *_] = str(error).strip().splitlines() or [type(error).__name__]
    return ModelError(f"{path.name} is not a file of weights, or a damaged one ({reason}); download it again")


def _own_tensors(state: dict[str, Tensor], changes: tuple[str, ...]) -> Weights:
    """Return the tensors of the model itself: adapters merged, a teacher's left out, with a scale."""
    teacher = [name for name in state if "teacher" in name.partition(".")[0]]
    if teacher:
        heads = ", ".join(sorted({name.partition(".")[0] for name in teacher}))
        changes += (f"{len(teacher)} tensors of {heads} left out",)
        state = {name: tensor for name, tensor in state.items() if name not in teacher}
    if adapters := sum(name.endswith(_DOWN) for name in state):
        changes += (f"{adapters} adapters merged: weight + B·A / rank",)
        state = merge_lora(state)
    if _SCALE not in state and any(name.startswith("visual.") for name in state):
        changes += (f"{_SCALE} added, which no score depends on",)
        state = {**state, _SCALE: torch.tensor(math.log(1 / 0.07))}
    return Weights(state, changes)
