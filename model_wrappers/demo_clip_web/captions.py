"""Captions as the web has them: a common word for each meaning, seldom the rare one, and one order of the objects."""

from __future__ import annotations

from collections.abc import Callable

from ...hub_datasets.toy_scenes.episodes import Episode, Rng, describe
from ...hub_datasets.toy_scenes.language import MEANING, SYNONYMS, NounPhrase, Statement, synonym

# How often the rare word of a meaning is used.
RARE = 0.05


def in_common_words(statement: Statement) -> Statement:
    """Return the statement with the most common word of each meaning, the first of its synonyms."""
    return _reworded(statement, lambda meaning: SYNONYMS[meaning][0])


def web_captions(episode: Episode, rng: Rng, rare: float = RARE) -> list[Statement]:
    """Return three true statements of a scene: two objects with a relation, the same with "and", and any two.

    Objects are always named in the order of the scene. They have the attributes of the episode's plan.

    Args:
        episode: the scene.
        rng: draws words and the last two objects.
        rare: how often the rare word of a meaning is used, in [0, 1].
    """
    phrases = [describe(rng, thing, episode.plan.named) for thing in episode.scene.things]
    first, second = sorted(rng.choice(len(phrases), size=2, replace=False).tolist())
    statements = (
        Statement(tuple(phrases[:2]), episode.statement.relation),
        Statement(tuple(phrases[:2])),
        Statement((phrases[first], phrases[second])),
    )
    return [
        _reworded(statement, lambda meaning: SYNONYMS[meaning][int(rng.random() < rare)]) for statement in statements
    ]


def with_synonym_of_difference(statement: Statement, other: Statement) -> Statement:
    """Return the statement with a synonym for the one word or relation in which the other statement differs."""
    if statement.relation != other.relation:
        return Statement(statement.phrases, synonym(statement.relation or ""))
    words = [[(*phrase.adjectives, phrase.noun) for phrase in each.phrases] for each in (statement, other)]
    for position, (ours, theirs) in enumerate(zip(*words, strict=True)):
        for word, wrong in zip(ours, theirs, strict=True):
            if word != wrong:
                phrases = list(statement.phrases)
                phrases[position] = phrases[position].with_word(synonym(word))
                return Statement(tuple(phrases), statement.relation)
    raise ValueError(f"{other.text!r} has no other word than {statement.text!r}")


def _reworded(statement: Statement, choose: Callable[[str], str]) -> Statement:
    """Return the statement with the words chosen for its meanings."""
    phrases = tuple(
        NounPhrase(tuple(choose(MEANING[word]) for word in phrase.adjectives), choose(MEANING[phrase.noun]))
        for phrase in statement.phrases
    )
    return Statement(phrases, choose(MEANING[statement.relation]) if statement.relation else None)
