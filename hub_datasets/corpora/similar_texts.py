"""Search for near-duplicates of captions: every text whose words resemble those of an indexed one.

The resemblance of two texts is the Jaccard index of their pairs of neighbouring words, the ends of the texts among them
(Broder, "On the resemblance and containment of documents", 1997). MinHash estimates it, for sets too large to compare,
and misses some; as the captions of benchmarks fit into memory, a prefix filter finds all (Bayardo, Ma and Srikant,
"Scaling up all pairs similarity search", WWW 2007), at a lower cost for each caption of the corpus.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ...metrics.common.errors import ScoresError

Shingle = tuple[str, str]
# Rounding must not lose a text whose resemblance is the threshold.
_SLACK = 1e-9


class SimilarTexts:
    """An index of texts.

    Args:
        texts: the words of each, distinct.
        threshold: the least resemblance, above 0 and at most 1.

    Raises:
        ScoresError: another threshold.
    """

    def __init__(self, texts: Sequence[Sequence[str]], threshold: float) -> None:
        if not 0 < threshold <= 1:
            raise ScoresError(f"the resemblance is {threshold}; give a number above 0 and at most 1, such as 0.7")
        self._threshold = threshold
        sets = [shingles(text) for text in texts]
        frequency = Counter(shingle for each in sets for shingle in each)
        # The rarest first: what two similar texts share is among the first shingles of both.
        order = sorted(frequency, key=lambda shingle: (frequency[shingle], shingle))
        self._rank = {shingle: rank for rank, shingle in enumerate(order)}
        self._texts = [frozenset(self._rank[shingle] for shingle in each) for each in sets]
        self._postings: dict[int, list[int]] = defaultdict(list)
        for number, ranks in enumerate(self._texts):
            for rank in sorted(ranks)[: self._prefix(len(ranks))]:
                self._postings[rank].append(number)

    def find(self, words: Sequence[str]) -> Iterator[tuple[int, float]]:
        """The indexed texts that resemble a text of so many words, by their numbers, and how much, in (0, 1]."""
        own = shingles(words)
        known = {rank for rank in map(self._rank.get, own) if rank is not None}
        # Shingles that no indexed text has are the rarest, and so in the prefix.
        probed = self._prefix(len(own)) - (len(own) - len(known))
        if probed <= 0:
            return
        candidates = {number for rank in sorted(known)[:probed] for number in self._postings.get(rank, ())}
        for number in sorted(candidates):
            other = self._texts[number]
            shared = len(known & other)
            resemblance = shared / (len(own) + len(other) - shared)
            if resemblance >= self._threshold - _SLACK:
                yield number, resemblance

    def _prefix(self, size: int) -> int:
        """How many of its rarest shingles a set has that are not all absent from a similar one."""
        return size - math.ceil(self._threshold * size - _SLACK) + 1 if size else 0


def shingles(words: Sequence[str]) -> set[Shingle]:
    """The pairs of neighbouring words of a text, with its ends; empty for no words.

    >>> sorted(shingles(["a", "dog"]))
    [('', 'a'), ('a', 'dog'), ('dog', '')]
    """
    return set(pairwise(["", *words, ""])) if words else set()
