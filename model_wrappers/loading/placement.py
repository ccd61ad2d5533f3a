"""Models larger than a GPU: spread over several, or with quantised weights.

The setting ``placement`` is ``one`` (each process has the model on its device) or ``auto`` (one process spreads the
layers over all GPUs and the memory: Accelerate's ``device_map="auto"``). The setting ``quantise`` is ``no``, ``8bit``
or ``4bit``, by bitsandbytes. Such a model has no float64 copy: near-ties are computed again one at a time, in its own
precision.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from ...metrics.common.errors import ModelError
from ..engine.protocol import LoadOptions
from .checkpoints import torch_dtype

PLACEMENT = {"placement": ("one", "auto"), "quantise": ("no", "8bit", "4bit")}


def is_whole(settings: Mapping[str, str]) -> bool:
    """Return whether the model is on one device in the precision of the options, so that it can be copied."""
    return settings["placement"] == "one" and settings["quantise"] == "no"


def placement_arguments(settings: Mapping[str, str], options: LoadOptions) -> dict[str, Any]:
    """Return the arguments of ``from_pretrained`` for these settings; none for a whole model.

    Raises:
        ModelError: a library is missing, or the processes do not fit the placement.
    """
    placement, processes = settings["placement"], int(os.environ.get("WORLD_SIZE", "1"))
    if placement == "auto" and processes > 1:
        raise ModelError(
            f"placement=auto spreads a model over all GPUs from one process, and {processes} were started: start "
            "vl-assay without torchrun"
        )
    arguments: dict[str, Any] = {"device_map": "auto"} if placement == "auto" else {}
    if settings["quantise"] == "no":
        return arguments
    if find_spec("bitsandbytes") is None:
        raise ModelError(f"quantise={settings['quantise']} needs bitsandbytes: pip install bitsandbytes")
    from transformers import BitsAndBytesConfig

    weights = (
        BitsAndBytesConfig(load_in_8bit=True)
        if settings["quantise"] == "8bit"
        else BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch_dtype(options))
    )
    return {"device_map": {"": options.device}, **arguments, "quantization_config": weights}
