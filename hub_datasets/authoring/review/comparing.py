"""The page on which people compare two sets of hard negatives: of two negatives of one caption, which one makes more
sense, and which one is better English?

Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), appendix D.2 and Table 9: 100 sampled captions
of each kind, two questions, a tie allowed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ....metrics.common.documents import Part, simple_table
from ....metrics.common.errors import DataError
from ....metrics.common.formatting import MISSING, percent
from ....metrics.estimation.bootstrap import mean_intervals
from ..audit.comparison import joined_pairs, with_interval
from ..data.pairs import Pair
from ..data.tables import read_records, write_rows
from .agreement import agreement_parts
from .page import Option, ReviewPage, ReviewQuestion, Shown, Standing, plain
from .pictures import Pictures

ITEMS_FILE = "comparisons.jsonl"
TIE = "tie"
QUESTIONS = {"makes more sense": "Which one makes more sense?", "is better English": "Which one is better English?"}
SAMPLE = 100
_RESAMPLES = 2_000


class NegativeComparison(NamedTuple):
    """Two negatives of a caption, one of each set; `set_a` and `set_b` are never shown to the annotators."""

    id: str
    kind: str
    caption: str
    a: str
    b: str
    set_a: str
    set_b: str


class _ComparisonAnswer(NamedTuple):
    """The set whose negative an annotator chose, or ``"tie"``."""

    id: str
    kind: str
    annotator: str
    question: str
    chosen: str


def draw_comparisons(
    first: Sequence[Pair], second: Sequence[Pair], names: tuple[str, str], *, sample: int = SAMPLE, seed: int = 0
) -> list[NegativeComparison]:
    """Draw comparisons of two sets' negatives of the same captions, in random order and on random sides.

    Args:
        first, second: the pairs of both sets, joined as by `audit.comparison.compare`.
        names: of the two sets; they must differ.
        sample: the largest number of each kind, at least 1. Pairs of equal negatives are not drawn: they are ties.
        seed: of the draws.

    Raises:
        DataError: equal names, nothing in common, or a sample of less than one.
    """
    if names[0] == names[1] or TIE in names or sample < 1:
        raise DataError(f"expected two sets and a sample from 1, and got {names[0]!r}, {names[1]!r} and {sample}")
    generator, comparisons = random.Random(seed), list[NegativeComparison]()
    for kind, joined in joined_pairs(first, second)[0].items():
        partners = [(first[row], second[partner]) for row, partner in joined]
        differ = [(pair, partner) for pair, partner in partners if pair.negative != partner.negative]
        for pair, partner in generator.sample(differ, min(sample, len(differ))):
            sides = [(pair.negative, names[0]), (partner.negative, names[1])]
            generator.shuffle(sides)
            (a, set_a), (b, set_b) = sides
            comparisons.append(NegativeComparison(f"{pair.id}/{partner.id}", kind, pair.positive, a, b, set_a, set_b))
    if not comparisons:
        raise DataError(
            f"{names[0]} and {names[1]} have no caption in common with different negatives of the same kind"
        )
    generator.shuffle(comparisons)
    return comparisons


def prepare(
    pairs: Callable[[], Sequence[Sequence[Pair]]], names: tuple[str, str], folder: Path, *, sample: int, seed: int
) -> Path:
    """Return the file of comparisons in a folder, which is drawn at the first call and kept from then on.

    Args:
        pairs: a function without arguments that reads the pairs of both sets; not called if the file is there.
        names, sample, seed: see `draw_comparisons`.

    Raises:
        DataError: the file that is there compares other sets.
    """
    path = folder / ITEMS_FILE
    if not path.exists():
        first, second = pairs()
        write_rows(draw_comparisons(first, second, names, sample=sample, seed=seed), path)
    there = {name for item in read_comparisons(path) for name in (item.set_a, item.set_b)}
    if there != set(names):
        raise DataError(f"{path} compares {' and '.join(sorted(there))}, not {' and '.join(names)}; give another --out")
    return path


def read_comparisons(path: str | Path) -> list[NegativeComparison]:
    """Read the comparisons of a file, or of `ITEMS_FILE` in a folder; raises `DataError`."""
    path = Path(path)
    return read_records(path / ITEMS_FILE if path.is_dir() else path, NegativeComparison)


def _answers(
    items: Sequence[NegativeComparison], standing: Standing, pictures: Pictures | None = None
) -> list[_ComparisonAnswer]:
    answers = []
    for name, decisions in standing.items():
        for item in items:
            set_of = {"A": item.set_a, "B": item.set_b, TIE: TIE}
            for question in QUESTIONS if item.id in decisions else ():
                chosen = set_of[decisions[item.id].answer(question)]
                answers.append(_ComparisonAnswer(item.id, item.kind, name, question, chosen))
    return answers


def _report(items: Sequence[NegativeComparison], standing: Standing) -> list[Part]:
    """Return which set's negatives people prefer, by kind and question, and how far the annotators agree."""
    first, second = sorted({name for item in items for name in (item.set_a, item.set_b)})
    names, answers = (first, TIE, second), _answers(items, standing)
    row_of = {item.id: row for row, item in enumerate(items)}
    rows = []
    for question in QUESTIONS:
        for kind, of_kind in Counter(item.kind for item in items).items():
            of_question = [answer for answer in answers if (answer.question, answer.kind) == (question, kind)]
            codes, clusters = np.unique([row_of[answer.id] for answer in of_question], return_inverse=True)
            shares = [MISSING] * len(names)
            if of_question:
                columns = [np.array([answer.chosen == name for answer in of_question], np.float64) for name in names]
                intervals = mean_intervals(columns, clusters, 0.95, _RESAMPLES, 0)
                figures = zip((values.mean() for values in columns), intervals, strict=True)
                shares = [with_interval({"mean": mean, "interval": bounds}, percent) for mean, bounds in figures]
            rows.append([question, kind, f"{len(of_question):,}", f"{len(codes):,}", *shares])
            rows[-1].append(f"{of_kind - len(codes):,}")
    votes = {question: {name: dict[str, str]() for name in standing} for question in QUESTIONS}
    for answer in answers:
        votes[answer.question][answer.annotator][answer.id] = answer.chosen
    return [
        simple_table(["which one", "kind", "answers", "captions", *names, "unanswered"], rows, numbers=True),
        "Shares of answers in per cent, with 95 % intervals from resampling captions.",
        *agreement_parts(votes),
    ]


# The names of the two sets are not shown.
PAGE = ReviewPage(
    title="Compare two negatives",
    read=read_comparisons,
    show=lambda item: Shown((plain("Two changed versions of", item.caption), plain("A", item.a), plain("B", item.b))),
    questions=lambda item: [
        ReviewQuestion(name, title, (Option("A", "A", "a"), Option("B", "B", "b"), Option(TIE, "Tie", "t")))
        for name, title in QUESTIONS.items()
    ],
    results=_answers,
    report=_report,
)
