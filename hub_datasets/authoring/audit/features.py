"""Features of captions for the probes: their form, words, characters, parts of speech, and rarity of words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ....metrics.common.wording import words
from ..text.tagging import tag

# A sparse matrix of scipy, whose annotations lack the type of an indexed matrix.
Matrix: TypeAlias = Any

# The ends of a caption, in n-grams.
START, END = "⟨", "⟩"


class Features(NamedTuple):
    """Features of captions.

    Attributes:
        names: of the m features.
        values: sparse matrix of shape (captions, m).
        scaled: bool array of shape (m,): whether each is to be divided by its spread before training: true of measures,
            false of counts.
    """

    names: list[str]
    values: Matrix
    scaled: NDArray[np.bool_]


def formatting(captions: Sequence[str]) -> Features:
    """Return features of a caption's typing and length."""
    rows = [[float(measure(caption)) for measure in _FORMATS.values()] for caption in captions]
    return Features(list(_FORMATS), sparse.csr_matrix(rows), np.full(len(_FORMATS), True))


def word_counts(captions: Sequence[str]) -> Features:
    """Count words and pairs of neighbouring words, including markers for the ends of the caption."""
    return _counted(map(_named_grams, map(words, captions)))


def character_counts(captions: Sequence[str]) -> Features:
    """Count runs of two to four characters, exactly as typed, including markers for the ends of the caption."""
    texts = (f"{START}{caption}{END}" for caption in captions)
    return _counted(
        Counter(text[start : start + n] for n in (2, 3, 4) for start in range(len(text) - n + 1)) for text in texts
    )


def tag_counts(captions: Sequence[str]) -> Features:
    """Count parts of speech and pairs of neighbouring ones, by TextBlob."""
    return _counted(_named_grams(list(tagged.tags)) for tagged in tag(captions, "textblob"))


class Rarity:
    """The frequency of a caption's words in the captions of other folds.

    With fold k held out, the words of fold j are counted in the folds other than j and k, and the words of fold k in
    the folds other than k and the next. So training and held-out captions are compared with equally many captions, and
    no caption with itself.

    Args:
        captions: the texts.
        folds: int array, the fold of each, from 0; at least three folds.
    """

    names = ("mean log frequency of words", "log frequency of the rarest word", "words found nowhere else")

    def __init__(self, captions: Sequence[str], folds: NDArray[np.intp]) -> None:
        self._counts = _counted(Counter(words(caption)) for caption in captions).values
        self._folds = folds
        self._number = int(folds.max()) + 1
        parts = [self._counts[folds == fold].sum(axis=0) for fold in range(self._number)]
        self._per_fold = np.asarray(np.vstack(parts), dtype=np.float64)

    def held_out(self, fold: int) -> Features:
        """Return the features of all captions if that fold is held out."""
        values = np.empty((len(self._folds), len(self.names)))
        for training_fold in range(self._number):
            excluded = {fold, (fold + 1) % self._number if training_fold == fold else training_fold}
            rows = np.flatnonzero(self._folds == training_fold)
            counted = self._per_fold[
                [counted_fold for counted_fold in range(self._number) if counted_fold not in excluded]
            ].sum(axis=0)
            values[rows] = _rarity(self._counts[rows], counted)
        return Features(list(self.names), sparse.csr_matrix(values), np.full(len(self.names), True))


def _rarity(counts: Matrix, counted: NDArray[np.float64]) -> NDArray[np.float64]:
    log_frequency = np.log((counted + 0.5) / (counted.sum() + 1))
    lengths = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1)
    mean = counts @ log_frequency / lengths
    unseen = counts @ (counted == 0).astype(np.float64)
    rarest = np.zeros(counts.shape[0])
    filled = np.diff(counts.indptr) > 0
    if filled.any():
        rarest[filled] = np.minimum.reduceat(log_frequency[counts.indices], counts.indptr[:-1][filled])
    return np.column_stack([mean, rarest, unseen])


def _counted(captions: Iterable[Counter[str]]) -> Features:
    """Return a matrix of counts, with names in the order in which they first appear."""
    from sklearn.feature_extraction import DictVectorizer

    vectorizer = DictVectorizer(sort=False)
    matrix = vectorizer.fit_transform(list(captions))
    names = list(vectorizer.feature_names_)
    return Features(names, matrix, np.full(len(names), False))


def _named_grams(tokens: list[str]) -> Counter[str]:
    bounded = [START, *tokens, END]
    return Counter([*tokens, *map(" ".join, pairwise(bounded))])


_FORMATS: dict[str, Callable[[str], Any]] = {
    "full stop at the end": lambda text: text.rstrip().endswith("."),
    "another sign at the end": lambda text: text.rstrip()[-1:] not in ("", ".") and not text.rstrip()[-1].isalnum(),
    "white space at the ends": lambda text: text != text.strip(),
    "irregular white space inside": lambda text: text.strip() != " ".join(text.split()),
    "capital first letter": lambda text: text.lstrip()[:1].isupper(),
    "further capital letters": lambda text: sum(letter.isupper() for letter in text.lstrip()[1:]),
    "digits": lambda text: sum(letter.isdigit() for letter in text),
    "commas": lambda text: text.count(","),
    "hyphens": lambda text: text.count("-"),
    "apostrophes": lambda text: len(re.findall("['’]", text)),
    "quotation marks": lambda text: len(re.findall('["“”]', text)),
    "signs beyond ASCII": lambda text: sum(not letter.isascii() for letter in text),
    "length in characters": lambda text: len(text.strip()),
    "length in words": lambda text: len(text.split()),
    "characters per word": lambda text: len("".join(text.split())) / max(len(text.split()), 1),
}
