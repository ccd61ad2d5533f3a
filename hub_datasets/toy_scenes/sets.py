"""Captions of different complexity, each with one to six hard negatives (CREPE, section 3)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from .episodes import Episode, Rng, Row, describe, exchange_words, pick, say, with_absent, with_phrase
from .language import MEANING, Statement
from .world import ATTRIBUTES, SIZE_RELATIONS

COMPLEXITIES = range(4, 13)
MOST_NEGATIVES = 6
_WAYS = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")


def complexity(statement: Statement) -> int:
    """Return the number of atoms of a caption: objects, their attributes and the relation."""
    words = sum(1 + len(phrase.adjectives) for phrase in statement.phrases)
    return words + (statement.relation is not None)


def set_rows(episode: Episode, rng: Rng) -> Iterator[Row]:
    """Yield a row: one caption, its complexity drawn from `COMPLEXITIES`, and one to `MOST_NEGATIVES` negatives."""
    statement = _statement(episode, rng)
    count = int(rng.integers(1, MOST_NEGATIVES + 1))
    false: dict[str, None] = {}
    while len(false) < count:
        candidate = _negative(pick(rng, _WAYS), statement, episode, rng)
        if candidate and not candidate.is_true_of(episode.scene):
            false[candidate.text] = None
    yield {
        "category": str(complexity(statement)),
        "image": episode.scene,
        "caption": statement.text,
        "hard_negatives": list(false),
        "complexity": complexity(statement),
    }


def _statement(episode: Episode, rng: Rng) -> Statement:
    """Return a positive caption of two or more objects, with as many adjectives as its complexity needs."""
    things = episode.scene.things
    # No sizes with a relation of size, which would reveal the label.
    tells_size = {episode.plan.relation, episode.plan.false_relation} & set(SIZE_RELATIONS)
    kinds = ("texture", "colour") if tells_size else tuple(ATTRIBUTES)
    # An object and each of its attributes are an atom; the relation is one more.
    most = 1 + len(things) * (1 + len(kinds))
    atoms = pick(rng, [n for n in COMPLEXITIES if n <= most])
    objects = pick(rng, [m for m in range(2, len(things) + 1) if m < atoms <= 1 + m * (1 + len(kinds))])
    slots = list(itertools.product(range(objects), kinds))
    mentioned = [slots[int(i)] for i in rng.permutation(len(slots))[: atoms - 1 - objects]]
    phrases = tuple(
        describe(rng, thing, tuple(kind for kind in kinds if (index, kind) in mentioned))
        for index, thing in enumerate(things[:objects])
    )
    return Statement(phrases, say(rng, episode.plan.relation))


def _negative(way: str, statement: Statement, episode: Episode, rng: Rng) -> Statement | None:
    """Return a candidate of one type; None if the caption has none."""
    phrases = statement.phrases
    position = int(rng.integers(len(phrases)))
    if way == "replace_obj":
        return with_absent(statement, position, "shape", episode.scene, rng)
    if way == "replace_rel":
        return replace(statement, relation=say(rng, episode.plan.false_relation))
    if way == "swap_obj":
        return replace(statement, phrases=(phrases[1], phrases[0], *phrases[2:]))
    if way == "swap_att":
        return _swap_attributes(statement, rng)
    # Another value of one attribute; as nouns identify objects, other objects may have it.
    phrase = phrases[position]
    values = [value for kind in ATTRIBUTES if phrase.word(kind) for value in _other_values(kind, position, episode)]
    return with_phrase(statement, position, phrase.with_word(say(rng, pick(rng, values)))) if values else None


def _other_values(kind: str, position: int, episode: Episode) -> list[str]:
    """Return the values of a kind that an object could have been sampled with, except its value."""
    things = episode.scene.things
    taken = {getattr(things[position], kind)}
    # In these the first two always differ, so equal values would reveal a negative.
    if position < 2 and kind in ("colour", episode.plan.contrast):
        taken.add(getattr(things[1 - position], kind))
    return [value for value in ATTRIBUTES[kind] if value not in taken]


def _swap_attributes(statement: Statement, rng: Rng) -> Statement | None:
    """Return the statement with an attribute of two phrases exchanged; None if no attribute differs."""
    exchanges = [
        (i, j, kind)
        for i, j in itertools.combinations(range(len(statement.phrases)), 2)
        for kind in ATTRIBUTES
        if (first := statement.phrases[i].word(kind))
        and (second := statement.phrases[j].word(kind))
        and MEANING[first] != MEANING[second]
    ]
    return exchange_words(statement, *pick(rng, exchanges)) if exchanges else None
