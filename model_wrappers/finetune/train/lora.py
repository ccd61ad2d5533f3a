"""Low-rank adapters (LoRA) by the library peft, in the layers that SVLC and DAC adapt."""

from __future__ import annotations

import copy
import re
from typing import Any

from torch import nn

from ....metrics.common.errors import ModelError

# The numbered layers of a transformer in all libraries.
_LAYER = re.compile(r"\.(?:layers?|resblocks|blocks)\.\d+\.")


def add_lora(encoder: Any, rank: int) -> Any:
    """Add adapters to an encoder, in place, and freeze all other parameters.

    Adapted are the projections of attention and both layers of the MLP in each layer of the transformers, and all
    convolutions, such as the patch embedding. The recipe ``svlc`` lists the differences to the released code.

    Args:
        encoder: the dual encoder.
        rank: of the adapters, at least 1; their product is divided by it (alpha 1).

    Returns:
        The encoder's module in peft's wrapper, for `merged`.

    Raises:
        ModelError: peft is not installed, or the model has no such layers.
    """
    try:
        from peft import LoraConfig, get_peft_model  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ModelError(f"LoRA needs the library peft ({error}): pip install 'vl-assay[finetune]'") from error
    targets = [name for name, layer in encoder.module.named_modules() if _is_adapted(name, layer)]
    if not targets:
        raise ModelError(f"{encoder.info.name} has no layers that LoRA can adapt; train all weights: --set lora_rank=0")
    return get_peft_model(encoder.module, LoraConfig(r=rank, lora_alpha=1, target_modules=targets))


def merged(module: Any) -> Any:
    """Return a copy of the module that `add_lora` wrapped, with the adapters added to the weights."""
    return copy.deepcopy(module).merge_and_unload()


def _is_adapted(name: str, layer: nn.Module) -> bool:
    """Return whether a module is a convolution, or a projection of attention or of the MLP in a transformer layer."""
    if isinstance(layer, nn.Conv2d):
        return layer.groups == 1
    # Peft adapts both projections of torch's attention at once; its output projection is a subclass of `nn.Linear`.
    is_projection = isinstance(layer, nn.MultiheadAttention) or type(layer) is nn.Linear
    return is_projection and _LAYER.search(f".{name}.") is not None
