"""Changes that restate their caption: with its content words, but other verb forms, prepositions or corrected typing.

People let many of these pass into SugarCrepe: "Four men playing Ultimate Frisbee in a park." became "A park playing
Ultimate Frisbee with four men." `checks` applies these rules to swaps and additions that are not exact to the word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..text.restated import (
    PREPOSITIONS,
    Content,
    count_breaks,
    respelled,
    restated,
    runs_of,
    share_of_breaks,
)
from ..text.tagging import tag
from ..text.words import count_shared, is_subsequence, split
from .rejected import Rejected

# Of SugarCrepe's swaps 98 % break at most this share of the neighbours, with the caption's very words or restated; of
# shuffled captions few do.
_MOST_BREAKS_SHARE = {"exact": 0.6, "restated": 0.9}
# Exchanging two parts makes at most four.
_MOST_BREAKS = 6
_MOST_PLACES = 2


def check_taken(wanted: list[str], filler: list[str]) -> None:
    """Reject a change without the new concept in some form: stand, standing."""
    if wanted and not any(word[:3] == each[:3] for word in wanted for each in filler):
        raise Rejected("wrong kind", f"{' '.join(wanted)!r} was to be put in, {' '.join(filler)!r} was")


def check_restated_swap(kind: str, caption: str, candidate: str) -> None:
    """Raise `Rejected` unless a text exchanges parts of the caption's content.

    The content words are the same, but for one that is lost or comes; they are in another order; and two parts have
    changed places, not around "and", nor neighbouring attributes, as the meaning would stay.
    """
    before, after = restated(caption, candidate)
    odd = set(before.words) ^ set(after.words)
    if len(odd) > 1:
        raise Rejected("wrong kind", f"other words than the caption's came or are missing: {', '.join(sorted(odd))}")
    old, new = ([word for word in each.words if word not in odd] for each in (before, after))
    if is_subsequence(old, new) or is_subsequence(new, old):
        raise Rejected("wrong kind", "nothing was exchanged")
    exact = split(caption).content, split(candidate).content
    has_same_words = Counter(exact[0]) == Counter(exact[1])
    most = _MOST_BREAKS_SHARE["exact" if has_same_words else "restated"]
    is_circle = has_same_words and _is_circle(*exact)
    if is_circle or not _is_exchange(old, new) or share_of_breaks(caption, candidate) > most:
        raise Rejected("not minimal", "more than two parts of the caption were exchanged")
    if not odd and _keeps_meaning(kind, before, after):
        raise Rejected("wrong kind", "exchanged around 'and', or neighbouring attributes")


def _is_exchange(before: list[str], after: list[str]) -> bool:
    """Whether two parts changed places, or a little more; or two words everywhere."""
    changed = _changed(before, after)
    is_everywhere = len(before) == len(after) and len(changed) == 2 and {pair[::-1] for pair in changed} == changed
    return is_everywhere or count_breaks(before, after) <= _MOST_BREAKS


def _is_circle(before: list[str], after: list[str]) -> bool:
    """Whether words took each other's places in a circle of more than two, and all prepositions stayed."""
    took = dict(_changed(before, after))
    return not PREPOSITIONS & took.keys() and any(took.get(new) != old for old, new in took.items())


def _changed(before: list[str], after: list[str]) -> set[tuple[str, str]]:
    return {(old, new) for old, new in zip(before, after, strict=False) if old != new}


def _keeps_meaning(kind: str, before: Content, after: Content) -> bool:
    """Whether neighbouring parts changed places around "and", or in a swap of attributes with nothing between."""
    first, last = count_shared(before.words, after.words)
    old, new = (each.words[first : len(each.words) - last] for each in (before, after))
    for length in range(1, len(old)):
        if new == old[length:] + old[:length]:
            place, other = first + length, first + len(old) - length
            neighbours = kind == "swap_att" and len(old) == 2 and not before.gaps[place] and not after.gaps[other]
            return neighbours or (before.are_joined(place) and after.are_joined(other))
    return False


def find_restated_addition(kind: str, caption: str, candidate: str, old: Sequence[str], most: int) -> list[str]:
    """The content words that a text adds to a caption in one place; an object's may be in two.

    An object may come with a verb that replaces the caption's: "a cat sleeps" and "a cat and a dog lie".

    Raises:
        Rejected: content words of the caption are missing, or in another order; nothing, or more than `most` words, or
            in more places, was added.
    """
    before, after = restated(caption, candidate)
    missing, added = Counter(before.words) - Counter(after.words), Counter(after.words) - Counter(before.words)
    lost, come = list(missing.elements()), list(added.elements())
    lost_prepositions = (before.prepositions - after.prepositions).total()
    is_object = kind == "add_obj"
    if not come or len(lost) > is_object or lost_prepositions > is_object:
        raise Rejected("wrong kind", f"missing is {', '.join(lost)}" if lost else "nothing was added")
    places = list(runs_of(after.words, added))
    if len(places) > (_MOST_PLACES if is_object else 1) or len(come) > most:
        raise Rejected("not minimal", "something was added in several places, or at length")
    if len(places) > 1 and not _nouns(candidate, come):
        raise Rejected("not minimal", "attributes or verbs were added in several places, and no object")
    named = {word for each in old for word in split(each).lower}
    if named & set(respelled(sorted(named), lost)[1]):
        raise Rejected("wrong kind", f"{lost[0]!r} was replaced")
    if lost and len(come) == 1 and not any(after.are_joined(run[0]) for run in places):
        raise Rejected("wrong kind", f"{lost[0]!r} was replaced")
    return come


def _nouns(text: str, words: list[str]) -> set[str]:
    """Which of the words are nouns in a text, according to the plain tagger."""
    [tagged] = tag([text], "plain")
    nouns = {word.lower() for word, name in zip(tagged.words, tagged.tags, strict=True) if name.startswith("NN")}
    return nouns & set(words)
