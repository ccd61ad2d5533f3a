"""What the task files of lmms-eval call: the image, the question, and the letter of an answer."""

import re
from string import ascii_uppercase
from typing import Any


def visual(doc: dict[str, Any]) -> list[Any]:
    """The image of a row, in RGB."""
    return [doc["image"].convert("RGB")]


def text(doc: dict[str, Any], lmms_eval_specific_kwargs: Any = None) -> str:
    """The question, with lettered choices."""
    choices = "".join(f"\n{letter}. {choice}" for letter, choice in zip(ascii_uppercase, doc["choices"], strict=False))
    return f"{doc['question']}{choices}\nAnswer with the letter alone."


def results(doc: dict[str, Any], answers: list[str]) -> dict[str, Any]:
    """Whether the first capital of an answer is the target, and what ``vl-assay run precomputed:LOG`` reads."""
    found = re.search("[A-Z]", answers[0])
    letter = found[0] if found else ""
    logged = {"id": doc["id"], "choices": list(doc["choices"]), "answer": letter}
    return {"exact_match": float(letter == doc["target"]), "vl_assay": logged}
