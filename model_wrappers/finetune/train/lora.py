"""Training low-rank adapters in place of weights (LoRA): peft's of all linear layers, or those of SVLC and DAC."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.utils import parametrize

from ....metrics.common.errors import ModelError
from ...loading.lora import low_rank
from .towers import Trainable

# All linear layers with alpha twice the rank, by the library peft; or SVLC's.
KINDS = ("linear", "svlc")
ADAPTERS = "adapters.safetensors"
# The numbered layers of a transformer, in whichever library.
_LAYER = re.compile(r"\.(?:layers?|resblocks|blocks)\.\d+\.")
# Names of the projections that SVLC has as one.
_JOINED = (("q_proj", "k_proj", "v_proj"), ("query", "key", "value"))


def add_lora(encoder: Trainable, rank: int, kind: str = "linear") -> Any:
    """Add adapters to an encoder, in place; only they are trained, and with `kind` ``"linear"`` the scale.

    Args:
        encoder: the dual encoder.
        rank: of the adapters, at least 1.
        kind: one of ``KINDS``. ``"svlc"`` adapts what SVLC and DAC adapt: in the layers of both transformers the joint
            projection of queries, keys and values (one adapter for the three), the projection of the output and both
            layers of the MLP; and all convolutions, such as that of patches. The scale is not trained.

    Returns:
        The module to train: the encoder's, or peft's around it.

    Raises:
        ModelError: peft is not installed, or the model has no such layers.
    """
    return _add_peft(encoder, rank) if kind == "linear" else _add_svlc(encoder, rank)


def merged(module: Any) -> Any:
    """A copy of a module of `add_lora` in which the adapters are part of the weights."""
    module = copy.deepcopy(module)
    if hasattr(module, "merge_and_unload"):
        return module.merge_and_unload()
    for part in list(module.modules()):
        if parametrize.is_parametrized(part):
            _give_own_class(part)
            for name in list(part.parametrizations):
                parametrize.remove_parametrizations(part, name, leave_parametrized=True)
    return module


def save_adapters(module: Any, folder: Path) -> None:
    """Write the adapters of the kind ``"svlc"`` as ``adapters.safetensors``, by the names of SVLC's checkpoints.

    `loading.lora.merge_lora` adds them to the weights before training, which gives the weights of the saved model.
    """
    from safetensors.torch import save_file

    found: dict[str, Tensor] = {}
    for path, part in module.named_modules():
        if parametrize.is_parametrized(part):
            for name, wrapped in part.parametrizations.items():
                stem = f"{path}." if name == "weight" else f"{path}.{name}_"
                found[f"{stem}lora_A"] = wrapped[0].lora_A.detach().cpu().clone()
                found[f"{stem}lora_B"] = wrapped[0].lora_B.detach().cpu().clone()
    if found:
        save_file(found, folder / ADAPTERS, metadata={"format": "pt"})


def _give_own_class(part: Any) -> None:
    """Removing a parametrization changes the part's class, which a copy shares with the original."""
    shared = type(part)
    own = {name: value for name, value in vars(shared).items() if name not in ("__dict__", "__weakref__")}
    part.__class__ = type(shared.__name__, shared.__bases__, own)


class _LowRank(nn.Module):
    """Adds the product of two matrices to a weight; A may be shared."""

    def __init__(self, down: nn.Parameter, up: nn.Parameter) -> None:
        super().__init__()
        self.lora_A, self.lora_B = down, up

    def forward(self, weight: Tensor) -> Tensor:
        return weight + low_rank(self.lora_A, self.lora_B, weight)


def _add_svlc(encoder: Trainable, rank: int) -> Any:
    module = encoder.module
    targets = list(_targets(module))
    if not any(weight.ndim == 2 for _, weights in targets for weight, _ in weights):
        raise ModelError(
            f"{encoder.info.name} has no transformer whose layers SVLC's adapters fit; use --set lora=linear"
        )
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    for parts, weights in targets:
        down: nn.Parameter | None = None
        for part, (weight, name) in zip(parts, weights, strict=True):
            factor = weight.shape[-1] if weight.ndim == 4 else 1
            columns = weight.shape[1] * factor
            if down is None:
                down = nn.Parameter(weight.new_empty(rank * factor, columns))
                nn.init.kaiming_uniform_(down, a=math.sqrt(5))
            up = nn.Parameter(weight.new_zeros(weight.shape[0] * factor, rank * factor))
            parametrize.register_parametrization(part, name, _LowRank(down, up))
    return module


def _targets(module: nn.Module) -> Iterator[tuple[list[nn.Module], list[tuple[Tensor, str]]]]:
    """The parts that share one matrix A, with the weight of each and its name."""
    for path, part in list(module.named_modules()):
        in_layer = _LAYER.search(f".{path}.") is not None
        if in_layer and isinstance(part, nn.MultiheadAttention) and part.in_proj_weight is not None:
            yield [part], [(part.in_proj_weight, "in_proj_weight")]
        for names in _JOINED:
            joined = [getattr(part, name, None) for name in names]
            if in_layer and all(isinstance(each, nn.Linear) for each in joined):
                yield joined, [(each.weight, "weight") for each in joined]  # pyright: ignore
        is_square = isinstance(part, nn.Conv2d) and part.groups == 1 and part.kernel_size[0] == part.kernel_size[1]
        is_alone = isinstance(part, nn.Linear) and in_layer and path.rpartition(".")[2] not in sum(_JOINED, ())
        if is_square or is_alone:
            yield [part], [(part.weight, "weight")]  # pyright: ignore


def _add_peft(encoder: Trainable, rank: int) -> Any:
    try:
        from peft import LoraConfig, get_peft_model  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ModelError(f"LoRA needs the library peft ({error}): pip install 'vl-assay[finetune]'") from error
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
    try:
        adapted = get_peft_model(encoder.module, config)
    except ValueError as error:
        raise ModelError(f"{encoder.info.name} cannot be adapted by LoRA ({error}); leave out lora_rank") from error
    for name in ("logit_scale", "temperature"):
        if isinstance(getattr(encoder.module, name, None), nn.Parameter):
            getattr(encoder.module, name).requires_grad_(True)
    return adapted
