"""Checking ``open_clip_config.json`` before the library reads it: it hands its values to other libraries.

The tokenizer's arguments go to ``AutoTokenizer.from_pretrained``, names of towers to `transformers` and timm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...metrics.common.errors import ModelError

FILE = "open_clip_config.json"
_SECTIONS = ("model_cfg", "preprocess_cfg", "vision_cfg", "text_cfg", "multimodal_cfg")
# The arguments that a configuration may pass on, and the form of names; all others are words.
_ARGUMENTS = {
    "tokenizer_kwargs": ("clean", "strip_sep_token", "language"),
    "act_kwargs": ("approximate",),
    "norm_kwargs": ("eps",),
}
_WORD = re.compile(r"[A-Za-z0-9_-]*")
_HUB_NAME = re.compile(r"\w[\w-]*(\.[\w-]+)*(/\w[\w-]*(\.[\w-]+)*)?")
_NAMES = {"hf_tokenizer_name": _HUB_NAME, "hf_model_name": _HUB_NAME, "timm_model_name": re.compile(r"\w+(\.\w+)?")}


def check_config(config: dict[str, Any]) -> None:
    """Raise `ModelError` unless a configuration holds only numbers, words, names of models and known arguments.

    Args:
        config: the content of the file.
    """
    sections = {key: config[key] for key in _SECTIONS[:2] if key in config}
    for path, value in _refused(sections):
        raise ModelError(
            f"{FILE} has {path} = {value!r}; allowed are numbers, words, names on the Hub, and the arguments "
            + "; ".join(f"{name}: {', '.join(arguments)}" for name, arguments in _ARGUMENTS.items())
        )


def _refused(section: dict[str, Any], path: str = "", allowed: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the place and value of each entry that is not allowed."""
    for key, value in section.items():
        here = f"{path}{key}"
        if (allowed and key not in allowed) or "remote_code" in key:
            yield here, value
        elif isinstance(value, dict):
            if key in _SECTIONS or key in _ARGUMENTS:
                yield from _refused(value, f"{here}.", _ARGUMENTS.get(key, ()))
            else:
                yield here, value
        elif isinstance(value, str):
            if not _NAMES.get(key, _WORD).fullmatch(value):
                yield here, value
        elif not all(isinstance(item, int | float | None) for item in (value if isinstance(value, list) else [value])):
            yield here, value
