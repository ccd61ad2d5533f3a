"""How hard positives are made (The Hard Positive Truth, section 3.4 and appendix A): pure functions on captions.

REPLACE takes an example of VL-CheckList (caption and hard negative) and replaces the word that differs by a synonym.
SWAP takes an example of ARO's VG-Attribution and exchanges its two objects. The rest of the caption, white space
included, is unchanged: articles are not adapted ("a upright person").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A line of the lexicon: words, their synonym, and the paper's number of released rows."""

    kind: str
    originals: tuple[str, ...]
    synonym: str
    frequency: int


class Replacement(NamedTuple):
    """A hard positive, the replaced words of the caption, their replacement, and the index of their first character."""

    positive_caption: str
    replaced: str
    replacement: str
    start: int


class Triple(NamedTuple):
    """An image with its caption, a hard positive and a hard negative."""

    image_path: str
    category: str
    caption: str
    positive_caption: str
    negative_caption: str


# Table 4 (relations), Tables 5 and 6 (attributes). The example of "riding on" replaces "riding" alone.
LEXICON = (
    Entry("relation_spatial", ("in",), "within", 6173),
    Entry("relation_spatial", ("behind",), "to the rear of", 1057),
    Entry("relation_spatial", ("on top of",), "on", 683),
    Entry("relation_spatial", ("near",), "next to", 657),
    Entry("relation_spatial", ("next to",), "near", 621),
    Entry("relation_spatial", ("under",), "beneath", 467),
    Entry("relation_spatial", ("by",), "near", 394),
    Entry("relation_spatial", ("above",), "on top of", 298),
    Entry("relation_action", ("wearing", "wears"), "in", 3976),
    Entry("relation_action", ("holding",), "grasping", 950),
    Entry("relation_action", ("sitting",), "seated", 639),
    Entry("relation_action", ("hanging",), "dangling", 382),
    Entry("relation_action", ("walking",), "strolling", 288),
    Entry("relation_action", ("riding on", "riding"), "traveling on", 283),
    Entry("attribute_action", ("standing",), "upright", 153),
    Entry("attribute_action", ("sitting",), "seated", 88),
    Entry("attribute_action", ("walking",), "strolling", 64),
    Entry("attribute_action", ("eating",), "ingesting", 41),
    Entry("attribute_action", ("hanging",), "dangling", 29),
    Entry("attribute_action", ("looking",), "gazing", 27),
    Entry("attribute_color", ("white",), "ivory", 2742),
    Entry("attribute_color", ("black",), "ebony", 1790),
    Entry("attribute_color", ("blue",), "sapphire", 1253),
    Entry("attribute_color", ("brown",), "chestnut", 947),
    Entry("attribute_color", ("red",), "crimson", 827),
    Entry("attribute_color", ("green",), "emerald", 755),
    Entry("attribute_color", ("silver",), "metallic", 242),
    Entry("attribute_size", ("large",), "big", 571),
    Entry("attribute_size", ("small",), "tiny", 358),
    Entry("attribute_size", ("long",), "lengthy", 271),
    Entry("attribute_size", ("big",), "large", 146),
    Entry("attribute_size", ("huge",), "big", 31),
    Entry("attribute_state", ("wet",), "damp", 62),
    Entry("attribute_state", ("smiling",), "happy", 50),
    Entry("attribute_state", ("old",), "aged", 46),
    Entry("attribute_state", ("clear",), "unclouded", 43),
    Entry("attribute_state", ("young",), "youthful", 36),
)
KINDS = tuple(dict.fromkeys(entry.kind for entry in LEXICON))
# Prepositions of several words, which are never split.
COMPOUNDS = ("in front of", "in back of", "in between")

_THE_X_AND_THE_Y = re.compile(r"(\s*[Tt]he\s+)(\S.*?)(\s+and\s+the\s+)(\S.*?)(\s*\.?\s*)")
_AND_THE = re.compile(r"\sand\s+the\s")


def hard_positive(
    caption: str, negative: str, kind: str, *, compounds: Sequence[str] = COMPOUNDS
) -> Replacement | None:
    """Replace one word or phrase of a caption by its synonym: REPLACE.

    The words between the longest common prefix and suffix of caption and negative are those that VL-CheckList changed.
    The first entry of the lexicon among them, as whole words and the longest if two start together, is replaced
    once. Capitalisation is kept.

    Args:
        caption: the original caption.
        negative: its hard negative.
        kind: one of ``KINDS``.
        compounds: prepositions that are never taken apart; ``()`` makes "within front of" as the release does.

    Returns:
        The hard positive, or None if the lexicon has no entry for the changed words: the example is discarded.

    Raises:
        ValueError: `kind` is not one of ``KINDS``.

    Source: The Hard Positive Truth about Vision-Language Compositionality (Kamath et al., 2024), section 3.4 and
    Tables 4-6.

    >>> hard_positive("cutting board next to pan", "cutting board far from pan", "relation_spatial").positive_caption
    'cutting board near pan'
    >>> hard_positive("dog in front of cat", "dog behind cat", "relation_spatial") is None
    True
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}; known: {', '.join(KINDS)}")
    synonyms = {original: entry.synonym for entry in LEXICON if entry.kind == kind for original in entry.originals}
    start, end = _changed(caption, negative)
    kept = [match.span() for match in _whole_words(compounds).finditer(caption)] if compounds else []
    for match in _whole_words(synonyms).finditer(caption, start, end):
        if not any(first < match.end() and match.start() < last for first, last in kept):
            replaced = match[0]
            replacement = _in_capitals_of(replaced, synonyms[" ".join(replaced.lower().split())])
            positive = caption[: match.start()] + replacement + caption[match.end() :]
            return Replacement(positive, replaced, replacement, match.start())
    return None


def swap_phrases(caption: str) -> str | None:
    """Exchange the objects of a caption of VG-Attribution: "the X and the Y" becomes "the Y and the X".

    Args:
        caption: "the X and the Y", with only white space or a full stop around it, which keep their places.

    Returns:
        The hard positive; None if the caption is not of this form, or has "and the" more than once.

    Source: The Hard Positive Truth about Vision-Language Compositionality (Kamath et al., 2024), section 3.4.

    >>> swap_phrases("the crouched cat and the open door")
    'the open door and the crouched cat'
    """
    match = _THE_X_AND_THE_Y.fullmatch(caption)
    if match is None or len(_AND_THE.findall(caption)) != 1:
        return None
    the, first, and_the, second, end = match.groups()
    return the + second + and_the + first + end


def vl_checklist_triples(entries: Iterable[Any], kind: str, *, compounds: Sequence[str] = COMPOUNDS) -> list[Triple]:
    """REPLACE from a parsed file of VL-CheckList, such as ``Attribute/vg/color.json``.

    Args:
        entries: ``[image path, {"POS": [caption, …], "NEG": [hard negative, …]}]`` each; as in the authors' loader
            only the first of each list counts.
        kind: what the file is about, one of ``KINDS``.
        compounds: see `hard_positive`.

    Returns:
        One triple for each entry that the lexicon has a synonym for, in their order; the others are discarded.

    Raises:
        ValueError: an unknown kind, or an entry of another form; the message gives its number.

    >>> entry = ["VG_100K/1.jpg", {"POS": ["red glove"], "NEG": ["blue glove"]}]
    >>> vl_checklist_triples([entry], "attribute_color")[0].positive_caption
    'crimson glove'
    """
    triples = []
    for number, entry in enumerate(entries):
        match entry:
            case [str(path), {"POS": [str(caption), *_], "NEG": [str(negative), *_]}]:
                made = hard_positive(caption, negative, kind, compounds=compounds)
            case _:
                expected = '[image path, {"POS": [caption, …], "NEG": [hard negative, …]}]'
                raise ValueError(f"entry {number} must be {expected}")
        if made is not None:
            triples.append(Triple(path, kind, caption, made.positive_caption, negative))
    return triples


def vg_attribution_triples(records: Iterable[Mapping[str, Any]]) -> list[Triple]:
    """SWAP from the parsed ``visual_genome_attribution.json`` of ARO.

    Args:
        records: mappings with the text fields ``image_path``, ``true_caption`` and ``false_caption``.

    Returns:
        One triple for each record, in their order.

    Raises:
        ValueError: a field is missing, or a caption is not "the X and the Y"; the message gives the record's number.

    >>> record = {"image_path": "1.jpg", "true_caption": "the old man and the red hat",
    ...           "false_caption": "the red man and the old hat"}
    >>> vg_attribution_triples([record])[0].positive_caption
    'the red hat and the old man'
    """
    triples = []
    for number, record in enumerate(records):
        fields = [record.get(name) for name in ("image_path", "true_caption", "false_caption")]
        if not all(isinstance(value, str) for value in fields):
            raise ValueError(f"record {number} must have the text fields image_path, true_caption and false_caption")
        path, caption, negative = map(str, fields)
        positive = swap_phrases(caption)
        if positive is None:
            raise ValueError(f"record {number}: {caption!r} is not of the form 'the X and the Y'")
        triples.append(Triple(path, "swap", caption, positive, negative))
    return triples


def _changed(caption: str, negative: str) -> tuple[int, int]:
    """Start and end of the caption without the longest common prefix and suffix of words with the negative."""
    words = list(re.finditer(r"\S+", caption))
    ours, theirs = [word[0].lower() for word in words], negative.lower().split()
    shorter = min(len(ours), len(theirs))
    head = next((n for n in range(shorter) if ours[n] != theirs[n]), shorter)
    tail = next((n for n in range(shorter - head) if ours[-1 - n] != theirs[-1 - n]), shorter - head)
    changed = words[head : len(words) - tail]
    return (changed[0].start(), changed[-1].end()) if changed else (0, 0)


def _whole_words(phrases: Iterable[str]) -> re.Pattern[str]:
    """Any of the phrases, the longest first, with any white space inside and no letter, digit or hyphen around."""
    longest_first = sorted(phrases, key=len, reverse=True)
    choices = "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in longest_first)
    return re.compile(rf"(?<![\w-])(?:{choices})(?![\w-])", re.IGNORECASE)


def _in_capitals_of(model: str, text: str) -> str:
    if model.isupper():
        return text.upper()
    return text[0].upper() + text[1:] if model[0].isupper() else text
