"""Answers of models behind servers, as log-probabilities of their first token and as texts; and their scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...hub_datasets.chat.client import one_line, text_of, tokens_of
from .replies import chosen_captions, yes_or_no

YES, NO = ("Yes", "yes"), ("No", "no")
# Below the log-odds of any token that a server lists: captions whose "Yes" it does not list tie, below all others.
UNLISTED = -1e4
# Servers round probabilities near 1 to 1.
_LEAST_PROBABILITY = 1e-12
# Rounding of single precision, also when probabilities are added.
_SLACK = 1e-2
# OpenAI's value for tokens that are too unlikely.
_IMPOSSIBLE = -9999.0
_MOST_CHARACTERS = 400
# How tokenizers write a space before a word.
_SPACES = " ▁Ġ"


class Answer(NamedTuple):
    """An answer of a server.

    Attributes:
        text: its first characters.
        logprobs: the likeliest first tokens with their log-probabilities; empty if they were not given.
        served: the model and system that the server names in its answer.
        prompt_tokens, completion_tokens: as it reports them, else 0.
    """

    text: str
    logprobs: tuple[tuple[str, float], ...] = ()
    served: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


def parse_answer(fields: Mapping[str, Any]) -> Answer:
    """Return an answer from its fields in a journal; raises as `read_answer`."""
    reply = dict(fields)
    return Answer(**{**reply, "logprobs": _checked((token, value) for token, value in reply["logprobs"])})


def read_answer(completion: Any, *, needs_logprobs: bool) -> Answer:
    """Return the answer in a chat completion.

    Raises:
        ValueError, TypeError, AttributeError, LookupError: the completion or its log-probabilities are malformed, or
            log-probabilities are needed and missing.
    """
    text = text_of(completion)[:_MOST_CHARACTERS]
    content = (completion["choices"][0].get("logprobs") or {}).get("content")
    listed = (
        _checked((token["token"], token["logprob"]) for token in content[0].get("top_logprobs") or ())
        if content
        else ()
    )
    if needs_logprobs and not listed:
        raise ValueError("it has no log-probabilities, though other answers had")
    served = " ".join(str(completion[name]) for name in ("model", "system_fingerprint") if completion.get(name))
    return Answer(text, listed, one_line(served, _MOST_CHARACTERS), *tokens_of(completion))


def _checked(listed: Iterable[tuple[Any, Any]]) -> tuple[tuple[str, float], ...]:
    pairs = tuple((token, value) for token, value in listed)
    for token, value in pairs:
        if not isinstance(token, str) or isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError("its log-probabilities are no numbers of tokens")
        if not value <= _SLACK:  # also NaN
            raise ValueError(f"a log-probability is {value}")
    if sum(math.exp(value) for _, value in pairs) > 1 + _SLACK:
        raise ValueError("its probabilities add up to more than 1")
    return pairs


def yes_log_odds(logprobs: Sequence[tuple[str, float]]) -> float:
    """Return log p / (1 - p) of the probability that an answer begins with "Yes"; `UNLISTED` if no spelling is listed.

    The spellings are added; one that is not listed would change p by at most the least listed probability.

    >>> odds = yes_log_odds([("Yes", math.log(0.5)), (" yes", math.log(0.25)), ("No", math.log(0.2))])
    >>> round(math.exp(odds), 6)  # 0.75 / 0.25
    3.0
    """
    yes = _probability(logprobs, YES)
    if not yes:
        return UNLISTED
    not_yes = sum(math.exp(value) for token, value in logprobs if _word(token) not in YES)
    return math.log(yes) - math.log(max(1 - yes, not_yes, _LEAST_PROBABILITY))


def yes_no_log_odds(logprobs: Sequence[tuple[str, float]]) -> float:
    """Return log P(yes) - log P(no) of the first token of an answer; 0 if neither is listed.

    A word that is not listed has at most the least listed probability, and at most what the listed ones leave; with
    this bound for it the sign is right and the distance from 0 is a lower bound.
    """
    yes, no = _probability(logprobs, YES), _probability(logprobs, NO)
    if not yes and not no:
        return 0.0
    listed = [math.exp(value) for _, value in logprobs]
    bound = max(min(*listed, 1 - sum(listed)), _LEAST_PROBABILITY)
    return math.log(yes or bound) - math.log(no or bound)


def is_bounded(logprobs: Sequence[tuple[str, float]], *, is_question: bool) -> bool:
    """Return whether a word that the score needs is not listed: "Yes", or for a question "Yes" or "No"."""
    return not _probability(logprobs, YES) or (is_question and not _probability(logprobs, NO))


def answer_score(text: str, *, is_question: bool) -> float:
    """Return 1 for yes; otherwise 0 for a caption, and for a question -1 for no and 0 for neither answer."""
    said = yes_or_no(text)
    return said if is_question else max(said, 0.0)


def choice_scores(answers: Sequence[str | None], captions: Sequence[str]) -> list[float]:
    """Return the share of orders in which each caption was chosen; 0 for all if an answer chose no caption.

    Args:
        answers: those to the captions in their order and in the reverse.
        captions: in their order.
    """
    scores = [0.0] * len(captions)
    for text, order in zip(answers, (range(len(captions)), range(len(captions))[::-1]), strict=True):
        letters = [] if text is None else chosen_captions(text, [captions[number] for number in order])
        if not letters:
            return [0.0] * len(captions)
        for index in letters:
            scores[order[index]] += 1 / len(answers)
    return scores


def _probability(logprobs: Sequence[tuple[str, float]], spellings: Sequence[str]) -> float:
    return sum(math.exp(value) for token, value in logprobs if value > _IMPOSSIBLE and _word(token) in spellings)


def _word(token: str) -> str:
    return token[1:] if token[:1] and token[0] in _SPACES else token
