"""Contamination: which examples of benchmarks have captions or images that are in a training set.

The same caption has the same words, in lower case. A similar caption has a Jaccard index of its pairs of neighbouring
words, the ends included, of at least a threshold (Broder, "On the resemblance and containment of documents", 1997). The
same image is the same file; images that were scaled or compressed again are not found.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

from ...metrics.common.errors import ScoresError
from ...metrics.common.wording import words
from ..core.examples import Example, TaskData
from ..core.image_keys import content_key
from .shards import Row, ShardOutcome, Step

KINDS = _IMAGE, _SAME, _SIMILAR = "image_exact", "caption_exact", "caption_near"
_SLACK = 1e-9  # rounding must not lose a text whose Jaccard index is the threshold


class SimilarTexts:
    """An index of distinct texts (words with spaces between them) that finds all texts similar to a given one.

    Unlike MinHash, its prefix filter misses none (Bayardo, Ma and Srikant, "Scaling up all pairs similarity search",
    WWW 2007). Raises `ScoresError` unless the smallest Jaccard index to find is above 0 and at most 1.
    """

    def __init__(self, texts: Sequence[str], threshold: float) -> None:
        if not 0 < threshold <= 1:
            raise ScoresError(f"the resemblance is {threshold}; give a number above 0 and at most 1, such as 0.7")
        self._threshold = threshold
        self._pairs = {text: _word_pairs(text.split()) for text in texts}
        frequency = Counter(pair for pairs in self._pairs.values() for pair in pairs)
        by_frequency = sorted(frequency, key=lambda pair: (frequency[pair], pair))
        self._rank = {pair: rank for rank, pair in enumerate(by_frequency)}
        self._texts = defaultdict(list)
        for text, pairs in self._pairs.items():
            for pair in self._prefix(pairs):
                self._texts[pair].append(text)

    def find(self, words: Sequence[str]) -> Iterator[tuple[str, float]]:
        """Yield the indexed texts that are similar to a text of these words, with their Jaccard index in (0, 1]."""
        pairs = _word_pairs(words)
        for text in {text for pair in self._prefix(pairs) for text in self._texts.get(pair, ())}:
            shared = len(pairs & self._pairs[text])
            similarity = shared / (len(pairs) + len(self._pairs[text]) - shared)
            if similarity >= self._threshold - _SLACK:
                yield text, similarity

    def _prefix(self, pairs: set[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the rarest pairs of a text: so many that two similar texts share one of them."""
        size = len(pairs) - math.ceil(self._threshold * len(pairs) - _SLACK) + 1
        return sorted(pairs, key=lambda pair: self._rank.get(pair, -1))[:size]


def _word_pairs(words: Sequence[str]) -> set[tuple[str, str]]:
    return set(pairwise(["", *words, ""])) if words else set()


def _items(data: TaskData, example: Example) -> tuple[list[str], list[str], list[str]]:
    """Return the content keys of an example's images, and the words of its positive and negative captions."""
    texts = [" ".join(words(caption)) for caption in example.captions]
    count = data.task.positives if example.positive else 0
    keys = [key for key in example.images if data.needs_images and key and not key.startswith("file:")]
    return keys, texts[:count], [] if count is None else texts[count:]


def search_step(benchmarks: Sequence[TaskData], resemblance: float, caption: str, image: str | None) -> Step:
    """Return the step that finds the captions and, if there is an `image` column, the images of benchmarks.

    Raises:
        ScoresError: `resemblance`, the least Jaccard index of similar captions, is not above 0 and at most 1.
    """
    import pyarrow as pa

    items = [_items(data, example) for data in benchmarks for example in data.examples]
    texts = tuple(sorted({text for _, *captions in items for group in captions for text in group}))
    images = None if image is None else frozenset(key for keys, *_ in items for key in keys)
    _index(texts, resemblance)  # raises at once, not in a worker
    process = partial(_search, texts, resemblance, images)
    columns = [(name, pa.string()) for name in ("kind", "item", "text")]
    schema = pa.schema([*columns, ("row", pa.int64()), ("similarity", pa.float32())])
    digest = hashlib.sha256(json.dumps([texts, sorted(images or ())]).encode()).hexdigest()
    return Step(process, schema, {"items": digest, "resemblance": resemblance}, caption, image)


# Each process builds the index once: it is much larger than the texts.
_index = lru_cache(1)(SimilarTexts)


def _search(
    texts: Sequence[str], resemblance: float, images: frozenset[str] | None, rows: Iterator[Row], counts: Counter[str]
) -> Iterator[dict[str, Any]]:
    similar = _index(texts, resemblance)
    for row, (caption, image) in enumerate(rows):
        caption_words = words(caption or "")
        counts["captions" if caption_words else "without a caption"] += 1
        for text, similarity in similar.find(caption_words):
            kind = _SAME if text == " ".join(caption_words) else _SIMILAR
            yield {"kind": kind, "item": text, "text": caption, "row": row, "similarity": similarity}
        if images is not None:
            counts["images" if image else "without an image"] += 1
            if image and (key := content_key(image)) in images:
                yield {"kind": _IMAGE, "item": key, "row": row, "similarity": 1.0}


def summarise(benchmarks: Sequence[TaskData], outcomes: Sequence[ShardOutcome]) -> dict[str, Any]:
    """Return the examples that the training set contains, from the outputs of `search_step`.

    Returns:
        `examples`: the numbers of examples of each task of a benchmark; `found`: each example with an image, a caption
        or a negative in the training set, and these items, in the form of the outputs.
    """
    import pyarrow.parquet as pq

    hits = set()
    for outcome in outcomes:
        for batch in pq.ParquetFile(outcome.file).iter_batches(columns=["kind", "item"]):
            hits.update(zip(batch["kind"].to_pylist(), batch["item"].to_pylist(), strict=True))
    table: dict[str, Counter[str]] = {}
    rows = []
    for data in benchmarks:
        task = f"{data.benchmark}/{data.task.name}"
        counts = table.setdefault(task, Counter())
        for example in data.examples:
            images, positives, negatives = _items(data, example)
            matches = {kind: sorted({item for item in (*images, *positives) if (kind, item) in hits}) for kind in KINDS}
            matches["negative"] = sorted({item for item in negatives if hits & {(_SAME, item), (_SIMILAR, item)}})
            image, caption = bool(matches[_IMAGE]), bool(matches[_SAME] or matches[_SIMILAR])
            flags = {"examples": True, "with images": images, "same image": image, "same caption": matches[_SAME]}
            flags |= {"similar caption": caption, "image and caption": image and caption, "any": image or caption}
            counts.update(
                {name: bool(flag) for name, flag in (flags | {"negative caption": matches["negative"]}).items()}
            )
            if any(matches.values()):
                rows.append({"part": task, "example": example.id, **matches})
    return {"examples": table, "found": rows}
