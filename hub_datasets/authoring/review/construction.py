"""Steps 1 to 4 of TRICD's annotation: people spot what surprises in images, others rate it, find a second image with a
contrasting caption, and check both directions.

Source: TRICD (Kamath, Price et al., 2023), section 4.1.1 and Figures 3, 4, 11 and 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from ....metrics.common.errors import DataError, check_known
from ..data.tables import read_records
from ..text.phrases import differing_parts
from .journal import Answers, Decision
from .page import Option, ReviewPage, ReviewQuestion, Shown, Standing, decisions_on, plain
from .pictures import Pictures

KINDS = ("object", "relation")
AMBIGUOUS = "ambiguous"
# A proposal with a lower mean is discarded; each gets so many ratings, of people who did not spot it.
LEAST_MEAN = 2.5
RATERS = 3
_MOST_SPOTS = 9


class SpottingImage(NamedTuple):
    """An image in which something may be spotted."""

    id: str
    image: str


class SpottedProposal(NamedTuple):
    """A surprising object or relation of an image, as a caption; `by` is who spotted it, "" for nobody."""

    id: str
    image: str
    text: str
    kind: str
    by: str = ""


class Group(NamedTuple):
    """Two images and two captions, each true of only one of the images."""

    id: str
    kind: str
    image_0: str
    caption_0: str
    image_1: str
    caption_1: str


def check_group(group: Group) -> None:
    """Raise `DataError` if images or captions are equal, or relations differ in more than one part.

    Of relations "only one of the Subject, Verb, or Object differs" (section 4.1.1, step 3).
    """
    if group.image_0 == group.image_1:
        raise DataError("both images are the same; choose another")
    if group.caption_0.lower() == group.caption_1.lower():
        raise DataError("both captions are the same; write one that is not true of the first image")
    parts = differing_parts(group.caption_0, group.caption_1) if group.kind == "relation" else 1
    if parts > 1:
        raise DataError(
            f"the captions differ in {parts} parts; of a relation change only the subject, the verb or the object"
        )


def is_kept(ratings: Sequence[str]) -> bool:
    """Return whether the mean of a proposal's ratings is at least 2.5.

    The paper discards "those with a score lower than 2.5", and asks raters to filter out what is ambiguous or cannot be
    grounded; that decision counts as 0 here.
    """
    return bool(ratings) and fmean(0 if rating == AMBIGUOUS else int(rating) for rating in ratings) >= LEAST_MEAN


def read_proposals(path: str | Path) -> list[SpottedProposal]:
    """Read the proposals of a file of JSON lines; raises `DataError`."""
    proposals = read_records(path, SpottedProposal)
    check_known("kind of proposal", [proposal.kind for proposal in proposals], KINDS)
    return proposals


def _spotted(items: Sequence[SpottingImage], standing: Standing, pictures: Pictures) -> list[SpottedProposal]:
    proposals = []
    for item in items:
        for decision in decisions_on(item.id, standing)[:1]:
            spots = [(kind, text) for kind in KINDS for text in decision.answer(kind).split("\n") if text]
            proposals += [
                SpottedProposal(f"{item.id}/{number}", item.image, text, kind, decision.annotator)
                for number, (kind, text) in enumerate(spots)
            ]
    return proposals


def _check_spots(item: SpottingImage, answers: Answers) -> None:
    if answers["decision"] == "something" and not any(answers[kind] for kind in KINDS):
        raise DataError("write an object or a relation, each in a line; or choose that nothing is surprising")


def _well_rated(items: Sequence[SpottedProposal], standing: Standing, pictures: Pictures) -> list[SpottedProposal]:
    return [
        item for item in items if is_kept([decision.answer("rating") for decision in decisions_on(item.id, standing)])
    ]


def _group(item: SpottedProposal, image: str, answers: Answers) -> Group:
    return Group(item.id, item.kind, image, item.text, answers["image"], answers["caption"])


def _crossed(items: Sequence[SpottedProposal], standing: Standing, pictures: Pictures) -> list[Group]:
    """Return the pair that was found first for each proposal."""
    pairs = [(item, decision) for item in items for decision in _by_time(item.id, standing, "pair")[:1]]
    return [_group(item, pictures.name(item.image), decision.answers or {}) for item, decision in pairs]


def _checked(items: Sequence[Group], standing: Standing, pictures: Pictures) -> list[Group]:
    """Return the groups that more than half of their annotators keep, with the captions of the first of these."""
    groups = []
    for item in items:
        approvals = _by_time(item.id, standing, "keep", "fix")
        if 2 * len(approvals) > len(decisions_on(item.id, standing)):
            captions = {name: approvals[0].answer(name) for name in ("caption_0", "caption_1")}
            groups.append(item._replace(**{name: text for name, text in captions.items() if text}))
    return groups


def _by_time(id: str, standing: Standing, *choices: str) -> list[Decision]:
    """Return the decisions on an item that are one of these choices, the first one first."""
    decisions = [each for each in decisions_on(id, standing) if each.answer("decision") in choices]
    return sorted(decisions, key=lambda decision: decision.time)


def _check_cross(item: SpottedProposal, answers: Answers) -> None:
    if answers["decision"] == "pair":
        check_group(_group(item, item.image, answers))


def _check_captions(item: Group, answers: Answers) -> None:
    check_group(item._replace(**{name: text for name, text in answers.items() if name != "decision"}))


def _cross_questions(item: SpottedProposal) -> tuple[ReviewQuestion, ...]:
    rule = ": change only one of subject, verb and object" if item.kind == "relation" else ""
    title = "Is there a similar image for which a contrasting caption can be written?"
    pair = Option("pair", "A pair: neither caption is true of the other image", "1")
    return (
        ReviewQuestion("decision", title, (pair, Option("none", "No image fits", "0"))),
        ReviewQuestion("image", "The second image", kind="image", needed_for=("pair",)),
        ReviewQuestion("caption", f"A caption of the second image{rule}", kind="text", needed_for=("pair",)),
    )


_LINES = partial(ReviewQuestion, kind="text", needed_for=("something",), lines=_MOST_SPOTS)
_CAPTION = partial(ReviewQuestion, kind="text", needed_for=("fix",))

SPOT = ReviewPage(
    title="Spot what surprises",
    read=lambda path: read_records(path, SpottingImage),
    show=lambda item: Shown((), (item.image,)),
    questions=lambda item: (
        ReviewQuestion(
            "decision",
            "What is surprising in this image? Look at small and unimportant things, too.",
            (Option("something", "An object or a relation", "1"), Option("nothing", "Nothing", "0")),
        ),
        _LINES("object", "Surprising objects: out of place here, or very uncommon; each in a line"),
        _LINES("relation", "Surprising relations: a rare subject, verb and object; each in a line"),
    ),
    check=_check_spots,
    results=_spotted,
    per_item=1,
)
RATE = ReviewPage(
    title="Rate proposals",
    read=read_proposals,
    show=lambda item: Shown((plain(f"Proposed {item.kind}", item.text),), (item.image,)),
    questions=lambda item: (
        ReviewQuestion(
            "rating",
            f"How surprising is this {item.kind} in the image?",
            (
                *(Option(key, {"0": "not at all", "5": "very"}.get(key, key), key) for key in "012345"),
                Option(AMBIGUOUS, "Ambiguous, or no box can be drawn", "x"),
            ),
        ),
    ),
    results=_well_rated,
    per_item=RATERS,
    author=lambda item: item.by,
)
CROSS = ReviewPage(
    title="Find a contrasting image",
    read=read_proposals,
    show=lambda item: Shown((plain(f"First caption ({item.kind})", item.text),), (item.image,)),
    questions=_cross_questions,
    check=_check_cross,
    results=_crossed,
    per_item=1,
)
CHECK = ReviewPage(
    title="Check both directions",
    read=lambda path: read_records(path, Group),
    show=lambda item: Shown(
        (plain(f"First image ({item.kind})", item.caption_0), plain("Second image", item.caption_1)),
        (item.image_0, item.image_1),
    ),
    questions=lambda item: (
        ReviewQuestion(
            "decision",
            "Is each caption true of its image, and of that alone?",
            (Option("keep", "Keep", "1"), Option("drop", "Drop", "2"), Option("fix", "Keep with other captions", "3")),
        ),
        _CAPTION("caption_0", "Caption of the first image", start=item.caption_0),
        _CAPTION("caption_1", "Caption of the second image", start=item.caption_1),
    ),
    check=_check_captions,
    results=_checked,
    per_item=1,
)
