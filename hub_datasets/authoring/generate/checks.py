"""Validation of candidates: minimal changes of their captions, of the right kind, with the captions' formatting.

Words are compared without case. Articles, pronouns, numbers of nouns and verbs and forms of "be" may follow a change
(an umbrella, her hand, two dogs are). The caption's final stop, first capital and white space are kept exactly, and
articles have to fit ("an elephant"). Otherwise formatting would distinguish candidates from captions, as in the
released SugarCrepe.

These shares of SugarCrepe's hard negatives (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), which people have
validated, pass with their captions' formatting, if the concept to be changed is not given:

    replace_obj 97.6%   replace_att 98.1%   replace_rel 96.8%   swap_obj 83.7%   swap_att 82.7%   add_obj 84.1%
    add_att 96.5%

The rest change more than one thing, or restate the caption: "Four men playing Ultimate Frisbee in a park." became "A
park playing Ultimate Frisbee with four men." Identical captions, paraphrases that exchange what "and" joins, and
captions with a word left out pass as no kind, and 1 % of captions whose words were shuffled as exchanges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ..text.articles import wrong_articles
from ..text.words import FOLLOWING, count_shared, find, is_subsequence, split
from .rejected import Rejected, check_signs

NEGATIVE_KINDS = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")
POSITIVE_KINDS = ("positive_replace", "positive_swap")
KINDS = NEGATIVE_KINDS + POSITIVE_KINDS

# How many of the words that may follow a change may be lost and gained ("a" for "an" counts as two).
_MOST_FOLLOWING = 8
_JOINTS = (["and"], ["or"], [","], [",", "and"])
_MOST_CONCEPT_WORDS = 6
# Words allowed in addition to the new concept: "a dog" becomes "a dog lying next to a cat".
_SLACK = {"replace": 2, "add_obj": 6, "add_att": 3, "positive_replace": 4}
_MOST_NEW_WORDS = 10


def check(kind: str, caption: str, candidate: str, old: Sequence[str] = (), new: str = "") -> None:
    """Validate that a candidate is a minimal change of the kind.

    Args:
        kind: one of `KINDS`: ``replace_…`` and ``positive_replace`` change one concept; ``swap_…`` exchange two parts
            of the caption; ``positive_swap`` does so around "and", "or" or a comma, where the meaning stays the same,
            which the other two must not; ``add_…`` keep the whole caption and insert something in one place.
        caption, candidate: the texts.
        old: the concept to replace, or the two to exchange; any if empty.
        new: the new concept; any if empty.

    Raises:
        Rejected: too long, control characters, same as the caption, wrong kind, not minimal, wrong article ("a" or "an"
            before a word that it does not fit, unless the caption has the same two words).
    """
    check_signs(candidate)
    if len(candidate) > 2 * len(caption) + 80:
        raise Rejected("too long", f"{len(candidate)} characters of a caption's {len(caption)}")
    before, after = split(caption), split(candidate)
    if before.lower == after.lower or before.content == after.content:
        raise Rejected("same as the caption")
    form = kind if kind.startswith("positive") else kind.partition("_")[0]
    concepts, new_words = [split(concept).content for concept in old], split(new).content
    if form in ("swap", "positive_swap"):
        _check_swap(kind, before.content, after.content, concepts)
    elif form == "add":
        _check_added(
            before.content, after.content, new_words, len(new_words) + _SLACK[kind] if new_words else _MOST_NEW_WORDS
        )
    else:
        _check_replaced(form, before.content, after.content, concepts, new_words)
    changed = Counter(word for word in before.lower if word in FOLLOWING)
    changed.subtract(word for word in after.lower if word in FOLLOWING)
    allowed = _MOST_FOLLOWING + len(FOLLOWING & set(split(new).lower))
    if sum(map(abs, changed.values())) > allowed:
        raise Rejected("not minimal", "articles, pronouns or forms of 'be' changed in many places")
    if wrong := wrong_articles(candidate, caption):
        raise Rejected("wrong article", ", ".join(wrong))


def _check_replaced(
    form: str, before: list[str], after: list[str], concepts: list[list[str]], wanted: list[str]
) -> None:
    # A synonym may only add words: left of, to the left of.
    longer = form == "positive_replace" and bool(concepts)
    if not longer and (is_subsequence(before, after) or is_subsequence(after, before)):
        raise Rejected("wrong kind", "words were added or left out, none replaced")
    if Counter(before) == Counter(after):
        raise Rejected("wrong kind", "words were exchanged, none replaced")
    filler = _find_filler(before, after, concepts)
    if filler is None:
        raise Rejected("not minimal", "more than the one concept was changed")
    if len(filler) > (len(wanted) + _SLACK[form] if wanted else _MOST_CONCEPT_WORDS):
        raise Rejected("not minimal", f"{' '.join(filler)!r} came")
    _check_wanted(wanted, filler)


def _find_filler(before: list[str], after: list[str], concepts: Sequence[list[str]]) -> list[str] | None:
    """Return the words in the place of a concept (any, if none is given) if all other words are the same, else None."""
    if not concepts:
        first, last = count_shared(before, after)
        concepts = [before[first : len(before) - last]]
    for concept in concepts:
        for at in find(before, concept):
            rest = before[at + len(concept) :]
            filler = after[at : len(after) - len(rest)]
            is_rest_same = after[:at] == before[:at] and after[len(after) - len(rest) :] == rest
            if filler and is_rest_same and len(concept) <= _MOST_CONCEPT_WORDS:
                return filler
    return None


def _check_added(before: list[str], after: list[str], wanted: list[str], most: int) -> None:
    # An enumeration may be joined differently: a cat and a dog; a cat, a dog and a bird.
    before, after = ([word for word in words if word not in (",", "and")] for words in (before, after))
    first, last = count_shared(before, after)
    added = after[first : len(after) - last]
    if not len(before) == first + last < len(after):
        is_longer = is_subsequence(before, after) and len(before) < len(after)
        why = "something was added in several places" if is_longer else "the caption was changed elsewhere"
        raise Rejected("not minimal" if is_longer else "wrong kind", why)
    if len(added) > most:
        raise Rejected("not minimal", f"{' '.join(added)!r} was added")
    _check_wanted(wanted, added)


def _check_wanted(wanted: list[str], filler: list[str]) -> None:
    """Reject a change without the new concept in some form: stand, standing."""
    if wanted and not any(word[:3] == word_of_filler[:3] for word in wanted for word_of_filler in filler):
        raise Rejected("wrong kind", f"{' '.join(wanted)!r} was to be put in, {' '.join(filler)!r} was")


def _check_swap(kind: str, before: list[str], after: list[str], concepts: list[list[str]]) -> None:
    if Counter(before) != Counter(after):
        raise Rejected("wrong kind", "other words than the caption's came or are missing")
    exchanged = next(_exchanges(before, after, concepts if len(concepts) == 2 else []), None)
    if exchanged is None:
        raise Rejected("not minimal", "more than two parts of the caption were exchanged")
    left, between, right = exchanged
    # Neighbouring attributes mean the same in another order: a big red ball.
    neighbours = kind == "swap_att" and not between and len(left) == len(right) == 1
    if (between in _JOINTS or neighbours) != (kind == "positive_swap"):
        raise Rejected("wrong kind", f"exchanged around {' '.join(between) or 'nothing'!r}")


def _exchanges(
    before: list[str], after: list[str], concepts: list[list[str]]
) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Yield two parts whose exchange makes one list of words the other, and the words between: first the given ones."""
    for left, right in (concepts, concepts[::-1]) if concepts else ():
        for i in find(before, left):
            for j in find(before, right):
                between = before[i + len(left) : j]
                if i + len(left) <= j and after == [*before[:i], *right, *between, *left, *before[j + len(right) :]]:
                    yield left, between, right
    first, last = count_shared(before, after)
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    for length in range(1, len(old)):
        for start in range(1, len(old) - length + 1):
            left, between, right = old[:length], old[length : len(old) - start], old[len(old) - start :]
            if [*right, *between, *left] == new:
                yield left, between, right
