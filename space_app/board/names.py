"""Names of models: who owns one, and which nobody may take.

Names that look alike count as one: they have the same skeleton (Unicode Technical Standard 39, section 4), in which
each sign is replaced by the plainest one that it can be mistaken for. Case and separators do not count.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

from ...metrics.common.errors import SubmissionError
from ..storage.records import Submission
from .launch import SHIPPED

# Nothing is seen of them: fillers, joiners, selectors of variants, the blank braille cell.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)


# Latin letters in other forms: small capitals, with strokes and hooks, turned, in squares, as flags.
_LATIN = re.compile(r"(?:LATIN|SYMBOL)\b.* ?LETTER (?:[A-Z]+ )*([A-Z])(?: WITH .+)?$")
_BETWEEN_DIGITS = "\x1f"


def check_name(name: str, taken: Iterable[str]) -> None:
    """Check that a name can be told from all names that no submission may have.

    Args:
        name: the name.
        taken: names that stand on the leaderboard for people, for chance or for the models of publications.

    Raises:
        SubmissionError: it holds signs that cannot be seen or no letter or digit, or it looks like one of `taken` or
            like a model that ships with this package.
    """
    if _INVISIBLE.search(name) or not any(letter.isalnum() for letter in unicodedata.normalize("NFKC", name)):
        raise SubmissionError(
            f"the model's name {name!a} has signs that cannot be seen, or neither letter nor digit; write it with "
            "letters, digits and signs such as - / ."
        )
    for other in taken:
        if is_same_name(name, other):
            raise SubmissionError(
                f"the model's name {name!r} looks like {other!r}, which stands on the leaderboard for published "
                "values; choose another"
            )
    if skeletons(name.rpartition(",")[2]) & skeletons(SHIPPED):
        raise SubmissionError(f"the model's name {name!r} ends like those of the models {SHIPPED}; choose another")


def check_owner(name: str, user: str, stored: Iterable[Submission]) -> None:
    """Check that nobody else has submitted a model of this name, or of one that looks like it, before.

    A name belongs to the first user who submitted it with a verified name, for as long as a maintainer does not
    withdraw the submission. Where nobody logs in, names belong to nobody.

    Raises:
        SubmissionError: the name is another user's.
    """
    own = skeletons(name)
    for submission in stored:
        theirs = (submission.model or {}).get("name", "")
        released = submission.status == "withdrawn" and submission.reviewer != submission.user
        if submission.user and not released and own & skeletons(theirs):
            if submission.user == user:
                return
            raise SubmissionError(
                f"the model's name {name!r} is that of {theirs!r}, which {submission.user} has submitted first "
                f"({submission.id}); choose another name, or ask a maintainer if the model is yours"
            )


def is_same_name(first: str, second: str) -> bool:
    """Whether two names look alike."""
    return bool(skeletons(first) & skeletons(second))


@cache
def skeletons(name: str) -> frozenset[str]:
    """What a name looks like as it is written and in small letters; names look alike if they share one of the two.

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
    """The plainest text that a sign can be mistaken for; empty for punctuation that looks like no ASCII sign."""
    plain = _plainest().get(letter, letter)
    if plain.isascii():
        return plain
    found = _LATIN.search(unicodedata.name(plain[0], ""))
    return found[1] if found else plain if letter.isalnum() else ""


@cache
def _plainest() -> dict[str, str]:
    """For each sign that can be mistaken for others the prototype of Unicode's table of confusables."""
    from confusable_homoglyphs.confusables import confusables_data

    # The table has both directions: the sources of a prototype stand in its list, and it stands alone in theirs. Of two
    # signs that have only each other, the longer and then the lower one serves as the prototype.
    return {
        sign: min(sign, others[0]["c"], key=lambda text: (-len(text), text))
        if len(confusables_data[others[0]["c"]]) == 1
        else others[0]["c"]
        for sign, others in confusables_data.items()
        if len(sign) == 1 and len(others) == 1
    }
