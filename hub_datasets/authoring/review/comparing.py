"""People compare two sets of hard negatives: of two negatives of one caption, which one makes more sense, and which one
is better English?

Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), appendix D.2 and Table 9: 100 sampled captions
of each kind, two questions, a tie allowed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....metrics.common.documents import Part, simple_table
from ....metrics.common.errors import DataError
from ....metrics.common.formatting import percent
from ....metrics.statistics.bootstrap import mean_intervals
from ..audit.comparison import joined_pairs
from ..data.pairs import Pair
from ..data.records import read_records
from ..data.tables import write_rows
from .agreement import agree_on, cells, remarks
from .desk import Desk
from .journal import Entry, Key

ITEMS_FILE, JOURNAL_FILE = "COMPARISONS.jsonl", "COMPARED.jsonl"
SIDES, TIE = ("A", "B"), "tie"
DECISIONS = (*SIDES, TIE)
QUESTIONS = {"makes more sense": "Which one makes more sense?", "is better English": "Which one is better English?"}
SAMPLE = 100
_RESAMPLES = 2_000


class Comparison(NamedTuple):
    """Two negatives of a caption, one of each set; `set_a` and `set_b` are never shown to the annotators."""

    id: str
    kind: str
    caption: str
    a: str
    b: str
    set_a: str
    set_b: str
    image: str = ""

    def chosen(self, decision: str) -> str:
        """The name of the set whose negative was chosen, or ``"tie"``."""
        return {"A": self.set_a, "B": self.set_b}.get(decision, TIE)


def draw_comparisons(
    first: Sequence[Pair], second: Sequence[Pair], names: tuple[str, str], *, sample: int = SAMPLE, seed: int = 0
) -> list[Comparison]:
    """Comparisons of two sets' negatives of the same captions, in random order and on random sides.

    Args:
        first, second: the pairs of both sets, joined as by `audit.comparison.compare`.
        names: of the two sets; they must differ.
        sample: at most so many of each kind, one or more. Pairs of equal negatives are not drawn: they are ties.
        seed: of the draws.

    Raises:
        DataError: equal names, nothing in common, or a sample of less than one.
    """
    if names[0] == names[1] or TIE in names or sample < 1:
        raise DataError(f"expected two sets and a sample from 1, and got {names[0]!r}, {names[1]!r} and {sample}")
    generator, found = random.Random(seed), list[Comparison]()
    for kind, places in joined_pairs(first, second)[0].items():
        differ = [(first[row], second[other]) for row, other in places if first[row].negative != second[other].negative]
        for own, other in generator.sample(differ, min(sample, len(differ))):
            sides = [(own.negative, names[0]), (other.negative, names[1])]
            generator.shuffle(sides)
            (a, set_a), (b, set_b) = sides
            found.append(Comparison(f"{own.id}/{other.id}", kind, own.positive, a, b, set_a, set_b))
    if not found:
        raise DataError(
            f"{names[0]} and {names[1]} have no caption in common with different negatives of the same kind"
        )
    generator.shuffle(found)
    return found


def prepare(
    pairs: Callable[[], Sequence[Sequence[Pair]]], names: tuple[str, str], folder: Path, *, sample: int, seed: int
) -> Path:
    """The file of comparisons in a folder, drawn at the first call and kept from then on.

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


def read_comparisons(path: str | Path) -> list[Comparison]:
    """The comparisons of a file, or of `ITEMS_FILE` in a folder; raises `DataError`."""
    path = Path(path)
    return read_records(path / ITEMS_FILE if path.is_dir() else path, Comparison)


class CompareDesk(Desk):
    """The requests of the page on which two negatives are compared; see `Desk`.

    A view has the caption, both negatives, the questions and this annotator's answers, not the sets' names.
    """

    title, script = "Compare two negatives", "review_compare.js"

    def __init__(self, items: Sequence[Comparison], *args: Any) -> None:
        shown = {(item.id, number): f"{item.a}\n{item.b}" for item in items for number in range(len(QUESTIONS))}
        super().__init__(items, shown, *args)

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Record ``{"annotator", "id", "question", "decision"}``; after the last question the next item is shown.

        Raises:
            UnknownNameError, DataError: another decision or question.
        """
        annotator, index, item, decision = self._asked(request, DECISIONS)
        question = request.get("question")
        if type(question) is not int or question not in range(len(QUESTIONS)):
            raise DataError(f"there are questions 0 to {len(QUESTIONS) - 1}, and {question!r} came")
        self.journal.decide(Entry("", annotator, item.id, decision, shown=f"{item.a}\n{item.b}", phrase=question))
        is_done = self._is_done(self._entries(annotator), index)
        return self._next(annotator, index) if is_done else self._view(annotator, index)

    def agreement(self) -> list[Part]:
        """Which set's negatives people prefer, by kind and question, and how far the annotators agree."""
        standing = self.journal.standing(self._shown)
        people = ", ".join(f"{name} ({len(own):,})" for name, own in standing.items()) or "nobody yet"
        parts: list[Part] = [
            f"Answers by annotator: {people}; {len(QUESTIONS)} for each of {len(self.items):,} captions."
        ]
        first, second = sorted({name for item in self.items for name in (item.set_a, item.set_b)})
        rows = [
            self._shares(standing, number, kind, (first, TIE, second))
            for number in range(len(QUESTIONS))
            for kind in dict.fromkeys(item.kind for item in self.items)
        ]
        header = ["which one", "kind", "answers", "captions", first, TIE, second, "unanswered"]
        parts.append(simple_table(header, rows, numbers=True))
        parts.append("Shares of answers in per cent, with 95 % intervals from resampling captions.")
        if len(standing) < 2:
            return [*parts, "Agreement needs two annotators."]
        found = [
            agree_on(question, {name: self._votes(own, number) for name, own in standing.items()})
            for number, question in enumerate(QUESTIONS)
        ]
        titles, *lines = cells(found)
        return [*parts, simple_table(titles, lines, numbers=True), *remarks(found)]

    def _votes(self, entries: Mapping[Key, Entry], number: int) -> dict[str, str]:
        return {
            item.id: item.chosen(entries[item.id, number].decision)
            for item in self.items
            if (item.id, number) in entries
        }

    def _shares(
        self, standing: Mapping[str, Mapping[Key, Entry]], number: int, kind: str, names: Sequence[str]
    ) -> list[str]:
        places = {item.id: place for place, item in enumerate(self.items) if item.kind == kind}
        votes = [
            (places[id], vote)
            for own in standing.values()
            for id, vote in self._votes(own, number).items()
            if id in places
        ]
        answered = len({place for place, _ in votes})
        title = [list(QUESTIONS)[number], kind, f"{len(votes):,}", f"{answered:,}"]
        shares = ["–"] * len(names)
        if votes:
            columns = [np.array([vote == name for _, vote in votes], np.float64) for name in names]
            clusters = np.unique([place for place, _ in votes], return_inverse=True)[1]
            intervals = mean_intervals(columns, clusters, 0.95, _RESAMPLES, 0)
            shares = [
                percent(float(each.mean())) + (f" [{percent(bounds[0])}, {percent(bounds[1])}]" if bounds else "")
                for each, bounds in zip(columns, intervals, strict=True)
            ]
        return [*title, *shares, f"{len(places) - answered:,}"]

    def _export(self, path: Path) -> str:
        rows = [
            _Answer(item.id, item.kind, name, question, item.chosen(own[item.id, number].decision))
            for name, own in self.journal.standing(self._shown).items()
            for item in self.items
            for number, question in enumerate(QUESTIONS)
            if (item.id, number) in own
        ]
        write_rows(rows, path)
        return f"{len(rows):,} answers written to {path}"

    def _is_done(self, entries: Mapping[Key, Entry], index: int) -> bool:
        return all((self.items[index].id, number) in entries for number in range(len(QUESTIONS)))

    def _content(self, entries: Mapping[Key, Entry], index: int) -> dict[str, Any]:
        item = self.items[index]
        found = [entries.get((item.id, number)) for number in range(len(QUESTIONS))]
        return {
            "caption": item.caption,
            "a": item.a,
            "b": item.b,
            "questions": list(QUESTIONS.values()),
            "answers": [entry.decision if entry else "" for entry in found],
        }


class _Answer(NamedTuple):
    id: str
    kind: str
    annotator: str
    question: str
    chosen: str
