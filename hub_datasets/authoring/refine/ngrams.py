"""Blind scorers that need no weights: n-gram language models, trained on the positive captions of the other images."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....metrics.common.errors import DataError, ScoresError, check_known
from ....metrics.common.wording import IDEOGRAPH
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
    """The units that followed histories of one length.

    `histories` are sorted keys, (index of the history without its last unit) * radix + that unit; `continuations` too,
    (index of the history) * radix + (unit that followed), with their `counts`. `totals` are, for each history, the
    number of units that followed it, `kinds` that of distinct ones.
    """

    histories: _Integers
    continuations: _Integers
    counts: _Integers
    totals: _Integers
    kinds: _Integers


class NGramModel:
    """An interpolated n-gram model, which counts the n-grams of captions; their order does not matter.

    Probabilities are interpolated with the weights of Witten and Bell: P(w | h) = (c(h w) + t(h) P(w | h')) /
    (c(h) + t(h)), where h' is the history h without its first unit and t(h) the number of distinct units after h. The
    lowest level is uniform over the known units, the end of a caption, and one for all unknown units.

    Args:
        captions: at least one text, used as it is: case and white space may give a caption away.
        unit: ``"word"``: words (each character of Chinese and Japanese is one) and punctuation marks without white
            space; ``"character"``: all characters.
        order: the length of the n-grams, at least 1.

    Raises:
        UnknownNameError: a ``unit`` that is not one of ``UNITS``.
        ScoresError: no captions, or an order below 1.

    Source: Witten and Bell, IEEE Transactions on Information Theory 37, 1991, method C; interpolated as in Chen and
    Goodman, Computer Speech and Language 13, 1999, section 2.4.

    >>> model = NGramModel(["a cat", "a dog"], order=1)
    >>> round(float(model.score(["a"])[0]), 4)  # P(a) = P(end) = (2 + 4 / 5) / (6 + 4) = 0.28
    -1.273
    """

    def __init__(self, captions: Sequence[str], *, unit: str = "word", order: int = 3) -> None:
        check_known("unit of n-grams", [unit], UNITS)
        if order < 1:
            raise ScoresError(f"the order is {order}; n-grams have at least 1 unit")
        if not captions:
            raise ScoresError("no captions came; a language model is trained on at least one")
        self.unit, self.order = unit, order
        units = {found for caption in captions for found in self._units(caption)}
        self._vocabulary = {found: number for number, found in enumerate(sorted({_END, *units}))}
        stream, _ = self._stream(captions)
        radix = len(self._vocabulary) + 2
        predicted = stream != radix - 1
        self._levels: list[_Level] = []
        history, histories = np.zeros(len(stream), np.int64), np.zeros(1, np.int64)
        for length in range(order):
            if length:
                histories = np.unique(history * radix + stream)
                history = _longer(history, stream, radix, histories)
            continuations, counts = np.unique(history[predicted] * radix + stream[predicted], return_counts=True)
            totals = np.bincount(history[predicted], minlength=len(histories))
            kinds = np.bincount(continuations // radix, minlength=len(histories))
            self._levels.append(_Level(histories, continuations, counts, totals, kinds))

    def score(self, captions: Sequence[str]) -> NDArray[np.float64]:
        """Score n captions, each independently of the others.

        Returns:
            float64 array of shape (n,), below 0: the mean natural logarithm of the probability of each unit and of
            the end of the caption; higher is more likely.
        """
        parts = [self._score(captions[start : start + _CHUNK]) for start in range(0, len(captions), _CHUNK)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _score(self, captions: Sequence[str]) -> NDArray[np.float64]:
        stream, lengths = self._stream(captions)
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

    def _units(self, caption: str) -> Sequence[str]:
        return _WORD.findall(caption) if self.unit == "word" else caption

    def _stream(self, captions: Sequence[str]) -> tuple[_Integers, _Integers]:
        """The indices of all units, each caption after order - 1 start marks, and each caption's length in these.

        ``len(self._vocabulary)`` is the index of unknown units, the one after it that of the start mark.
        """
        unknown, start = len(self._vocabulary), len(self._vocabulary) + 1
        numbers: list[int] = []
        lengths = []
        for caption in captions:
            before = len(numbers)
            numbers += [start] * (self.order - 1)
            numbers += [self._vocabulary.get(found, unknown) for found in self._units(caption)]
            numbers.append(self._vocabulary[_END])
            lengths.append(len(numbers) - before)
        return np.array(numbers, np.int64), np.array(lengths, np.int64)


def blind_scores(pairs: Sequence[Pair], name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score both captions of pairs by a language model of the positive captions of other images.

    The pairs are split into five parts (fewer, where there are fewer images), and each part is scored by a model of the
    distinct positive captions of the other parts. The pairs of one group (see `probes.group_pairs`) are in one part, so
    that no caption is scored by a model that was trained on it.

    Args:
        pairs: n pairs, of at least two images.
        name: one of ``BLIND_SCORERS``: ``"words"`` are trigrams of words and punctuation marks, ``"characters"``
            5-grams of characters.

    Returns:
        The scores of the positive captions and those of the negatives, float64 arrays of shape (n,), in nats per unit,
        below 0; see `NGramModel.score`. They do not depend on the order of the pairs.

    Raises:
        UnknownNameError: no such scorer.
        DataError: all pairs are of one image.
    """
    check_known("blind scorer", [name], BLIND_SCORERS)
    unit, order = BLIND_SCORERS[name]
    positive, negative = np.empty(len(pairs)), np.empty(len(pairs))
    for inside, outside in _parts(pairs):
        model = NGramModel(list({pairs[row].positive for row in outside}), unit=unit, order=order)
        positive[inside] = model.score([pairs[row].positive for row in inside])
        negative[inside] = model.score([pairs[row].negative for row in inside])
    return positive, negative


def _parts(pairs: Sequence[Pair]) -> Iterator[tuple[_Integers, _Integers]]:
    """The rows of each part, and all other rows."""
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


def _longer(history: _Integers, stream: _Integers, radix: int, histories: _Integers) -> _Integers:
    """The index of the history that is one unit longer, for each position; -1 where it was never seen.

    The first positions, which are start marks, take theirs from the end of the stream; these are not used.
    """
    known = history >= 0
    keys = np.where(known, history * radix + stream, -1)
    return _find(histories, np.roll(keys, 1))


def _find(among: _Integers, keys: _Integers) -> _Integers:
    """The index of each key in a sorted array; -1 for a key that is not in it."""
    places = np.minimum(np.searchsorted(among, keys), len(among) - 1)
    return np.where(among[places] == keys, places, -1)
