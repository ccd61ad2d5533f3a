"""Contamination: which images and captions of benchmarks are in a training set, exactly or nearly.

- A caption is there exactly if a caption of the corpus has its words, in lower case.
- A caption is nearly there if the pairs of neighbouring words of both resemble each other (`similar_texts`).
- An image is there exactly if a file of the corpus has its bytes.
- An image is nearly there if the embeddings of both by an image model are similar, as CLIP's authors searched for
  duplicates (Radford et al. 2021, section 5 and appendix C).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.common.errors import DataError, ScoresError
from ...metrics.common.wording import words
from ..core.examples import load_examples
from ..core.image_keys import content_key
from ..core.images import DECODING_ERRORS, decode
from .running import ShardOutcome, Step, total_counts
from .shards import Batch
from .similar_texts import SimilarTexts

KINDS = ("caption_exact", "caption_near", "image_exact", "image_near")
_CAPTION_EXACT, _CAPTION_NEAR, _IMAGE_EXACT, _IMAGE_NEAR = KINDS
_EMBEDDED_AT_ONCE = 64
_MOST_TEXT = 1000


class Wanted(NamedTuple):
    """An example of a benchmark by the numbers of its positive captions, its negatives and its images."""

    part: str
    id: str
    positives: tuple[int, ...]
    negatives: tuple[int, ...]
    images: tuple[int, ...]


@dataclass
class BenchmarkItems:
    """The distinct captions and images of benchmarks, and the examples that have them.

    Attributes:
        examples: all of them.
        captions: the words of each distinct caption, with blanks between.
        images: the content key of each distinct image.
        embeddings: float32 of shape (images, d), each of length 1, if images are to be compared.
    """

    examples: list[Wanted] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    embeddings: NDArray[np.float32] | None = None

    @property
    def fingerprint(self) -> str:
        """SHA-256 over captions and images."""
        return hashlib.sha256("\n".join([*self.captions, "", *self.images]).encode()).hexdigest()


def read_items(
    benchmarks: Sequence[str],
    *,
    data_dir: Path | None = None,
    options: Mapping[str, Any] | None = None,
    with_images: bool = True,
    image_model: str | None = None,
) -> BenchmarkItems:
    """The captions and images to look for.

    Args:
        benchmarks: names, parts or folders; see `load_examples`, also for `data_dir`, `options` and the errors.
        with_images: whether to look for images.
        image_model: embed images with this model of `similar.load_embedder`; None for exact duplicates only.

    Raises:
        DataError: an image to embed cannot be decoded.
        ModelError: the model cannot be loaded, or is none of images alone.
    """
    items, captions, images, files = BenchmarkItems(), {}, {}, []
    for benchmark in benchmarks:
        for data in load_examples(benchmark, data_dir=data_dir, options=options, needs_images=with_images):
            part = f"{data.benchmark}/{data.task.name}"
            for example in data.examples:
                texts = [" ".join(words(caption)) for caption in example.captions]
                places = [captions.setdefault(text, len(captions)) for text in texts]
                first = len(example.correct) if data.task.task_type == "matching" else len(places)
                keys = [key for key in example.images if key and not key.startswith("file:")] if with_images else []
                files += [(data, key) for key in dict.fromkeys(keys) if key not in images and image_model]
                own = tuple(images.setdefault(key, len(images)) for key in dict.fromkeys(keys))
                items.examples.append(Wanted(part, example.id, (*places[:first],), (*places[first:],), own))
    items.captions, items.images = list(captions), list(images)
    if image_model and files:
        embed, parts = _Embedder(image_model), []
        for start in range(0, len(files), _EMBEDDED_AT_ONCE):
            part = files[start : start + _EMBEDDED_AT_ONCE]
            read, rows = embed([data.image_bytes(key) for data, key in part])
            if len(read) < len(part):
                odd = next(number for number in range(len(part)) if number not in read)
                data, key = part[odd]
                raise DataError(f"{data.image_names[key]} of {data.benchmark} is no image; correct the source")
            parts.append(rows)
        items.embeddings = np.concatenate(parts)
    return items


class _Embedder:
    """Embeddings of image files."""

    def __init__(self, checkpoint: str) -> None:
        from ..authoring.review.similar import load_embedder

        self._embed = load_embedder(checkpoint)

    def __call__(self, files: Sequence[bytes]) -> tuple[list[int], NDArray[np.float32]]:
        """The indices of the files that can be decoded, and their embeddings, each of length 1."""
        decoded = {}
        for number, file in enumerate(files):
            try:
                decoded[number] = decode(file)
            except DECODING_ERRORS:
                continue
        if not decoded:
            return [], np.zeros((0, 0), np.float32)
        rows = self._embed([*decoded.values()])
        return [*decoded], rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


@dataclass
class _Hit:
    """What of a corpus duplicates an item in one way: how many rows, and the most similar."""

    rows: int
    similarity: float
    row: int
    text: str | None

    def add(self, other: _Hit) -> bool:
        """Add another; returns whether it is more similar than all before."""
        self.rows += other.rows
        if is_better := other.similarity > self.similarity:
            self.similarity, self.row, self.text = other.similarity, other.row, other.text
        return is_better


@dataclass
class ContaminationSearch(Step):
    """The step that looks for the items of benchmarks in a shard.

    Args:
        items: of `read_items`.
        resemblance: the least resemblance of captions, in (0, 1].
        image_similarity: the least cosine of images, in (0, 1], where the items have embeddings.
        image_model: of the embeddings.
        caption, image_column: the shard's columns; the latter is None where images are not looked for.

    Raises:
        ScoresError: a threshold outside its range.
    """

    items: BenchmarkItems
    resemblance: float
    image_similarity: float
    image_model: str | None = None
    caption: str = "caption"
    image_column: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.image_similarity <= 1:
            raise ScoresError(
                f"the similarity of images is {self.image_similarity}; give a number above 0 and at most 1, such as 0.9"
            )
        self._near = SimilarTexts([text.split() for text in self.items.captions], self.resemblance)
        self._captions = {text: number for number, text in enumerate(self.items.captions)}
        self._images = {key: number for number, key in enumerate(self.items.images)}

    @property
    def columns(self) -> dict[str, str]:
        """The captions."""
        return {"caption": self.caption}

    @property
    def image(self) -> str | None:
        """The images, if they are looked for."""
        return self.image_column

    @property
    def settings(self) -> dict[str, Any]:
        """Thresholds, model, and what is looked for."""
        near = {"image_model": self.image_model, "image_similarity": self.image_similarity}
        return {"items": self.items.fingerprint, "resemblance": self.resemblance, **near}

    @cached_property
    def _embedder(self) -> _Embedder | None:
        # In each process, when it is first needed.
        return None if self.items.embeddings is None or self.image_model is None else _Embedder(self.image_model)

    def schema(self) -> Any:
        """An item that is in the shard, how often, and the most similar row."""
        import pyarrow as pa

        counted = [("item", pa.int64()), ("rows", pa.int64()), ("similarity", pa.float32()), ("row", pa.int64())]
        return pa.schema([("kind", pa.string()), *counted, ("text", pa.string())])

    def run(self, batches: Iterator[Batch], counts: Counter[str]) -> Iterator[Mapping[str, Any]]:
        """See `Step`."""
        found: dict[tuple[str, int], _Hit] = {}
        for batch in batches:
            hits = [self._caption_hits(batch, counts)]
            if batch.images:
                hits.append(self._image_hits(batch, counts))
            for kind, item, hit in (each for part in hits for each in part):
                if (kind, item) in found:
                    found[kind, item].add(hit)
                else:
                    found[kind, item] = hit
        keys = sorted(found)
        rows = [found[key] for key in keys]
        columns = {name: [getattr(hit, name) for hit in rows] for name in ("rows", "similarity", "row", "text")}
        yield {"kind": [kind for kind, _ in keys], "item": [item for _, item in keys], **columns}

    def _caption_hits(self, batch: Batch, counts: Counter[str]) -> Iterator[tuple[str, int, _Hit]]:
        for at, caption in enumerate(batch.texts["caption"]):
            found = words(caption or "")
            counts["captions" if found else "without a caption"] += 1
            if not found:
                continue
            row, shown = batch.first + at, str(caption)[:_MOST_TEXT]
            exact = self._captions.get(" ".join(found))
            if exact is not None:
                yield _CAPTION_EXACT, exact, _Hit(1, 1.0, row, shown)
            for item, resemblance in self._near.find(found):
                if item != exact:
                    yield _CAPTION_NEAR, item, _Hit(1, resemblance, row, shown)

    def _image_hits(self, batch: Batch, counts: Counter[str]) -> Iterator[tuple[str, int, _Hit]]:
        there = [(batch.first + at, file) for at, file in enumerate(batch.images) if file]
        counts["images"] += len(there)
        counts["without an image"] += len(batch.images) - len(there)
        exact = [self._images.get(content_key(file)) for _, file in there]
        for (row, _), item in zip(there, exact, strict=True):
            if item is not None:
                yield _IMAGE_EXACT, item, _Hit(1, 1.0, row, None)
        if self._embedder is None or not there:
            return
        read, embeddings = self._embedder([file for _, file in there])
        counts["unreadable images"] += len(there) - len(read)
        if not read:
            return
        assert self.items.embeddings is not None
        cosines = embeddings @ self.items.embeddings.T
        for place, item in np.argwhere(cosines >= self.image_similarity).tolist():
            if exact[read[place]] != item:
                yield _IMAGE_NEAR, item, _Hit(1, min(float(cosines[place, item]), 1.0), there[read[place]][0], None)


def merge(search: ContaminationSearch, outcomes: Sequence[ShardOutcome]) -> dict[str, Any]:
    """What of the benchmarks is in the shards, from their outputs.

    Returns:
        `counts` of the corpus; `settings`; `parts`: for each task of a benchmark its `examples`, those `with_images` to
        look for, and how many have an image or a positive caption in the corpus (see `EXAMPLE_KINDS`); and `hits`: for
        each example that has any, each item by its kind, `is_negative`, the number of `rows`, and the most similar
        one's `shard`, `row`, `similarity` and `text`.
    """
    import pyarrow.parquet as pq

    found: dict[tuple[str, int], tuple[_Hit, str]] = {}
    for outcome in (each for each in outcomes if not each.problem):
        for line in pq.read_table(outcome.file).to_pylist():
            key, hit = (line.pop("kind"), line.pop("item")), _Hit(**line)
            before = found.setdefault(key, (hit, outcome.shard.path))
            if before[0] is not hit and before[0].add(hit):
                found[key] = (before[0], outcome.shard.path)
    parts: dict[str, Counter[str]] = {}
    hits = []
    for example in search.items.examples:
        part = parts.setdefault(example.part, Counter())
        part["examples"] += 1
        part["with_images"] += bool(example.images)
        own = list(_hits_of(example, found))
        hits += own
        kinds = {hit["kind"] for hit in own if not hit["is_negative"]}
        for kind, alternatives in EXAMPLE_KINDS.items():
            part[kind] += all(kinds & set(any_of) for any_of in alternatives)
        part["negative_caption"] += any(hit["is_negative"] for hit in own)
    return {
        "counts": dict(total_counts(outcomes)),
        "settings": search.settings,
        "parts": {name: dict(part) for name, part in parts.items()},
        "hits": hits,
    }


# Of an example, what counts as being in the corpus: of each set one kind must be found.
EXAMPLE_KINDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "image_exact": ((_IMAGE_EXACT,),),
    "image": ((_IMAGE_EXACT, _IMAGE_NEAR),),
    "caption_exact": ((_CAPTION_EXACT,),),
    "caption": ((_CAPTION_EXACT, _CAPTION_NEAR),),
    "both": ((_IMAGE_EXACT, _IMAGE_NEAR), (_CAPTION_EXACT, _CAPTION_NEAR)),
    "any": (KINDS,),
}


def _hits_of(example: Wanted, found: Mapping[tuple[str, int], tuple[_Hit, str]]) -> Iterator[dict[str, Any]]:
    of_captions, of_images = (_CAPTION_EXACT, _CAPTION_NEAR), (_IMAGE_EXACT, _IMAGE_NEAR)
    for numbers, kinds, is_negative in (
        (example.images, of_images, False),
        (example.positives, of_captions, False),
        (example.negatives, of_captions, True),
    ):
        for kind, number in ((kind, number) for number in dict.fromkeys(numbers) for kind in kinds):
            if (kind, number) in found:
                hit, shard = found[kind, number]
                about = {"part": example.part, "example": example.id, "kind": kind, "is_negative": is_negative}
                yield {**about, "shard": shard, **vars(hit)}
