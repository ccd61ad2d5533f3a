"""Names of models: who owns a name, and which names are reserved.

Names that look the same count as one name: they have the same skeleton (Unicode Technical Standard 39, section 4), in
which each confusable character is replaced by its prototype. Case and separators do not count.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

from ...metrics.common.errors import SubmissionError
from ..storage.records import Submission
from .launch import SHIPPED

# Characters that cannot be seen: fillers, joiners, selectors of variants, the blank braille cell.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)


# Latin letters in other forms: small capitals, with strokes and hooks, turned, in squares, as flags.
_LATIN = re.compile(r"(?:LATIN|SYMBOL)\b.* ?LETTER (?:[A-Z]+ )*([A-Z])(?: WITH .+)?$")
_BETWEEN_DIGITS = "\x1f"


def check_name(name: str, taken: Iterable[str]) -> None:
    """Check that a name cannot be confused with a reserved name.

    Args:
        name: the name.
        taken: the leaderboard's names for people, for chance and for published models.

    Raises:
        SubmissionError: the name has invisible characters or no letter or digit, or looks like one of `taken` or like a
            model that ships with this package.
    """
    if _INVISIBLE.search(name) or not any(letter.isalnum() for letter in unicodedata.normalize("NFKC", name)):
        raise SubmissionError(
            f"the model's name {name!a} has signs that cannot be seen, or neither letter nor digit; write it with "
            "letters, digits and signs such as - / ."
        )
    for taken_name in taken:
        if is_same_name(name, taken_name):
            raise SubmissionError(
                f"the model's name {name!r} looks like {taken_name!r}, which stands on the leaderboard for published "
                "values; choose another"
            )
    if skeletons(name.rpartition(",")[2]) & skeletons(SHIPPED):
        raise SubmissionError(f"the model's name {name!r} ends like those of the models {SHIPPED}; choose another")


def check_owner(name: str, user: str, stored: Iterable[Submission]) -> None:
    """Check that no other user has submitted a model with this name, or with one that looks the same, before.

    A name belongs to the first user who submitted it with a verified name, for as long as a maintainer does not
    withdraw the submission. Where nobody logs in, names belong to nobody.

    Raises:
        SubmissionError: the name is another user's.
    """
    name_skeletons = skeletons(name)
    for submission in stored:
        theirs = (submission.model or {}).get("name", "")
        released = submission.status == "withdrawn" and submission.reviewer != submission.user
        if submission.user and not released and name_skeletons & skeletons(theirs):
            if submission.user == user:
                return
            raise SubmissionError(
                f"the model's name {name!r} is that of {theirs!r}, which {submission.user} has submitted first "
                f"({submission.id}); choose another name, or ask a maintainer if the model is yours"
            )


def is_same_name(first: str, second: str) -> bool:
    """Return whether two names look the same."""
    return bool(skeletons(first) & skeletons(second))


@cache
def skeletons(name: str) -> frozenset[str]:
    """Return the skeletons of a name and of its lower-case form; names look the same if they share one of the two.

    Spaces and punctuation count only between two digits.

    >>> sorted(skeletons("dem0_CLlP") & skeletons("Demo CLIP")), sorted(skeletons("v1.5") & skeletons("v15"))
    (['democllp'], [])
    """
    return frozenset(_skeleton(text) for text in (name, name.casefold()))


def _skeleton(text: str) -> str:
    text = re.sub(r"(?<=\d)[\W_]+(?=\d)", _BETWEEN_DIGITS, unicodedata.normalize("NFKC", text))
    plain = "".join(_plain(letter) for letter in unicodedata.normalize("NFD", text))
    return re.sub(rf"[^\w{_BETWEEN_DIGITS}]|_", "", plain).casefold()


def _plain(letter: str) -> str:
    """Return the plainest text that a character can be mistaken for; empty for punctuation unlike ASCII characters."""
    plain = _plainest().get(letter, letter)
    if plain.isascii():
        return plain
    match = _LATIN.search(unicodedata.name(plain[0], ""))
    return match[1] if match else plain if letter.isalnum() else ""


@cache
def _plainest() -> dict[str, str]:
    """Return Unicode's table of confusables: the prototype of each confusable character."""
    from confusable_homoglyphs.confusables import confusables_data

    # The table has both directions: the sources of a prototype stand in its list, and it stands alone in theirs. Of two
    # signs that have only each other, the longer and then the lower one serves as the prototype.
    return {
        sign: min(sign, prototypes[0]["c"], key=lambda text: (-len(text), text))
        if len(confusables_data[prototypes[0]["c"]]) == 1
        else prototypes[0]["c"]
        for sign, prototypes in confusables_data.items()
        if len(sign) == 1 and len(prototypes) == 1
    }
