"""The declaration of a review page: what it shows of an item, what it asks, and what follows from the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.documents import Part
from .journal import Answers, Decision
from .pictures import Pictures

# An item and the decisions on it, in the order of the annotators' names.
Judged = tuple[Any, Sequence[Decision]]


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


@dataclass(frozen=True)
class ReviewPage:
    """A review page.

    Args:
        title: its title.
        instructions: what an annotator has to do, in one or two sentences.
        read: reads the items of a file or folder, at least one; each has an `id`.
        show: returns what the page shows of an item.
        questions: returns the questions about an item, at least one of them a choice.
        results: makes the rows of the results, dictionaries or named tuples.
        report: returns the agreement of the annotators, and what it means.
        check: raises `DataError` if an item cannot be answered in this way; the types of the answers are right.
        needs_images: whether an item without a readable image is an error.
    """

    title: str
    instructions: str
    read: Callable[[Path], Sequence[Any]]
    show: Callable[[Any], Shown]
    questions: Callable[[Any], Sequence[ReviewQuestion]]
    results: Callable[[Sequence[Judged], Pictures], Sequence[Any]]
    report: Callable[[Sequence[Judged]], list[Part]] = lambda judged: []
    check: Callable[[Any, Answers], None] = lambda item, answers: None
    needs_images: bool = True
