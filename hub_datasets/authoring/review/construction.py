"""The page about pairs of images: each gets two phrases, which are true of one image alone.

Source: TRICD (Kamath, Price et al., 2023), section 4.1.1, steps 3 and 4, and Figure 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ....metrics.common.errors import DataError, check_known
from ..data.tables import SUFFIXES, read_records
from ..text.phrases import differing_parts
from .journal import Answers
from .page import Judged, Option, ReviewPage, ReviewQuestion, Shown
from .pictures import Pictures

KINDS = ("object", "relation")


class ImagePair(NamedTuple):
    """Two images and two phrases, each true of its image alone; `second_phrase` is empty until it is written."""

    id: str
    image: str
    second_image: str
    phrase: str
    second_phrase: str = ""
    kind: str = "object"


def read_image_pairs(path: str | Path) -> list[ImagePair]:
    """Read the pairs of a table (see `tables.read_rows`), at least one; the number of a row stands for a missing id.

    Raises:
        DataError: the table cannot be read, or a row lacks an image or the phrase.
        UnknownNameError: a kind that is not in ``KINDS``.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise DataError(
            f"--detection takes a table of pairs of images ({', '.join(SUFFIXES)}) with the columns image, "
            f"second_image and phrase, not {path}"
        )
    pairs = read_records(path, ImagePair)
    for pair in pairs:
        if not all(pair[:4]):
            raise DataError(f"{path}: expected two images and a phrase that are not empty, and got {pair}")
    if not pairs:
        raise DataError(f"{path} has no rows; give one for each pair of images")
    check_known("kind of phrase", [pair.kind for pair in pairs], KINDS)
    return pairs


def check_pair(pair: ImagePair) -> None:
    """Raise `DataError` if images or phrases are equal, or relations differ in more than one part.

    Of relations "only one of the Subject, Verb, or Object differs" (section 4.1.1, step 3).
    """
    if pair.image == pair.second_image:
        raise DataError("both images are the same; drop the pair")
    if pair.phrase.lower() == pair.second_phrase.lower():
        raise DataError("both phrases are the same; write one that is not true of the first image")
    parts = differing_parts(pair.phrase, pair.second_phrase) if pair.kind == "relation" else 1
    if parts > 1:
        raise DataError(
            f"the phrases differ in {parts} parts; of a relation change only the subject, the verb or the object"
        )


def _with_phrases(item: ImagePair, answers: Answers) -> ImagePair:
    return item._replace(phrase=answers["phrase"], second_phrase=answers["second_phrase"])


def _check(item: ImagePair, answers: Answers) -> None:
    if answers["decision"] == "keep":
        check_pair(_with_phrases(item, answers))


def _kept(judged: Sequence[Judged], pictures: Pictures) -> list[ImagePair]:
    """Return the pairs that more than half of their annotators keep, with the phrases of the first of these."""
    pairs = []
    for item, decisions in judged:
        approvals = [decision for decision in decisions if decision.answer("decision") == "keep"]
        if 2 * len(approvals) > len(decisions):
            first = min(approvals, key=lambda decision: decision.time)
            pairs.append(_with_phrases(item, first.answers or {}))
    return pairs


def _questions(item: ImagePair) -> tuple[ReviewQuestion, ...]:
    rule = "; change only one of subject, verb and object" if item.kind == "relation" else ""
    return (
        ReviewQuestion(
            "decision",
            "Is there a phrase for each image that is not true of the other?",
            (Option("keep", "Keep with these phrases", "1"), Option("drop", "Drop", "2")),
        ),
        ReviewQuestion("phrase", "First image", kind="text", needed_for=("keep",), start=item.phrase),
        ReviewQuestion(
            "second_phrase", f"Second image{rule}", kind="text", needed_for=("keep",), start=item.second_phrase
        ),
    )


PAGE = ReviewPage(
    title="Check both images",
    instructions="Each image has a phrase. Keep the pair if each phrase is true of its image and not of the other; you "
    "may change the phrases.",
    read=read_image_pairs,
    show=lambda item: Shown(
        ((f"First image ({item.kind})", [(item.phrase, "")]), ("Second image", [(item.second_phrase, "")])),
        (item.image, item.second_image),
    ),
    questions=_questions,
    results=_kept,
    check=_check,
)
