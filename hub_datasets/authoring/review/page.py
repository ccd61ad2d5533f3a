"""The declaration of a review page: what it shows of an item, what it asks, and what follows from the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.documents import Part
from ..data.tables import write_rows
from .journal import Answers, Decision
from .pictures import Pictures

# Decisions by annotator and item; and those on one item, in the order of the annotators' names.
Standing = Mapping[str, Mapping[str, Decision]]


class Option(NamedTuple):
    """A possible answer to a choice: the value in the journal, its label, and the key that chooses it."""

    value: str
    label: str
    key: str


@dataclass(frozen=True)
class ReviewQuestion:
    """A question about an item.

    A choice has options. All other questions are fields, which are asked after a choice that needs them.

    Args:
        name: its key among the answers.
        title: its text on the page.
        options: of a choice.
        kind: of a field: ``"text"`` or ``"boxes"`` (on the first image of the item).
        needed_for: values of a choice that require the field.
        start: the initial text of the field.
    """

    name: str
    title: str
    options: tuple[Option, ...] = ()
    kind: str = "choice"
    needed_for: tuple[str, ...] = ()
    start: str = ""


class Shown(NamedTuple):
    """The content of an item that the page shows.

    Attributes:
        texts: each with a heading, and as segments with their mark: "" for none, "old" or "new".
        images: names of image files, at most two.
    """

    texts: tuple[tuple[str, Sequence[tuple[str, str]]], ...]
    images: tuple[str, ...] = ()


def plain(heading: str, text: str) -> tuple[str, Sequence[tuple[str, str]]]:
    """Return a text without marks, as `Shown` needs it."""
    return heading, [(text, "")]


def _write_results(rows: Sequence[Any], path: Path, pictures: Pictures) -> str:
    write_rows(rows, path)
    return f"{len(rows):,} rows written to {path}"


@dataclass(frozen=True)
class ReviewPage:
    """A review page.

    Args:
        title: its title.
        read: reads the items of a file or folder; each has an `id`.
        show: returns what the page shows of an item.
        questions: returns the questions about an item, at least one of them a choice.
        results: makes the rows of the export, named tuples or dictionaries, from the items, the decisions and the
            images.
        check: raises `DataError` if an item cannot be answered in this way; the types of the answers are right.
        report: returns the agreement of the annotators, and what it means.
        per_item: how many annotators decide on an item; 0 for everybody.
        needs_images: whether an item without a readable image is an error.
        export: writes the results to a file and returns a summary.
    """

    title: str
    read: Callable[[Path], Sequence[Any]]
    show: Callable[[Any], Shown]
    questions: Callable[[Any], Sequence[ReviewQuestion]]
    results: Callable[[Sequence[Any], Standing, Pictures], Sequence[Any]]
    check: Callable[[Any, Answers], None] = lambda item, answers: None
    report: Callable[[Sequence[Any], Standing], list[Part]] = lambda items, standing: []
    per_item: int = 0
    needs_images: bool = False
    export: Callable[[Sequence[Any], Path, Pictures], str] = _write_results


def decisions_on(id: str, standing: Standing) -> list[Decision]:
    """Return the decisions of all annotators on an item."""
    return [decisions[id] for decisions in standing.values() if id in decisions]
