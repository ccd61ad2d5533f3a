"""float32 that is float32: TF32 is off for the time of a computation, whatever the user has switched on before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

# The settings below `torch.backends`: "ieee" computes in float32, "tf32" rounds products to 10 bits.
_OPERATIONS = (
    "cuda.matmul", "cudnn", "cudnn.conv", "cudnn.rnn", "mkldnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn",
)  # fmt: skip
# The older names of the same settings. They are kept in step, since torch raises when it reads two that disagree.
_LEGACY = ("cuda.matmul", "cudnn")


@contextmanager
def full_float32() -> Iterator[dict[str, str]]:
    """Switch TF32 off for all operations of torch, and restore the settings afterwards; may be nested.

    In TF32 a patch embedding, which is a convolution, has errors of 1e-3, and it is torch's default there.

    Yields:
        the settings that were found and are not "ieee" or unset, such as ``{"cudnn.conv": "tf32"}``.
    """
    import torch

    modules = {name: _below(torch.backends, name) for name in _OPERATIONS}
    settings = {name: module.fp32_precision for name, module in modules.items()}
    old: dict[str, bool] = {}
    for name in _LEGACY:
        with suppress(RuntimeError):  # the user's own settings disagree already
            old[name] = modules[name].allow_tf32
    try:
        for name in _LEGACY:
            modules[name].allow_tf32 = False
        for module in modules.values():
            module.fp32_precision = "ieee"
        yield {name: value for name, value in settings.items() if value not in ("ieee", "none")}
    finally:
        for name, value in old.items():
            modules[name].allow_tf32 = value
        for name, value in settings.items():
            modules[name].fp32_precision = value


def _below(parent: Any, name: str) -> Any:
    for name_part in name.split("."):
        parent = getattr(parent, name_part)
    return parent
