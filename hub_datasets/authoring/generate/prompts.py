"""The prompts of `generate`, which are ours: template files, their settings, and reading their answers.

A file `templates/<name>.md` has the system message (`## system`), examples (`## examples`: a line of JSON with the
question, and one after an arrow with the answer), and a template of the question (`## user`) with variables such as
`$caption`. Texts are inserted as JSON strings, so that a caption that looks like an instruction stays a caption.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from .checks import KINDS
from .rejected import Rejected, check_signs

Messages = list[dict[str, str]]

_TEMPLATES = Path(__file__).parent / "templates"
_ARROW = "→ "
# Longer answers are cut, since searching them for JSON could take very long.
MOST_CHARACTERS = 20_000


class PromptTemplate(NamedTuple):
    """The fields of the answer and their types, the temperature (SugarCrepe, appendix C.2) and the longest answer."""

    fields: dict[str, type]
    temperature: float = 0.0
    max_tokens: int = 300


_CAPTION: dict[str, type] = {"caption": str}
_SWAPPED: dict[str, type] = {"possible": bool, "first": str, "second": str, "caption": str}
PROMPTS = {
    **{f"locate_{concept}": PromptTemplate({"concepts": list}) for concept in ("obj", "att", "rel")},
    **{
        f"concept_{kind}": PromptTemplate({"concept": str}, temperature=1.5, max_tokens=60)
        for kind in ("replace_obj", "replace_att", "replace_rel", "add_obj", "add_att")
    },
    **{f"compose_{kind}": PromptTemplate(_CAPTION) for kind in ("replace", "add_obj", "add_att")},
    **{name: PromptTemplate(_SWAPPED) for name in ("swap_obj", "swap_att", "positive_swap")},
    "positive_replace": PromptTemplate({"possible": bool, "old": str, "new": str, "caption": str}),
}


# The prompts of each kind, in their order.
STEPS: dict[str, tuple[str, ...]] = {kind: (kind,) for kind in KINDS}
for _part in ("obj", "att", "rel"):
    STEPS[f"replace_{_part}"] = (f"locate_{_part}", f"concept_replace_{_part}", "compose_replace")
for _part in ("obj", "att"):
    STEPS[f"add_{_part}"] = ("locate_obj", f"concept_add_{_part}", f"compose_add_{_part}")


def write_prompt(step: str, caption: str, **texts: str) -> Messages:
    """Return the messages of a step: the system message, the examples as turns, and the question.

    `old` and `new` among the texts are the concepts.
    """
    system, examples, user = read_template(step)
    texts |= {"caption": caption}
    question = user.substitute({key: json.dumps(text, ensure_ascii=False) for key, text in texts.items()})
    turns = [turn for asked, answer in examples for turn in (("user", asked), ("assistant", answer))]
    return [{"role": role, "content": text} for role, text in [("system", system), *turns, ("user", question)]]


def read_answer(step: str, text: str) -> dict[str, Any]:
    """Return the fields of an answer, from the first JSON object in its text.

    Raises:
        Rejected: no object; a field that is missing, of another type or with control characters; or ``"possible"`` is
            false.
    """
    answer = find_object(text)
    if answer is None:
        raise Rejected("not JSON", f"the answer was {text[:60]!r}")
    fields = PROMPTS[step].fields
    if "possible" in fields and answer.get("possible") is False:
        raise Rejected("not possible", "by the model")
    for field, kind in fields.items():
        value: Any = answer.get(field)
        texts = value if isinstance(value, list) else [value] * (kind is str)
        if not isinstance(value, kind) or not all(isinstance(concept, str) for concept in texts):
            raise Rejected("missing field", f"{field!r} is {str(value)[:40]!r}")
        for concept in texts:
            check_signs(concept)
    return {field: answer[field] for field in fields}


@functools.cache
def read_template(name: str) -> tuple[str, tuple[tuple[str, str], ...], Template]:
    """Return the system message, the examples (question and answer) and the question of a prompt's template file."""
    text = (_TEMPLATES / f"{name}.md").read_text(encoding="utf-8")
    parts = dict(section.split("\n", 1) for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:])
    lines = [line for line in parts["examples"].split("\n") if line]
    examples = tuple(zip(lines[::2], (line.removeprefix(_ARROW) for line in lines[1::2]), strict=True))
    return parts["system"].strip(), examples, Template(parts["user"].strip())


def find_object(text: str) -> dict[str, Any] | None:
    """Return the first JSON object in a text, or None.

    >>> find_object('Sure! ```json {"caption": "a dog"}```')
    {'caption': 'a dog'}
    """
    text = text[:MOST_CHARACTERS]
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            return decoder.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
    return None
