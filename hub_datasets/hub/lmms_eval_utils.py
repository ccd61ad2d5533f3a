"""Functions that the task files of lmms-eval call: the image, the question, and the letter of an answer."""

import re
from string import ascii_uppercase
from typing import Any


def visual(doc: dict[str, Any]) -> list[Any]:
    """Return the image of a row, in RGB."""
    return [doc["image"].convert("RGB")]


def text(doc: dict[str, Any], lmms_eval_specific_kwargs: Any = None) -> str:
    """Return the question, with lettered choices."""
    choices = "".join(f"\n{letter}. {choice}" for letter, choice in zip(ascii_uppercase, doc["choices"], strict=False))
    return f"{doc['question']}{choices}\nAnswer with the letter alone."


def results(doc: dict[str, Any], answers: list[str]) -> dict[str, Any]:
    """Compare the first single capital letter of the reply with the target.

    Returns:
        `exact_match`, 1.0 if they are equal, else 0.0; and `vl_assay`, the reply as ``vl-assay run precomputed:LOG``
        reads it.
    """
    letter = re.search(r"\b[A-Z]\b", answers[0])
    logged = {"id": doc["id"], "choices": list(doc["choices"]), "answer": answers[0]}
    return {"exact_match": float(bool(letter) and letter[0] == doc["target"]), "vl_assay": logged}
