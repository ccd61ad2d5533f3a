"""Blind scorers that need no weights: n-gram language models, trained on the positive captions of the other images."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

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
# No unit is empty.
_START, _END = None, ""
_FOLDS = 5
_Rows = NDArray[np.int64]


class NGramModel:
    """An interpolated n-gram language model of captions, which does not depend on their order.

    Probabilities are interpolated with the weights of Witten and Bell: P(w | h) = (c(h w) + t(h) P(w | h')) /
    (c(h) + t(h)), where h' is the history h without its first unit and t(h) the number of distinct units after h. The
    lowest level is uniform over the known units, the end of a caption, and one for all unknown units.

    Args:
        captions: at least one text, which is not normalised: case and white space may give a caption away.
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
        followers: dict[tuple[str | None, ...], Counter[str | None]] = defaultdict(Counter)
        for caption in captions:
            units = self._padded(caption)
            for index in range(order - 1, len(units)):
                for start in range(index - order + 1, index + 1):
                    followers[units[start:index]][units[index]] += 1
        # The units that followed each history, and how many did.
        self._followers = {history: (counts, counts.total()) for history, counts in followers.items()}
        self._unknown = 1 / (len(followers[()]) + 1)

    def score(self, captions: Sequence[str]) -> NDArray[np.float64]:
        """Score n captions, each independently of the others.

        Returns:
            float64 array of shape (n,), below 0: the mean natural logarithm of the probability of each unit and of
            the end of the caption; higher is more likely.
        """
        logarithms = ([*map(math.log, self._probabilities(self._padded(caption)))] for caption in captions)
        # Summed exactly, so that captions of the same probabilities in another order tie.
        return np.fromiter((math.fsum(values) / len(values) for values in logarithms), np.float64, len(captions))

    def _padded(self, caption: str) -> tuple[str | None, ...]:
        units = _WORD.findall(caption) if self.unit == "word" else caption
        return *[_START] * (self.order - 1), *units, _END

    def _probabilities(self, units: tuple[str | None, ...]) -> Iterator[float]:
        for index in range(self.order - 1, len(units)):
            probability = self._unknown
            for start in range(index, index - self.order, -1):
                if (followers := self._followers.get(units[start:index])) is None:
                    break
                counts, total = followers
                probability = (counts.get(units[index], 0) + len(counts) * probability) / (total + len(counts))
            yield probability


def blind_scores(pairs: Sequence[Pair], name: str) -> NDArray[np.float64]:
    """Score both captions of pairs with a language model of the positive captions of other images.

    The pairs are split into five parts (fewer if there are fewer images), and each part is scored by a model of the
    distinct positive captions of the other parts. The pairs of one group (see `probes.group_pairs`) are in one part, so
    that no caption is scored by a model that was trained on it.

    Args:
        pairs: n pairs, of at least two images.
        name: one of ``BLIND_SCORERS``: ``"words"`` are trigrams of words and punctuation marks, ``"characters"``
            5-grams of characters.

    Returns:
        The scores of the positive and the negative captions, float64 of shape (n, 2), in nats per unit, below 0; see
        `NGramModel.score`. They do not depend on the order of the pairs.

    Raises:
        UnknownNameError: no such scorer.
        DataError: all pairs are of one image.
    """
    check_known("blind scorer", [name], BLIND_SCORERS)
    unit, order = BLIND_SCORERS[name]
    scores = np.empty((len(pairs), 2))
    for inside, outside in _parts(pairs):
        model = NGramModel(list({pairs[row].positive for row in outside}), unit=unit, order=order)
        scores[inside, 0] = model.score([pairs[row].positive for row in inside])
        scores[inside, 1] = model.score([pairs[row].negative for row in inside])
    return scores


def _parts(pairs: Sequence[Pair]) -> Iterator[tuple[_Rows, _Rows]]:
    """Yield the rows of each part, and all other rows."""
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
    part_of_row = part_of[groups]
    for number in range(min(_FOLDS, len(first))):
        yield np.flatnonzero(part_of_row == number), np.flatnonzero(part_of_row != number)
