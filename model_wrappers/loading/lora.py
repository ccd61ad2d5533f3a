"""LoRA in the form of SVLC, DAC and FSC-CLIP: products of two low-rank matrices that are added to weights.

Their released checkpoints (SivanDoveh/TSVLC at 19168b3, ``src/open_clip/loralib``; SivanDoveh/DAC) hold the weights of
CLIP and, by the names of its modules, ``…lora_A`` and ``…lora_B`` of the joint projection of attention, its output,
both layers of the MLPs and the convolution of patches.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ...metrics.common.errors import ModelError

# The authors' `lora_alpha`: a product is divided by the rank.
ALPHA = 1.0
_DOWN, _UP = "lora_A", "lora_B"


def has_lora(state: Mapping[str, object]) -> bool:
    """Whether a state dict holds adapters."""
    return any(name.endswith(_DOWN) for name in state)


def merge_lora(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add the adapters in a state dict to their weights: ``weight += lora_B @ lora_A / rank``.

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
        merged[target] = weight + low_rank(down, up, weight)
    return merged


def low_rank(down: Tensor, up: Tensor, weight: Tensor) -> Tensor:
    """What adapters add to a weight, in its shape.

    A convolution with kernels of k × k has matrices of k times the rank: (out · k, rank · k) and (rank · k, in · k).
    """
    rank = down.shape[0] // (weight.shape[-1] if weight.ndim == 4 else 1)
    return (up.to(weight.dtype) @ down.to(weight.dtype)).view(weight.shape) * (ALPHA / rank)
