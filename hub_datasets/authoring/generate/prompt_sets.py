"""The sets of prompts to choose from."""

from __future__ import annotations

from ....metrics.common.errors import check_known
from .paper_prompts import PaperPrompts
from .prompts import JsonPrompts, PromptSet

PROMPT_SETS = ("json", "paper")


def open_prompts(name: str) -> PromptSet:
    """The prompts ``"json"`` or ``"paper"``; raises `UnknownNameError`."""
    check_known("set of prompts", [name], PROMPT_SETS)
    return PaperPrompts() if name == "paper" else JsonPrompts()
