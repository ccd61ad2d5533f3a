"""The prompts of ``--prompts paper``: as SugarCrepe and Hard Positives ask, where `prompts` asks in JSON.

``paper_prompts.yaml`` has what the papers print (steps, labels, requirements, numbers of examples, temperatures and
limits), each with its figure or appendix, and where the papers contradict themselves. A prompt is one message of plain
text: the task, the requirements, the examples, and the sentence. For replace and add it is sent three times, each time
filled in up to the next label: located concepts, the new concept, the new sentence.

Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), appendix C.2, Figures 3 and 7 to 9; The Hard
Positive Truth (Kamath et al., ECCV 2024), appendices C.1 and C.2.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from .prompts import MOST_CHARACTERS, JsonPrompts, Messages, PromptTemplate
from .rejected import Rejected, check_signs

FACTS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_SUGARCREPE, _POSITIVES, _KINDS = FACTS["sugarcrepe"], FACTS["hard_positives"], FACTS["kinds"]
_THREE = ("locate", "think", "compose")


class PaperPrompts(JsonPrompts):
    """The papers' prompts: the steps are named ``KIND`` or ``KIND/locate``, ``KIND/think`` and ``KIND/compose``."""

    def steps(self, kind: str) -> tuple[str, ...]:
        """See `JsonPrompts`."""
        return tuple(f"{kind}/{step}" for step in _THREE) if len(_KINDS[kind].get("labels", ())) == 5 else (kind,)

    def prompt(self, step: str) -> PromptTemplate:
        """See `JsonPrompts`."""
        kind, _, part = step.partition("/")
        if kind.startswith("positive"):
            return PromptTemplate({"caption": str}, _POSITIVES["temperature"], _POSITIVES["max_tokens"][kind])
        part = part or "swap"
        fields = {"locate": {"concepts": list}, "think": {"concept": str}}.get(part, {"caption": str})
        return PromptTemplate(fields, _SUGARCREPE["temperatures"][part], _SUGARCREPE["max_tokens"][part])

    def check_caption(self, kind: str, caption: str) -> None:
        """Raise `Rejected` for a caption that Hard Positives asks no swap of: without "and", or of 15 words or more."""
        words = caption.lower().split()
        word, limit = _POSITIVES["word"], _POSITIVES["words_below"]
        if kind == "positive_swap" and (word not in words or len(words) >= limit):
            raise Rejected("not asked for", f"it has not the word {word!r} and fewer than {limit} words")

    def write(self, step: str, caption: str, *, located: Sequence[str] = (), **texts: str) -> Messages:
        """Return the message of a step about a caption; later steps repeat what the earlier ones answered."""
        kind = step.partition("/")[0]
        caption = " ".join(caption.split())
        facts = _KINDS[kind]
        if kind.startswith("positive"):
            lines = [facts["task"], "", *(f"Input: {old}\nOutput: {new}" for old, new in facts["shots"])]
            return _message([*lines, *([f"Input: {caption}", "Output:"] if facts["shots"] else [caption])])
        labels = facts["labels"]
        filled = [caption, str([*located]), texts.get("old", ""), texts.get("new", "")]
        if "/" in step:
            shown = {"locate": 1, "think": 3, "compose": 4}[step.partition("/")[2]]
            question = [f"{label}: {text}" for label, text in zip(labels, filled[:shown], strict=False)]
            return _message([_task(kind), *_shots(kind), "", *question, f"{labels[shown]}:"])
        return _message([_task(kind), *_shots(kind), "", f"{labels[0]}: {caption}", labels[1]])

    def read(self, step: str, text: str) -> dict[str, Any]:
        """Return the fields of an answer, as `JsonPrompts.read` does.

        Raises:
            Rejected: an answer of another form, with control characters, or No.
        """
        text = text[:MOST_CHARACTERS].strip()
        check_signs(text)
        kind, _, part = step.partition("/")
        if part == "locate":
            return {"concepts": _read_list(text)}
        labels = _KINDS[kind].get("labels", ["Input", "", "", "Output"])
        if part or kind.startswith("positive"):
            label = {"think": labels[-2]}.get(part, labels[-1])
            return {"concept" if part == "think" else "caption": _first_line(text, label)}
        return _read_swap(text, labels)


def _message(lines: list[str]) -> Messages:
    return [{"role": "user", "content": "\n".join(lines)}]


def _task(kind: str) -> str:
    facts, form = _KINDS[kind], kind.partition("_")[0]
    steps = [f"{number}. {sentence}" for number, sentence in enumerate(facts["steps"], 1)]
    requirements = [f"{number}. {sentence}" for number, sentence in enumerate(FACTS["requirements"][form], 1)]
    return "\n".join(
        [
            "A sentence describes a scene. Your task:",
            *steps,
            "",
            "Three requirements:",
            *requirements,
            "",
            "Some examples:",
        ]
    )


def _shots(kind: str) -> list[str]:
    labels, lines = _KINDS[kind]["labels"], []
    for caption, *answers in _KINDS[kind]["shots"]:
        lines += ["", f"{labels[0]}: {caption}"]
        if len(labels) == 5:
            filled = [answer for answer in answers if answer or isinstance(answer, list)]
            lines += [f"{label}: {answer}" for label, answer in zip(labels[1:], filled, strict=False)]
        else:
            lines.append(f"{labels[1]} {'Yes' if answers[1] else 'No'}")
            lines += [f"{label}: {answer}" for label, answer in zip(labels[2:], answers, strict=True) if answer]
    return lines


def _first_line(text: str, label: str) -> str:
    """Return the text after a label, on its line or else on the first line that is neither empty nor a preface."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    labelled = [line for line in lines if line.lower().startswith(f"{label.lower()}:")]
    # Llama 2 often begins with "Sure! Here is the sentence:".
    plain = [line for line in lines if not line.endswith(":")]
    if not labelled and not plain:
        raise Rejected("missing field", f"the answer was {text[:60]!r}")
    return re.sub(rf"^{re.escape(label)}:\s*", "", (labelled or plain)[0], flags=re.IGNORECASE).strip("\"'")


def _read_list(text: str) -> list[str]:
    match = re.search(r"\[[^\[\]]*\]", text)
    try:
        texts = ast.literal_eval(match[0]) if match else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        texts = None
    if not isinstance(texts, list) or not all(isinstance(text_in_list, str) for text_in_list in texts):
        raise Rejected("missing field", f"expected a list such as ['cat', 'mat'], and got {text[:60]!r}")
    return texts


def _read_swap(text: str, labels: list[str]) -> dict[str, Any]:
    answer = re.match(r"(?:.*\?\s*)?(yes|no)\b", text, re.IGNORECASE)
    if answer is None:
        raise Rejected("missing field", f"expected Yes or No, and got {text[:60]!r}")
    if answer[1].lower() == "no":
        raise Rejected("not possible", "by the model")
    matches = {label: re.search(rf"^{re.escape(label)}:[ \t]*(.+)$", text, re.MULTILINE) for label in labels[2:]}
    lines = [match[1].strip() if match else "" for match in matches.values()]
    parts = [part.strip(" \"'") for part in lines[0].split(",")]
    if not lines[1] or len(parts) != 2 or not all(parts):
        raise Rejected("missing field", f"expected two parts and an output, and got {text[:60]!r}")
    return {"first": parts[0], "second": parts[1], "caption": lines[1].strip("\"'")}


# The sets of prompts to choose from.
PROMPT_SETS: dict[str, type[JsonPrompts]] = {"json": JsonPrompts, "paper": PaperPrompts}
