"""The words that REPLACE exchanges for a synonym (The Hard Positive Truth, Tables 4 to 6)."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A line of the lexicon: words, their synonym, and the paper's number of released rows."""

    kind: str
    originals: tuple[str, ...]
    synonym: str
    frequency: int


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
# Prepositions of several words, which are never split.
COMPOUNDS = ("in front of", "in back of", "in between")
