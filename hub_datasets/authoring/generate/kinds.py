"""How a candidate of each kind is made by a language model: which questions are asked, one after the other.

- replace (SugarCrepe, appendix C.2, three steps): locate the concepts of the caption; ask for a new one in the place of
  one of them, chosen at random; have it put in.
- add (three steps): locate the objects; ask for a new object, or an attribute of one of them; have it put in.
- swap (one step): ask whether two concepts can change places, which, and for the result.
- positive_replace, positive_swap (Hard Positives, section 3.4 and appendix C.1, one step): ask whether a word has a
  synonym, or whether two joined parts can change places, and for the result.

The steps that locate and compose are asked at temperature 0, once; the one for a new concept at 1.5, and anew where its
answer cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .asking import Asker, Question
from .checks import Rejected, check, check_concept, conform, locatable
from .prompts import PROMPTS, read_answer, write_messages

STEPS = {
    "replace_obj": ("locate_obj", "concept_replace_obj", "compose_replace"),
    "replace_att": ("locate_att", "concept_replace_att", "compose_replace"),
    "replace_rel": ("locate_rel", "concept_replace_rel", "compose_replace"),
    "swap_obj": ("swap_obj",),
    "swap_att": ("swap_att",),
    "add_obj": ("locate_obj", "concept_add_obj", "compose_add_obj"),
    "add_att": ("locate_obj", "concept_add_att", "compose_add_att"),
    "positive_replace": ("positive_replace",),
    "positive_swap": ("positive_swap",),
}
_SEEDS = 2**31


def make(kind: str, caption: str, asker: Asker, rng: np.random.Generator, tries: int) -> tuple[str, dict[str, Any]]:
    """A candidate of a kind, checked and in the caption's dress, and what was changed in it.

    Args:
        kind: one of ``STEPS``.
        caption: the true caption.
        asker: asks the model.
        rng: chooses the concept, and the seeds of the steps of chance.
        tries: how often a step of chance is asked at most.

    Raises:
        Rejected: nothing useful came.
    """
    steps = STEPS[kind]
    if len(steps) == 1:
        answer = _ask(steps[0], asker, caption=caption)
        detail = {name: answer[name] for name in ("old", "new", "first", "second") if name in answer}
        check(kind, caption, answer["caption"], _old(detail), detail.get("new", ""))
        return conform(caption, answer["caption"]), detail
    locate, concept, compose = steps
    part = locate.rpartition("_")[2]
    old = _choose(part, caption, _ask(locate, asker, caption=caption)["concepts"], rng)

    def clean(answer: dict[str, Any]) -> str:
        return check_concept(caption, old, answer["concept"])

    new = _ask_anew(concept, asker, rng, tries, clean, caption=caption, old=old)
    answer = _ask(compose, asker, caption=caption, old=old, new=new)
    check(kind, caption, answer["caption"], [old], new)
    return conform(caption, answer["caption"]), {"old": old, "new": new}


def _old(detail: dict[str, Any]) -> list[str]:
    return [detail[name] for name in ("old", "first", "second") if name in detail]


def _choose(part: str, caption: str, concepts: list[str], rng: np.random.Generator) -> str:
    """One of the concepts that were located, at random."""
    found = locatable(caption, concepts, part)
    if not found:
        if concepts:
            raise Rejected("wrong kind", f"{', '.join(concepts)[:60]} came as what could be changed")
        raise Rejected("not possible", "nothing to change was located")
    return found[int(rng.integers(len(found)))]


def _ask(name: str, asker: Asker, **texts: str) -> dict[str, Any]:
    prompt = PROMPTS[name]
    question = Question(write_messages(name, **texts), prompt.temperature, prompt.max_tokens)
    return read_answer(name, asker.ask(question))


def _ask_anew(
    name: str,
    asker: Asker,
    rng: np.random.Generator,
    tries: int,
    clean: Callable[[dict[str, Any]], str],
    **texts: str,
) -> str:
    """What `clean` makes of the first answer that it does not reject."""
    prompt = PROMPTS[name]
    messages = write_messages(name, **texts)
    seed = int(rng.integers(_SEEDS))
    for attempt in range(tries):
        question = Question(messages, prompt.temperature, prompt.max_tokens, seed + attempt, attempt)
        try:
            return clean(read_answer(name, asker.ask(question)))
        except Rejected as error:
            if attempt == tries - 1 or error.reason in ("no answer", "refused"):
                raise
    raise AssertionError("the last attempt returns or raises")
