"""Episodes: a scene and a caption that is true of it, sampled by index; the tasks are made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .language import SYNONYMS, NounPhrase, Statement
from .world import ATTRIBUTES, SHAPES, Scene, ScenePlan, Thing, sample_plan, sample_scene

_SPLITS = {"train": 0, "validation": 1, "test": 2}
Row = dict[str, Any]
Rng = np.random.Generator


@dataclass(frozen=True)
class Episode:
    """A scene, its plan, a statement that is true of it, and the seed, split and index that determine them."""

    scene: Scene
    plan: ScenePlan
    statement: Statement
    seed: int
    split: str
    index: int


TaskRows = Callable[[Episode, Rng], Iterator[Row]]


@lru_cache(4096)
def sample_episode(seed: int, split: str, index: int) -> Episode:
    """Return episode number `index` of a split; it depends only on the three arguments."""
    rng = rng_for(seed, split, index, 0)
    plan = sample_plan(rng)
    scene = sample_scene(rng, plan)
    phrases = tuple(describe(rng, thing, plan.named) for thing in scene.things[:2])
    return Episode(scene, plan, Statement(phrases, say(rng, plan.relation)), seed, split, index)


def rng_for(seed: int, split: str, index: int, purpose: int) -> Rng:
    """Return the random generator of a scene for one purpose, such as a task."""
    return np.random.default_rng([seed, _SPLITS[split], index, purpose])


def say(rng: Rng, meaning: str) -> str:
    """Return one of the two synonyms of a meaning, at random."""
    return pick(rng, SYNONYMS[meaning])


def pick(rng: Rng, options: Any) -> Any:
    """Return one of the options, at random."""
    return options[int(rng.integers(len(options)))]


def describe(rng: Rng, thing: Thing, kinds: tuple[str, ...]) -> NounPhrase:
    """Return a phrase with the shape of an object and its attributes of the given kinds."""
    phrase = NounPhrase((), say(rng, thing.shape))
    for kind in kinds:
        phrase = phrase.with_word(say(rng, getattr(thing, kind)))
    return phrase


def absent(scene: Scene, kind: str) -> list[str]:
    """Return the values of a kind that no object of the scene has, in a fixed order."""
    values = SHAPES if kind == "shape" else ATTRIBUTES[kind]
    present = scene.values(kind)
    return [value for value in values if value not in present]


def with_phrase(statement: Statement, position: int, phrase: NounPhrase) -> Statement:
    """Return the statement with the phrase at one position replaced."""
    return Statement((*statement.phrases[:position], phrase, *statement.phrases[position + 1 :]), statement.relation)


def exchange_words(statement: Statement, first: int, second: int, kind: str) -> Statement:
    """Exchange the words of a kind between the phrases at two positions, which must both have such a word."""
    words = [statement.phrases[position].word(kind) or "" for position in (second, first)]
    for position, word in zip((first, second), words, strict=True):
        statement = with_phrase(statement, position, statement.phrases[position].with_word(word))
    return statement


def with_absent(statement: Statement, position: int, kind: str, scene: Scene, rng: Rng) -> Statement:
    """Replace one phrase's word of a kind by a word that applies to no object of the scene."""
    word = say(rng, pick(rng, absent(scene, kind)))
    return with_phrase(statement, position, statement.phrases[position].with_word(word))
