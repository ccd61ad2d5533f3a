"""Blind scorers that need no weights: n-gram language models, trained on the true captions of the other images."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....metrics.common.errors import DataError, ScoresError, UnknownNameError
from ..audit.features import IDEOGRAPH
from ..audit.probes import group_pairs
from ..data.pairs import Pair

UNITS = ("word", "character")
# Unit and order of each.
BLIND_SCORERS = {"words": ("word", 3), "characters": ("character", 5)}

_WORD = re.compile(rf"{IDEOGRAPH}|(?:(?!{IDEOGRAPH})\w)+|[^\w\s]")
_END = ""  # no unit is empty
_FOLDS = 5
_CHUNK = 20_000
_Integers = NDArray[np.int64]


class _Level(NamedTuple):
    """What followed the histories of one length.

    Attributes:
        histories: sorted keys of the histories seen: (place of the history without its last unit) * radix + that unit.
        continuations: sorted keys (place of the history) * radix + (unit that followed).
        counts: how often each continuation came.
        totals: for each history how many units followed it.
        kinds: for each history how many different ones.
    """

    histories: _Integers
    continuations: _Integers
    counts: _Integers
    totals: _Integers
    kinds: _Integers


class NGramModel:
    """An interpolated n-gram model; `train` makes one.

    Attributes:
        unit: ``"word"`` or ``"character"``.
        order: the length of its n-grams.
    """

    def __init__(self, unit: str, order: int, vocabulary: dict[str, int], levels: Sequence[_Level]) -> None:
        self.unit, self.order = unit, order
        self._vocabulary, self._levels = vocabulary, levels

    def score(self, captions: Sequence[str]) -> NDArray[np.float64]:
        """How likely captions are.

        Args:
            captions: n texts.

        Returns:
            float64 array of shape (n,), below 0: the mean natural logarithm of the probability of each unit and of
            the end after it; higher is more likely. A caption's score does not depend on the others.
        """
        parts = [self._score(captions[start : start + _CHUNK]) for start in range(0, len(captions), _CHUNK)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _score(self, captions: Sequence[str]) -> NDArray[np.float64]:
        stream, lengths = _stream(captions, self.unit, self.order, self._vocabulary)
        radix = len(self._vocabulary) + 2
        # Every unit of the vocabulary, the end among them, and one for all that are unknown.
        probability = np.full(len(stream), 1 / (len(self._vocabulary) + 1))
        history = np.zeros(len(stream), np.int64)
        for length, level in enumerate(self._levels):
            if length:
                history = _longer(history, stream, radix, level.histories)
            known = np.flatnonzero((history >= 0) & (stream != radix - 1))
            known = known[level.totals[history[known]] > 0]
            place = history[known]
            keys = place * radix + stream[known]
            found = _find(level.continuations, keys)
            count = np.where(found >= 0, level.counts[found], 0)
            total, kinds = level.totals[place], level.kinds[place]
            probability[known] = (count + kinds * probability[known]) / (total + kinds)
        logarithms = np.log(probability)
        logarithms[stream == radix - 1] = 0
        starts = np.cumsum(lengths) - lengths
        return np.add.reduceat(logarithms, starts) / (lengths - (self.order - 1))


def train(captions: Sequence[str], *, unit: str = "word", order: int = 3) -> NGramModel:
    """Count the n-grams of captions.

    The probability of a unit after a history is interpolated with that after the history without its first unit, with
    the weights of Witten and Bell: P(w | h) = (c(h w) + t(h) P(w | h')) / (c(h) + t(h)), where t(h) is the number of
    different units that came after h; below single units lies a uniform distribution over all units known, the end of a
    caption, and one that stands for all others.

    Args:
        captions: at least one text. Nothing is lower-cased or stripped: what gives a caption away may be just that.
        unit: ``"word"``: words (each character of Chinese and Japanese is one) and punctuation marks, white space left
            out; ``"character"``: all that a caption has.
        order: the length of the n-grams, at least 1.

    Returns:
        A model that depends on the captions and on neither their order nor on chance.

    Raises:
        UnknownNameError: a ``unit`` that is not one of ``UNITS``.
        ScoresError: no captions, or an order below 1.

    Source: Witten and Bell, IEEE Transactions on Information Theory 37, 1991, method C; interpolated as in Chen and
    Goodman, Computer Speech and Language 13, 1999, section 2.4.

    >>> model = train(["a cat", "a dog"], order=1)
    >>> round(float(model.score(["a"])[0]), 4)  # P(a) = P(end) = (2 + 4 / 5) / (6 + 4) = 0.28
    -1.273
    """
    if unit not in UNITS:
        raise UnknownNameError("unit of n-grams", unit, UNITS)
    if order < 1:
        raise ScoresError(f"the order is {order}; n-grams have at least 1 unit")
    if not captions:
        raise ScoresError("no captions came; a language model is trained on at least one")
    units = {found for caption in captions for found in _units(caption, unit)}
    vocabulary = {found: number for number, found in enumerate(sorted({_END, *units}))}
    stream, _ = _stream(captions, unit, order, vocabulary)
    radix = len(vocabulary) + 2
    predicted = stream != radix - 1
    levels = []
    history, histories = np.zeros(len(stream), np.int64), np.zeros(1, np.int64)
    for length in range(order):
        if length:
            histories = np.unique(history * radix + stream)
            history = _longer(history, stream, radix, histories)
        continuations, counts = np.unique(history[predicted] * radix + stream[predicted], return_counts=True)
        totals = np.bincount(history[predicted], minlength=len(histories))
        kinds = np.bincount(continuations // radix, minlength=len(histories))
        levels.append(_Level(histories, continuations, counts, totals, kinds))
    return NGramModel(unit, order, vocabulary, levels)


def blind_scores(pairs: Sequence[Pair], name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score both captions of pairs by a language model of the true captions of other images.

    A model that was trained on positives and negatives alike would find neither the likelier, and one that had seen the
    very captions that it scores would know them by heart. So the pairs are divided into five parts (fewer, where
    there are fewer images), and each part is scored by a model of the different true captions of the other parts.
    Pairs that share an image or a caption, be it the true one of the first and the negative of the second, are in one
    part: no caption is scored by a model that saw it. Where captions recur so much that this would put most pairs into
    one part, as with those made by templates, only images are kept apart (see ``_probes.group_pairs``).

    Args:
        pairs: n pairs, of at least two images.
        name: one of ``BLIND_SCORERS``: ``"words"`` are trigrams of words and punctuation marks, ``"characters"``
            5-grams of characters, white space among them.

    Returns:
        The scores of the true captions and those of the negatives, float64 arrays of shape (n,), in nats per unit,
        below 0; see `NGramModel.score`. They do not depend on the order of the pairs.

    Raises:
        UnknownNameError: no such scorer.
        DataError: all pairs are of one image, so that none can be set apart.
    """
    if name not in BLIND_SCORERS:
        raise UnknownNameError("blind scorer", name, BLIND_SCORERS)
    unit, order = BLIND_SCORERS[name]
    positive, negative = np.empty(len(pairs)), np.empty(len(pairs))
    for inside, outside in _parts(pairs):
        model = train(list({pairs[row].positive for row in outside}), unit=unit, order=order)
        positive[inside] = model.score([pairs[row].positive for row in inside])
        negative[inside] = model.score([pairs[row].negative for row in inside])
    return positive, negative


def _parts(pairs: Sequence[Pair]) -> Iterator[tuple[_Integers, _Integers]]:
    """Rows of each part, and those of all others."""
    groups = group_pairs(pairs).codes
    first: dict[int, str] = {}
    for group, pair in zip(groups.tolist(), pairs, strict=True):
        first[group] = min(first.get(group, pair.id), pair.id)
    if len(first) < 2:
        raise DataError(
            f"the {len(pairs)} pairs are of one image, so no language model can be trained on captions of another; add "
            "pairs of other images, or refine on predictions with --predictions"
        )
    in_order = sorted(first, key=lambda group: hashlib.sha256(first[group].encode()).digest())
    part_of = np.empty(len(first), np.int64)
    part_of[in_order] = np.arange(len(first)) % _FOLDS
    part = part_of[groups]
    for number in range(min(_FOLDS, len(first))):
        yield np.flatnonzero(part == number), np.flatnonzero(part != number)


def _units(caption: str, unit: str) -> Sequence[str]:
    return _WORD.findall(caption) if unit == "word" else caption


def _stream(captions: Sequence[str], unit: str, order: int, vocabulary: dict[str, int]) -> tuple[_Integers, _Integers]:
    """The numbers of all units, each caption with order - 1 marks of its start before it, and its length in these.

    One below the last number stands for unknown units, the last for the start.
    """
    unknown, start = len(vocabulary), len(vocabulary) + 1
    numbers: list[int] = []
    lengths = []
    for caption in captions:
        before = len(numbers)
        numbers += [start] * (order - 1)
        numbers += [vocabulary.get(found, unknown) for found in _units(caption, unit)]
        numbers.append(vocabulary[_END])
        lengths.append(len(numbers) - before)
    return np.array(numbers, np.int64), np.array(lengths, np.int64)


def _longer(history: _Integers, stream: _Integers, radix: int, histories: _Integers) -> _Integers:
    """Of each place the number of the history that is one unit longer; -1 where it was never seen.

    The first places of the stream take theirs from its end, which is of no matter: they are marks of a start.
    """
    known = history >= 0
    keys = np.where(known, history * radix + stream, -1)
    return _find(histories, np.roll(keys, 1))


def _find(among: _Integers, keys: _Integers) -> _Integers:
    """The place of each key in a sorted array; -1 where it is not there."""
    places = np.minimum(np.searchsorted(among, keys), len(among) - 1)
    return np.where(among[places] == keys, places, -1)
