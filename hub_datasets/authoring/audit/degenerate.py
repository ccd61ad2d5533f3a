"""Pairs that cannot measure what they should: equal captions, equal bags of words, duplicates, shared captions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

from ..data.pairs import Pair
from ..text.normalising import normalise
from .features import words

_IDS_SHOWN = 5

MEANINGS = {
    "identical": "caption and negative are the same text: nothing can be right",
    "identical_normalised": "they are the same after normalisation: only typing tells them apart",
    "same_bag_of_words": "they have the same words, in lower case, equally often: no bag of words can be right",
    "duplicate": "image, caption and negative came in an earlier row",
    "negative_under_several_images": "the negative is that of another image's row as well",
    "positive_is_a_negative": "the caption is the negative of another row",
}


def find_degenerate(pairs: Sequence[Pair]) -> dict[str, dict[str, Any]]:
    """Count the pairs of each kind in `MEANINGS`.

    Returns:
        For each kind `pairs`, how many there are; `per_category`, how many in each category that has some; and
        `examples`, up to five of their ids. A pair may be of several kinds: identical captions are the same bag of
        words, too. Captions are compared as they are, images by their key or, where that is unknown, by the caption.
    """
    images: dict[str, set[str]] = defaultdict(set)
    negative_in: dict[str, set[int]] = defaultdict(set)
    for row, pair in enumerate(pairs):
        images[pair.negative].add(pair.image or pair.positive)
        negative_in[pair.negative].add(row)
    seen: set[Hashable] = set()
    found: dict[str, list[Pair]] = {kind: [] for kind in MEANINGS}
    for row, pair in enumerate(pairs):
        content = pair[1:4]
        holds = {
            "identical": pair.positive == pair.negative,
            "identical_normalised": normalise(pair.positive) == normalise(pair.negative),
            "same_bag_of_words": sorted(words(pair.positive)) == sorted(words(pair.negative)),
            "duplicate": content in seen,
            "negative_under_several_images": len(images[pair.negative]) > 1,
            "positive_is_a_negative": bool(negative_in.get(pair.positive, set()) - {row}),
        }
        seen.add(content)
        for kind, is_so in holds.items():
            if is_so:
                found[kind].append(pair)
    return {
        kind: {
            "pairs": len(of_kind),
            "per_category": dict(Counter(pair.category for pair in of_kind)),
            "examples": [pair.id for pair in of_kind[:_IDS_SHOWN]],
        }
        for kind, of_kind in found.items()
    }
