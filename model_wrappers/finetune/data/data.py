"""Training data: captions with their images, hard negatives and hard positives, and what each step draws of them.

What is drawn depends on the seed, the epoch and the sample alone, so that training that was broken off needs to know
nothing but its position to go on as if it had not been.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....hub_datasets.authoring.data.tables import check_unicode
from ....metrics.common.errors import DataError, ScoresError
from ...engine.plan import DECODING_ERRORS, decode
from ._hard_negatives import NEGATIVE_KINDS, POSITIVE_KINDS, add_material, check_kinds
from .reading import Images, read_source

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["NEGATIVE_KINDS", "POSITIVE_KINDS", "Drawn", "Sample", "TrainingSet", "epoch", "read_training_set", "steps"]


class Sample(NamedTuple):
    """A caption of an image.

    Attributes:
        image: the key of its image; captions of one image share it.
        caption: true of the image.
        negatives: captions that are near to it and meant to be false of the image; any number.
        positives: captions that are near to it and meant to be true as well; any number.
        id: what it is called in messages.
    """

    image: str
    caption: str
    negatives: tuple[str, ...] = ()
    positives: tuple[str, ...] = ()
    id: str = ""


class Drawn(NamedTuple):
    """What a step sees of a sample: one of its negatives and one of its positives, None where it has none."""

    image: str
    caption: str
    negative: str | None
    positive: str | None
    id: str


@dataclass(frozen=True)
class TrainingSet:
    """Samples and their images.

    Args:
        reference: where they are from.
        samples: at least one.
        images: what opens an image.
        dropped: how many captions were left out for want of a negative.
        lost: how many of the source's own negatives were left out, as they are true captions or positives of the image.
        source: what else says which captions these are: the split, a limit, options, columns, files.
    """

    reference: str
    samples: Sequence[Sample]
    images: Images
    dropped: int = 0
    lost: int = 0
    source: Mapping[str, Any] = field(default_factory=dict)

    def image_bytes(self, key: str) -> bytes:
        """The file of an image.

        Raises:
            DataError: it cannot be read.
        """
        return self.images.read(key)

    def image(self, key: str) -> Image.Image:
        """An image, decoded.

        Raises:
            DataError: it cannot be read or decoded.
        """
        content = self.image_bytes(key)
        try:
            return decode(content)
        except DECODING_ERRORS as error:
            raise DataError(f"the image {key} of {self.reference} cannot be decoded: {error}") from error

    @cached_property
    def image_keys(self) -> list[str]:
        """The keys of the images, each once, in the order of the samples."""
        return list(dict.fromkeys(sample.image for sample in self.samples))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the samples: other texts, names of images or another order give another one."""
        digest = hashlib.sha256()
        for sample in self.samples:
            digest.update(json.dumps(sample).encode() + b"\n")
        return digest.hexdigest()

    def summary(self) -> dict[str, Any]:
        """What a report says of it: how many captions, images, and captions with a negative or a positive."""
        return {
            "reference": Path(self.reference).name if Path(self.reference).expanduser().exists() else self.reference,
            "captions": len(self.samples),
            "images": len(self.image_keys),
            "with_negative": sum(bool(sample.negatives) for sample in self.samples),
            "with_positive": sum(bool(sample.positives) for sample in self.samples),
            "dropped": self.dropped,
            "lost": self.lost,
            "source": dict(self.source),
        }

    def with_negatives(self) -> TrainingSet:
        """The samples that have a negative, as NegCLIP takes them (ARO, appendix C.1); the others count as dropped.

        Raises:
            DataError: none has one.
        """
        kept = [sample for sample in self.samples if sample.negatives]
        if not kept:
            raise DataError(
                f"none of the {len(self.samples)} captions of {self.reference} has a negative; name kinds of negatives "
                f"to make ({', '.join(NEGATIVE_KINDS)}), a file of candidates, or the column that has them"
            )
        return replace(self, samples=kept, dropped=self.dropped + len(self.samples) - len(kept))


def read_training_set(
    reference: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    split: str = "train",
    negatives: Sequence[str] = (),
    positives: Sequence[str] = (),
    files: Sequence[str | Path] | None = None,
    limit: int | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> TrainingSet:
    """Read captions, and find or make their negatives and positives; no image is decoded.

    Args:
        reference: ``"toy_scenes"`` (five captions of each scene) or ``"toy_scenes/itm"`` and the like, drawn as they
            are needed; another benchmark or part of one that has the split; a folder that ``vl-assay build`` wrote;
            ``"hf://datasets/owner/name[/config]"``; a table (``.csv``, ``.tsv``, ``.jsonl``, ``.json``,
            ``.parquet``) that names files of images, relative to its folder; or a folder of images with
            ``metadata.csv``, ``metadata.jsonl`` or ``metadata.parquet``.
        columns: which column is our `caption`, `image`, `negatives`, `positives` and `id`, such as ``{"caption":
            "title"}``; common names are found without. A cell of captions, negatives or positives may hold a list;
            those of several captions in a row hold for each of them. Rows of one caption of one image become one
            sample.
        split: of a dataset; tables have none.
        negatives: kinds to make, some of ``NEGATIVE_KINDS``, beside those that the source has: ``"negclip"`` (ARO,
            appendix C.1); ``"swap"``, ``"replace"``, ``"add"`` or any rule of ``authoring``, with five texts of a
            kind at most, and none of captions above 2,000 characters; ``"scene:swap"`` and ``"scene:replace"`` for
            images of toy_scenes, false by their scene.
        positives: likewise of ``POSITIVE_KINDS``: ``"swap"`` (order around "and") and ``"replace"`` (a synonym) by
            rule, or true by their scene.
        files: files of candidates, as ``vl-assay generate`` writes them, for these captions.
        limit: how many captions to read at most, from the first on.
        seed: of what is made, any integer.
        data_dir: the user's own copy of a benchmark's sources.
        options: fields of a benchmark's builder, such as ``{"train_scenes": 40_000}``; of toy_scenes there are 2,000
            scenes, or as many as `limit` needs.

    Returns:
        At least one sample, in the order of the source.

    Raises:
        UnknownNameError: a kind, column, part or option that does not exist.
        ScoresError: a limit below 1.
        DataError: nothing is there, a column or an image's file is missing, a text is no text, the benchmark has no
            such split, or scenes are asked for where there are none.
    """
    check_kinds(negatives, positives)
    if limit is not None and limit < 1:
        raise ScoresError(f"limit is {limit}; it must be at least 1, or None for all")
    rows, images = read_source(str(reference), columns or {}, split, limit, data_dir, options or {})
    if not rows:
        raise DataError(f"{reference} has no captions: no rows came")
    check_unicode(str(reference), ((row.id, row.caption, *row.negatives, *row.positives) for row in rows))
    rows, lost = add_material(rows, images, negatives, positives, files or (), seed)
    samples = [Sample(row.image, row.caption, row.negatives, row.positives, row.id) for row in rows]
    given = {
        "split": split if split != "train" else None,
        "limit": limit,
        "columns": dict(columns or {}),
        "candidates": [Path(file).name for file in files or ()],
        "options": dict(options or {}),
    }
    source = {name: value for name, value in given.items() if value}
    return TrainingSet(str(reference), samples, images, lost=lost, source=source)


def steps(training_set: TrainingSet, batch_size: int) -> int:
    """How many batches an epoch has: whole ones only, as the loss depends on their size; one if there is no whole."""
    return max(len(training_set.samples) // batch_size, 1)


def epoch(
    training_set: TrainingSet,
    *,
    epoch: int,
    seed: int,
    batch_size: int,
    neighbours: Mapping[str, Sequence[str]] | None = None,
    start: int = 0,
) -> Iterator[list[Drawn]]:
    """The batches of an epoch: the samples in a new order, each with one of its negatives and of its positives.

    Args:
        training_set: the samples.
        epoch: its number, from 0.
        seed: at least 0. What is drawn of a sample depends on this, the epoch and the sample's place.
        batch_size: samples in a batch, at least 1; the rest that fills none is left out of this epoch.
        neighbours: for each image the keys of the most similar ones (`mining.mine`). One of these joins each sample,
            with one of its captions and that one's negative and positive, as in NegCLIP (ARO, section 4). As there,
            nothing keeps an image from joining that is in the batch already.
        start: how many batches to leave out, where training goes on after these.

    Yields:
        Batches: first the samples, then their neighbours in the same order, twice `batch_size` together; fewer where
        an image has no neighbour with a caption.

    Raises:
        ScoresError: a number out of its range.
    """
    for name, value, least in (
        ("epoch", epoch, 0),
        ("seed", seed, 0),
        ("batch_size", batch_size, 1),
        ("start", start, 0),
    ):
        if value < least:
            raise ScoresError(f"{name} is {value}; it must be at least {least}")
    return _batches(training_set, epoch, seed, batch_size, neighbours, start)


def _batches(
    training_set: TrainingSet,
    epoch: int,
    seed: int,
    batch_size: int,
    neighbours: Mapping[str, Sequence[str]] | None,
    start: int,
) -> Iterator[list[Drawn]]:
    samples = training_set.samples
    order = np.random.default_rng([seed, epoch, 0]).permutation(len(samples))
    # A row for each sample: its negative, its positive, the neighbour, the neighbour's caption, negative and positive.
    chances = np.random.default_rng([seed, epoch, 1]).random((len(samples), 6))
    by_image: dict[str, list[Sample]] = defaultdict(list)
    near = neighbours or {}
    for sample in samples if near else ():
        by_image[sample.image].append(sample)
    for number in range(start, steps(training_set, batch_size)):
        places = order[number * batch_size : (number + 1) * batch_size].tolist()
        drawn = [_draw(samples[place], *chances[place, :2].tolist()) for place in places]
        for place in places if near else ():
            _, _, image, caption, negative, positive = chances[place].tolist()
            known = [key for key in near.get(samples[place].image, ()) if key in by_image]
            if known:
                drawn.append(_draw(_pick(by_image[_pick(known, image)], caption), negative, positive))
        yield drawn


def _draw(sample: Sample, negative: float, positive: float) -> Drawn:
    return Drawn(
        sample.image,
        sample.caption,
        _pick(sample.negatives, negative) if sample.negatives else None,
        _pick(sample.positives, positive) if sample.positives else None,
        sample.id,
    )


def _pick(options: Sequence[Any], chance: float) -> Any:
    """One of the options, each for an equal part of [0, 1)."""
    return options[int(chance * len(options))]
