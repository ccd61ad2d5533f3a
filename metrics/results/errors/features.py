"""Features of examples, such as categories and words, and how often each model errs on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ...common.wording import mark_changes, words
from ...estimation.association import Association, associations
from ...estimation.paired import holm
from ...records.schema import DetectionRow, RetrievalRow, Row, TextSimilarityRow, VQARow
from .outcomes import TaskErrors, phrase_numbers

# Features of fewer clusters (images), or that fewer lack, are not tested, nor words beyond the most frequent.
LEAST_CLUSTERS = 10
MOST_WORDS = 300
CATEGORY = "category"
# Computed once for features and cards.
marked = lru_cache(maxsize=1 << 16)(mark_changes)
_POSITIVE, _NEGATIVE = "only in the positive caption", "only in the negative caption"
_BOTH, _ANY, _PHRASE = "in both captions", "in the caption or question", "in the phrase"
_WORD_KINDS = (_POSITIVE, _NEGATIVE, _BOTH, _ANY, _PHRASE)


class Feature(NamedTuple):
    """A property that some examples share, such as a word: its kind, and its name within that."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"“{self.name}” {self.kind}" if self.kind in _WORD_KINDS else f"{self.kind}: {self.name}"


def find_associations(task: TaskErrors, confidence: float) -> list[dict[Feature, Association]]:
    """Return for each model the association of its errors with every feature that can be tested.

    p-values are corrected for all features of the model and task. Categories are compared with all examples, other
    features within categories.
    """
    features, matrix = _features(task)
    wholes = [column for column, feature in enumerate(features) if feature.kind == CATEGORY]
    details = [column for column, feature in enumerate(features) if feature.kind != CATEGORY]
    categories = np.unique([names[0] for names in task.categories], return_inverse=True)[1]
    by_model = []
    for model in task.models:
        scored = np.flatnonzero(~np.isnan(model.losses))
        errors, clusters = model.errs[scored], task.clusters[scored]
        tests: dict[Feature, Association] = {}
        for columns, strata in ((wholes, None), (details, categories[scored])):
            associated = associations(errors, matrix[scored][:, columns], clusters, strata, confidence)
            for column, test in zip(columns, associated, strict=True):
                if min(test.clusters, test.other_clusters) >= LEAST_CLUSTERS:
                    tests[features[column]] = test
        corrected = holm([test.p_value for test in tests.values()]).tolist()
        pairs = zip(tests.items(), corrected, strict=True)
        by_model.append({feature: test._replace(p_value_holm=p_holm) for (feature, test), p_holm in pairs})
    return by_model


def split_captions(task: TaskErrors, row: Row) -> tuple[list[str], list[str]]:
    """Split the captions of a row into correct and other captions; for groups, by the first and the second image.

    For text similarity, the captions that mean the same come first.
    """
    captions = list(task.data.captions.get(row.id, ()))
    if isinstance(row, VQARow):
        return [row.question], []
    if isinstance(row, DetectionRow | RetrievalRow):
        return captions, []
    if isinstance(row, TextSimilarityRow):
        return captions[:2], captions[2:]
    split = 1 if len(row.images) > 1 else task.positive_captions
    return captions[:split], captions[split:]


def _features(task: TaskErrors) -> tuple[list[Feature], Any]:
    """Return the features, and whether each example (row) has each feature (column)."""
    listed = [
        set(_of_example(task, row, part, categories))
        for row, (_, part), categories in zip(task.rows, task.keys, task.categories, strict=True)
    ]
    counted = Counter(feature for entry in listed for feature in entry)
    common: Counter[str] = Counter()
    columns: dict[Feature, int] = {}
    for feature, _ in sorted(counted.items(), key=lambda entry: (-entry[1], entry[0])):
        common[feature.kind] += 1
        if feature.kind not in _WORD_KINDS or common[feature.kind] <= MOST_WORDS:
            columns[feature] = len(columns)
    cells_of = [(row, columns[feature]) for row, entry in enumerate(listed) for feature in entry if feature in columns]
    rows, cells = np.array(cells_of, dtype=np.intp).reshape(-1, 2).T
    matrix = csr_array((np.ones(len(rows)), (rows, cells)), shape=(len(task), len(columns)))
    return list(columns), matrix


def _of_example(task: TaskErrors, row: Row, part: str, categories: Sequence[str]) -> Iterator[Feature]:
    yield from (Feature(CATEGORY, name) for name in categories)
    positives, negatives = split_captions(task, row)
    if isinstance(row, VQARow):
        yield Feature("label", "yes" if row.correct else "no")
    if isinstance(row, DetectionRow):
        phrases = (row.phrases[number]["text"] for number in phrase_numbers(row, part))
        yield from (Feature(_PHRASE, word) for phrase in phrases for word in words(phrase))
    elif negatives:
        pairs = [marked(positives[0], negative) for negative in negatives]
        only_positive, only_negative = ({word for pair in pairs for word in _changed(pair[side])} for side in (0, 1))
        yield from (Feature(_POSITIVE, word) for word in only_positive)
        yield from (Feature(_NEGATIVE, word) for word in only_negative)
        shared = {word for caption in positives for word in words(caption)} - only_positive - only_negative
        yield from (Feature(_BOTH, word) for word in shared)
    else:
        yield from (Feature(_ANY, word) for caption in positives for word in words(caption))


def _changed(segments: Sequence[tuple[str, bool]]) -> list[str]:
    return [word for text, differs in segments if differs for word in words(text)]
