"""The prompts of `generate`: template files `templates/<name>.md`, how they are asked and read.

A file has three parts: what the model is told (`## system`), examples (`## examples`: a line of JSON with what comes,
and one after an arrow with the answer), and the form of a question (`## user`), whose names with a dollar stand for
texts. Texts enter as JSON strings: a caption that looks like an instruction or a heading stays a caption.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from .checks import Rejected, check_signs

Messages = list[dict[str, str]]

_TEMPLATES = Path(__file__).parent / "templates"
_ARROW = "→ "
# An answer that is longer is not read to its end: a search for JSON in it could take for ever.
_MOST_CHARACTERS = 20_000


class Prompt(NamedTuple):
    """A prompt and how it is asked.

    Attributes:
        fields: what the answer has to hold, and of what type.
        temperature: 0 for the likeliest answer, higher for more various ones (SugarCrepe, appendix C.2).
        max_tokens: how long an answer may be.
    """

    fields: dict[str, type]
    temperature: float = 0.0
    max_tokens: int = 300


_CAPTION: dict[str, type] = {"caption": str}
_SWAPPED: dict[str, type] = {"possible": bool, "first": str, "second": str, "caption": str}
PROMPTS = {
    **{f"locate_{part}": Prompt({"concepts": list}) for part in ("obj", "att", "rel")},
    **{
        f"concept_{kind}": Prompt({"concept": str}, temperature=1.5, max_tokens=60)
        for kind in ("replace_obj", "replace_att", "replace_rel", "add_obj", "add_att")
    },
    **{f"compose_{kind}": Prompt(_CAPTION) for kind in ("replace", "add_obj", "add_att")},
    **{name: Prompt(_SWAPPED) for name in ("swap_obj", "swap_att", "positive_swap")},
    "positive_replace": Prompt({"possible": bool, "old": str, "new": str, "caption": str}),
}


class TemplateFile(NamedTuple):
    """What a template file holds."""

    system: str
    examples: tuple[tuple[str, str], ...]
    user: Template


def write_messages(name: str, **texts: str) -> Messages:
    """The messages that ask a prompt about texts: what the model is told, the examples as turns, the question."""
    system, examples, user = read_template(name)
    question = user.substitute({key: json.dumps(text, ensure_ascii=False) for key, text in texts.items()})
    turns = [turn for asked, answer in examples for turn in (("user", asked), ("assistant", answer))]
    return [{"role": role, "content": text} for role, text in [("system", system), *turns, ("user", question)]]


@functools.cache
def read_template(name: str) -> TemplateFile:
    """The template file of a prompt."""
    text = (_TEMPLATES / f"{name}.md").read_text(encoding="utf-8")
    parts = dict(part.split("\n", 1) for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:])
    lines = [line for line in parts["examples"].split("\n") if line]
    examples = tuple(zip(lines[::2], (line.removeprefix(_ARROW) for line in lines[1::2]), strict=True))
    return TemplateFile(parts["system"].strip(), examples, Template(parts["user"].strip()))


def read_answer(name: str, text: str) -> dict[str, Any]:
    """What a model answered to a prompt.

    The first JSON object in the text counts, whatever stands around it.

    Raises:
        Rejected: there is none, a field is missing, of another type or with control characters, or it says that the
            task is not possible.
    """
    answer = find_object(text)
    if answer is None:
        raise Rejected("not JSON", f"the answer was {text[:60]!r}")
    fields = PROMPTS[name].fields
    if "possible" in fields and answer.get("possible") is False:
        raise Rejected("not possible", "by the model")
    for field, kind in fields.items():
        value: Any = answer.get(field)
        texts = value if isinstance(value, list) else [value] * (kind is str)
        if not isinstance(value, kind) or not all(isinstance(each, str) for each in texts):
            raise Rejected("missing field", f"{field!r} is {str(value)[:40]!r}")
        for each in texts:
            check_signs(each)
    return {field: answer[field] for field in fields}


def find_object(text: str) -> dict[str, Any] | None:
    """The first JSON object in a text; None where there is none.

    >>> find_object('Sure! ```json {"caption": "a dog"}```')
    {'caption': 'a dog'}
    """
    text = text[:_MOST_CHARACTERS]
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            return decoder.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
    return None
