"""Validation of candidates: minimal changes of their captions, of the right kind, with the captions' formatting.

Words are compared without case. Articles, pronouns, numbers of nouns and verbs and forms of "be" may follow a change
(an umbrella, her hand, two dogs are). The caption's final stop, first capital and white space are kept exactly, and
articles have to fit ("an elephant"), so that formatting does not tell candidates from captions, as it does in the
released SugarCrepe.

Of SugarCrepe's hard negatives (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), which people have validated, these
pass the checks without knowing which concept was to be changed:

    replace_obj 97.6%   replace_att 98.1%   replace_rel 96.7%   swap_obj 82.0%   swap_att 77.0%   add_obj 83.7%
    add_att 96.5%
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..text.articles import wrong_articles
from ..text.tagging import Tagged, tag

NEGATIVE_KINDS = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")
POSITIVE_KINDS = ("positive_replace", "positive_swap")
KINDS = NEGATIVE_KINDS + POSITIVE_KINDS

REASONS = (
    "no answer",
    "refused",
    "not JSON",
    "missing field",
    "not possible",
    "wrong kind",
    "not minimal",
    "same as the caption",
    "duplicate",
    "a true caption",
    "wrong article",
    "too long",
    "control characters",
)

_WORD = re.compile(r"['’]s\b|\w+(?:-\w+|['’](?!s\b)\w+)*|[^\w\s]", re.IGNORECASE)
# Words that may follow a change, and how many of them may be lost and gained ("a" for "an" counts as two).
_BE = ("is", "are", "was", "were")
_PRONOUNS = ("he", "she", "it", "they", "him", "her", "them", "his", "its", "their")
_FOLLOWING = frozenset(["a", "an", "the", *_BE, *_PRONOUNS])
_MOST_FOLLOWING = 6
_STOPS = (".", "!", "?")
_JOINTS = (["and"], ["or"], [","], [",", "and"])
_MOST_CONCEPT_WORDS = 6
# Words allowed in addition to the new concept: "a dog" becomes "a dog lying next to a cat".
_SLACK = {"replace": 2, "add_obj": 6, "add_att": 3, "positive_replace": 4}
_MOST_NEW_WORDS = 10


class Rejected(Exception):
    """A rejected candidate, with one of `REASONS` and the details."""

    def __init__(self, reason: str, why: str = "") -> None:
        super().__init__(f"{reason}: {why}" if why else reason)
        self.reason, self.why = reason, why


class Words(NamedTuple):
    """A text as words, without final stops: start and end of each word or sign, and these in lower case."""

    text: str
    spans: list[tuple[int, int]]
    lower: list[str]

    @property
    def content(self) -> list[str]:
        """The words that are compared, without the s of plurals and verbs, articles, pronouns and forms of "be"."""
        words = (re.sub("(?<=..)ies$", "y", word) for word in self.lower if word not in _FOLLOWING)
        return [re.sub("(?<=...)s$", "", word) for word in words]


def split(text: str) -> Words:
    """The words of a text.

    >>> split("Two dogs, an ox.").content
    ['two', 'dog', ',', 'ox']
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    while spans and text[slice(*spans[-1])] in _STOPS:
        spans.pop()
    return Words(text, spans, [text[start:end].lower().replace("’", "'") for start, end in spans])


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
    if form in ("swap", "positive_swap"):
        _check_swap(kind, before.content, after.content, old)
    elif form == "add":
        _check_added(kind, before.content, after.content, new)
    else:
        _check_replaced(form, before.content, after.content, old, new)
    changed = Counter(word for word in before.lower if word in _FOLLOWING)
    changed.subtract(word for word in after.lower if word in _FOLLOWING)
    own = len(set(_FOLLOWING) & set(split(new).lower))
    if sum(map(abs, changed.values())) > _MOST_FOLLOWING + own:
        raise Rejected("not minimal", "articles, pronouns or forms of 'be' changed in many places")
    if wrong := wrong_articles(candidate, caption):
        raise Rejected("wrong article", ", ".join(wrong))


def conform(caption: str, candidate: str) -> str:
    """The candidate with its caption's formatting.

    The words that both share at the beginning and end are copied from the caption, with its outer white space and its
    final stop, if any. In the rest white space is normalised, and the first letter gets the caption's case.

    >>> conform(" a cat on a  mat. ", "A dog on a mat")
    ' a dog on a  mat. '
    """
    before, after = split(caption), split(candidate)
    if not before.spans or not after.spans:
        return candidate
    first, last = _shared(before.lower, after.lower)

    def changed(words: Words) -> tuple[int, int]:
        start = words.spans[first - 1][1] if first else words.spans[0][0]
        return start, words.spans[-last][0] if last else words.spans[-1][1]

    (start, stop), (begin, end) = changed(before), changed(after)
    middle, rest, begun = candidate[begin:end], caption[start:], caption[:stop]
    text = re.sub(r"\s+", " ", middle.strip())
    text = text if first else _with_case_of(rest, text)
    # The white space around the changed words is the caption's, too.
    if first and middle[:1].isspace():
        text = (rest[: len(rest) - len(rest.lstrip())] or " ") + text
    if last and text.strip() and middle[-1:].isspace():
        text += begun[len(begun.rstrip()) :] or " "
    return caption[:start] + text + caption[stop:]


def check_concept(caption: str, old: str, new: str) -> str:
    """A new concept, cleaned; raises `Rejected` if it is empty, long, not plain words, or in the caption already."""
    check_signs(new)
    new = " ".join(new.split())
    words = split(new)
    if not words.content or not re.fullmatch(r"[\w' ’-]+", new):
        raise Rejected("missing field", f"{new[:40]!r} is not a concept")
    if len(words.lower) > _MOST_CONCEPT_WORDS:
        raise Rejected("too long", f"{new[:40]!r} is not a single concept")
    if words.content == split(old).content or list(find(split(caption).content, words.content)):
        raise Rejected("same as the caption", f"{new!r} is in it already")
    return new


def locatable(caption: str, concepts: Sequence[str], part: str) -> list[str]:
    """The concepts that occur in the caption and are of the right part of speech, deduplicated.

    For the part ``"obj"``, ``"att"`` or ``"rel"`` a concept must have a noun, an attribute, or a preposition or verb,
    according to the plain tagger of `tagging`.
    """
    [tagged] = tag([caption], "plain")
    before = split(caption)
    found = []
    for concept in concepts:
        words = split(concept)
        places = list(find(before.lower, words.lower))
        right = any(
            _is_part(part, tagged, before.spans[at][0], before.spans[at + len(words.lower) - 1][1]) for at in places
        )
        if right and words.content and len(words.lower) <= _MOST_CONCEPT_WORDS:
            found.append(" ".join(concept.split()))
    return list(dict.fromkeys(found))


def find(words: Sequence[str], part: Sequence[str]) -> Iterator[int]:
    """The indices at which a part occurs in words.

    >>> list(find(["a", "b", "a"], ["a"]))
    [0, 2]
    """
    if part:
        yield from (at for at in range(len(words) - len(part) + 1) if list(words[at : at + len(part)]) == list(part))


_PARTS = {
    "obj": ("NN", "NNS", "NNP", "NNPS"),
    "att": ("JJ", "JJR", "JJS", "VBN", "VBG", "CD", "RB"),
    "rel": ("IN", "TO", "RP", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ"),
}


def _is_part(part: str, tagged: Tagged, start: int, end: int) -> bool:
    inside = [place for place, span in enumerate(tagged.spans) if start <= span[0] and span[1] <= end]
    if any(tagged.tags[place] in _PARTS[part] for place in inside):
        return True
    if part != "att" or not inside or tagged.tags[inside[-1]] != "NN":
        return False
    # The tagger takes unknown words for nouns. One before a noun, or after "is", is an attribute.
    before, following = tagged.words[: inside[0]][-1:], tagged.tags[inside[-1] + 1 :][:1]
    return (bool(before) and before[0].lower() in _BE) or (bool(following) and following[0].startswith("NN"))


def check_signs(text: str) -> None:
    """Raise `Rejected` for control characters and lone surrogates."""
    if bad := [sign for sign in text if unicodedata.category(sign).startswith("C") and sign not in "\n\r\t"]:
        raise Rejected("control characters", f"U+{ord(bad[0]):04X}")


def _shared(before: list[str], after: list[str]) -> tuple[int, int]:
    """The numbers of words that two lists share at the beginning, and then at the end."""
    shortest = min(len(before), len(after))
    first = next((i for i in range(shortest) if before[i] != after[i]), shortest)
    last = next((i for i in range(shortest - first) if before[-1 - i] != after[-1 - i]), shortest - first)
    return first, last


def _is_subsequence(part: Sequence[str], words: Sequence[str]) -> bool:
    rest = iter(words)
    return all(word in rest for word in part)


def _check_replaced(form: str, before: list[str], after: list[str], old: Sequence[str], new: str) -> None:
    # A synonym may only add words: left of, to the left of.
    longer = form == "positive_replace" and bool(old)
    if not longer and (_is_subsequence(before, after) or _is_subsequence(after, before)):
        raise Rejected("wrong kind", "words were added or left out, none replaced")
    concepts = [split(each).content for each in old]
    if not concepts:
        first, last = _shared(before, after)
        concepts = [before[first : len(before) - last]]
    for concept in concepts:
        for at in find(before, concept):
            rest = before[at + len(concept) :]
            filler = after[at : len(after) - len(rest)]
            if filler and after[:at] == before[:at] and after[len(after) - len(rest) :] == rest:
                wanted = split(new).content
                most = len(wanted) + _SLACK[form] if wanted else _MOST_CONCEPT_WORDS
                if len(filler) > most or len(concept) > _MOST_CONCEPT_WORDS:
                    raise Rejected("not minimal", f"{' '.join(concept)!r} became {' '.join(filler)!r}")
                return _check_taken(wanted, filler)
    raise Rejected("not minimal", "more than the one concept was changed")


def _check_taken(wanted: list[str], filler: list[str]) -> None:
    """Reject a change without the new concept in some form: stand, standing."""
    if wanted and not any(word[:3] == each[:3] for word in wanted for each in filler):
        raise Rejected("wrong kind", f"{' '.join(wanted)!r} was to be put in, {' '.join(filler)!r} was")


def _check_added(kind: str, before: list[str], after: list[str], new: str) -> None:
    # An enumeration may be joined differently: a cat and a dog; a cat, a dog and a bird.
    before, after = ([word for word in words if word not in (",", "and")] for words in (before, after))
    if len(after) <= len(before) or not _is_subsequence(before, after):
        raise Rejected("wrong kind", "the caption's words are not all there in their order")
    first, last = _shared(before, after)
    added = after[first : len(after) - last]
    wanted = split(new).content
    most = len(wanted) + _SLACK[kind] if wanted else _MOST_NEW_WORDS
    if first + last < len(before) or len(added) > most:
        raise Rejected("not minimal", "something was added in several places, or at length")
    _check_taken(wanted, added)


def _check_swap(kind: str, before: list[str], after: list[str], old: Sequence[str]) -> None:
    pairs = [(split(old[0]).content, split(old[1]).content)] if len(old) == 2 else []
    if Counter(before) != Counter(after):
        raise Rejected("wrong kind", "other words than the caption's came")
    exchanged = next(_exchanges(before, after, pairs), None)
    if exchanged is None:
        raise Rejected("not minimal", "more than two parts of the caption were exchanged")
    left, between, right = exchanged
    # Neighbouring attributes mean the same in another order: a big red ball.
    neighbours = kind == "swap_att" and not between and len(left) == len(right) == 1
    if (between in _JOINTS or neighbours) != (kind == "positive_swap"):
        raise Rejected("wrong kind", f"exchanged around {' '.join(between) or 'nothing'!r}")


def _exchanges(
    before: list[str], after: list[str], pairs: Sequence[tuple[list[str], list[str]]]
) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Two parts whose exchange makes one list of words the other, and the words between: the given ones, then any."""
    for left, right in [*pairs, *((right, left) for left, right in pairs)]:
        for i in find(before, left):
            for j in find(before, right):
                between = before[i + len(left) : j]
                if i + len(left) <= j and after == [*before[:i], *right, *between, *left, *before[j + len(right) :]]:
                    yield left, between, right
    first, last = _shared(before, after)
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    for length in range(1, len(old)):
        for other in range(1, len(old) - length + 1):
            left, between, right = old[:length], old[length : len(old) - other], old[len(old) - other :]
            if [*right, *between, *left] == new:
                yield left, between, right


def _with_case_of(caption: str, text: str) -> str:
    """The text with the caption's case in its first letter, unless its first word has other capitals."""
    match = re.match(r"\W*(\w)([\w'’-]*)", text)
    model = re.search(r"[^\W\d_]", caption)
    if not match or not model or match[2] != match[2].lower():
        return text
    letter = match[1].upper() if model[0].isupper() else match[1].lower()
    return text[: match.start(1)] + letter + text[match.end(1) :]
