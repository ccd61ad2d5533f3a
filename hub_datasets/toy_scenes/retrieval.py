"""Retrieval: five captions of a scene that are true of no other scene of its retrieval set."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from .episodes import Episode, Rng, Row, describe, pick, sample_episode, say
from .language import MEANING, Statement
from .world import ATTRIBUTES, RELATIONS, Scene, Thing, holds

# Number of consecutive scenes of a retrieval set.
POOL = 100
CAPTIONS = 5
# Number of draws of brief captions; further captions describe all objects in full.
_BRIEF_DRAWS = 20
_MOST_THINGS = 3


class _Known(NamedTuple):
    scene: Scene
    shapes: frozenset[str]
    looks: frozenset[tuple[str, ...]]


def retrieval_rows(episode: Episode, rng: Rng) -> Iterator[Row]:
    """Yield the scene with five different captions; no row if no caption distinguishes it from the other scenes."""
    others = _others(episode)
    if not _is_distinct(episode.scene, others):
        return
    captions: dict[str, None] = {}
    draws = 0
    while len(captions) < CAPTIONS:
        draws += 1
        statement = _statement(episode.scene, draws <= _BRIEF_DRAWS, rng)
        # Most scenes lack a shape of the caption; this test first is many times as fast.
        shapes = {MEANING[phrase.noun] for phrase in statement.phrases}
        if not any(shapes <= distractor.shapes and statement.is_true_of(distractor.scene) for distractor in others):
            captions[statement.text] = None
    yield {"image": episode.scene, "captions": list(captions), "condition": "none"}


@lru_cache(4)
def _pool(seed: int, split: str, number: int) -> list[_Known]:
    scenes = (sample_episode(seed, split, index).scene for index in range(number * POOL, (number + 1) * POOL))
    return [_Known(scene, frozenset(scene.values("shape")), frozenset(map(_looks, scene.things))) for scene in scenes]


def _others(episode: Episode) -> list[_Known]:
    number, place = divmod(episode.index, POOL)
    pool = _pool(episode.seed, episode.split, number)
    return pool[:place] + pool[place + 1 :]


def _is_distinct(scene: Scene, others: list[_Known]) -> bool:
    """Return whether some caption, one that describes all objects in full, is true of the scene and of no other."""
    full = {_looks(thing) for thing in scene.things}
    alike = [
        {thing.shape: thing for thing in distractor.scene.things} for distractor in others if full <= distractor.looks
    ]
    return any(
        not any(holds(relation, shapes_of_scene[a.shape], shapes_of_scene[b.shape]) for shapes_of_scene in alike)
        for a, b in itertools.permutations(scene.things, 2)
        for relation in _true_relations(a, b)
    )


def _looks(thing: Thing) -> tuple[str, ...]:
    return (thing.shape, *(getattr(thing, kind) for kind in ATTRIBUTES))


def _true_relations(a: Thing, b: Thing) -> list[str]:
    return [relation for relation in RELATIONS if holds(relation, a, b)]


def _statement(scene: Scene, brief: bool, rng: Rng) -> Statement:
    """Return a random caption true of the scene: two or three objects with some attributes, or all with all."""
    things = [scene.things[int(i)] for i in rng.permutation(len(scene.things))]
    if not brief:
        phrases = [describe(rng, thing, tuple(ATTRIBUTES)) for thing in things]
        return Statement(tuple(phrases), _say_relation(things, rng))
    mentioned = things[: int(rng.integers(2, min(len(things), _MOST_THINGS) + 1))]
    kinds = tuple(kind for kind in ATTRIBUTES if rng.integers(2))
    phrases = [describe(rng, thing, kinds) for thing in mentioned]
    return Statement(tuple(phrases), _say_relation(mentioned, rng) if rng.integers(2) else None)


def _say_relation(things: list[Thing], rng: Rng) -> str | None:
    """Return the text of a relation that holds between the first two objects; None if no relation holds."""
    relations = _true_relations(things[0], things[1])
    return say(rng, pick(rng, relations)) if relations else None
