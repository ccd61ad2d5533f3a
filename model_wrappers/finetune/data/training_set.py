"""Training sets: captions with their images, hard negatives and hard positives."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....hub_datasets.authoring.data.tables import check_unicode
from ....hub_datasets.core.images import DECODING_ERRORS, decode
from ....metrics.common.errors import DataError, ScoresError, check_known
from ....metrics.common.storage import with_home
from .captions import read_source
from .hard_negatives import NEGATIVE_KINDS, POSITIVE_KINDS, add_hard_captions
from .samples import ImageOpener, Sample

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["NEGATIVE_KINDS", "POSITIVE_KINDS", "Sample", "TrainingSet", "read_training_set"]


@dataclass(frozen=True)
class TrainingSet:
    """Samples and their images.

    Args:
        reference: the source.
        samples: at least one.
        images: opens an image by its key.
        dropped: the number of captions left out because they have no negative.
        lost: the number of the source's own negatives left out because they are captions or positives of the image.
        source: the arguments that chose the captions: split, limit, options, columns, files.
    """

    reference: str
    samples: Sequence[Sample]
    images: ImageOpener
    dropped: int = 0
    lost: int = 0
    source: Mapping[str, Any] = field(default_factory=dict)

    def image(self, key: str) -> Image.Image:
        """An image, decoded.

        Raises:
            DataError: it cannot be read or decoded.
        """
        content = self.images.read(key)
        try:
            return decode(content)
        except DECODING_ERRORS as error:
            raise DataError(f"the image {key} of {self.reference} cannot be decoded: {error}") from error

    @cached_property
    def image_keys(self) -> list[str]:
        """The distinct keys of the images, in the order of the samples."""
        return list(dict.fromkeys(sample.image for sample in self.samples))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the samples: it changes with texts, names of images and their order."""
        digest = hashlib.sha256()
        for sample in self.samples:
            digest.update(json.dumps(sample).encode() + b"\n")
        return digest.hexdigest()

    def summary(self) -> dict[str, Any]:
        """Reference, source and counts, for reports."""
        return {
            "reference": Path(self.reference).name if with_home(self.reference).exists() else self.reference,
            "captions": len(self.samples),
            "images": len(self.image_keys),
            "with_negative": sum(bool(sample.negatives) for sample in self.samples),
            "with_positive": sum(bool(sample.positives) for sample in self.samples),
            "dropped": self.dropped,
            "lost": self.lost,
            "source": dict(self.source),
        }

    def with_negatives(self) -> TrainingSet:
        """The samples that have a negative (ARO, appendix C.1); the others count as dropped."""
        samples = [sample for sample in self.samples if sample.negatives]
        return replace(self, samples=samples, dropped=self.dropped + len(self.samples) - len(samples))

    def frozen(self, seed: int) -> TrainingSet:
        """Return each sample with one of its negatives and positives (*Hard Positives*, section 5.1).

        The choice depends on the seed, at least 0, and on the sample's index and texts.
        """
        chances = np.random.default_rng([seed, 0, 2]).random((len(self.samples), 2)).tolist()
        samples = []
        for sample, (first, second) in zip(self.samples, chances, strict=True):
            texts = pick(sample.negatives, first), pick(sample.positives, second)
            negatives, positives = (() if text is None else (text,) for text in texts)
            samples.append(sample._replace(negatives=negatives, positives=positives))
        return replace(self, samples=samples)


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
    """Read captions, and read or make their negatives and positives; no image is decoded.

    Args:
        reference: ``"toy_scenes"`` (five captions of each scene) or ``"toy_scenes/itm"`` and the like, rendered on
            demand; a folder that ``vl-assay build`` wrote and that has the split;
            ``"hf://datasets/owner/name[/config]"``; a table (``.csv``, ``.tsv``, ``.jsonl``, ``.json``,
            ``.parquet``) with the files of images, relative to its folder; a folder of images with ``metadata.csv``,
            ``metadata.jsonl`` or ``metadata.parquet``; or COCO's ``captions_train2017.json`` or Karpathy's
            ``dataset_coco.json`` (see `coco`).
        columns: the columns of `caption`, `image`, `negatives`, `positives` and `id`, such as ``{"caption":
            "title"}``; common names are recognised. A cell of captions, negatives or positives may hold a list;
            negatives and positives belong to all captions of their row. Rows with the same image and caption become
            one sample.
        split: of a dataset; tables have none.
        negatives: kinds to make, of ``NEGATIVE_KINDS``, in addition to the source's negatives: ``"negclip"`` (ARO,
            appendix C.1); ``"swap"``, ``"replace"``, ``"add"`` or any rule of ``authoring``, at most five texts of a
            kind and none for captions above 2,000 characters; ``"scene:swap"`` and ``"scene:replace"`` for images of
            toy_scenes, false by their scene.
        positives: kinds to make, of ``POSITIVE_KINDS``: ``"swap"`` (order around "and") and ``"replace"`` (a synonym)
            by rule, or true by their scene.
        files: files of candidates for these captions, as ``vl-assay generate`` writes them.
        limit: the number of captions to read at most, from the first.
        seed: of the texts that are made, any integer.
        data_dir: the folder of COCO's ``train2014`` and the like.
        options: fields of the builder of toy_scenes, such as ``{"train_scenes": 40_000}``; it has 2,000 scenes, or as
            many as `limit` needs.

    Returns:
        At least one sample, in the order of the source.

    Raises:
        UnknownNameError: a kind, column, part or option that does not exist.
        ScoresError: a limit below 1.
        DataError: an empty source, a missing column, image or split, a cell that is not text, or scenes for images
            that are not of toy_scenes.
    """
    check_known("kind of negatives", negatives, NEGATIVE_KINDS)
    check_known("kind of positives", positives, POSITIVE_KINDS)
    if limit is not None and limit < 1:
        raise ScoresError(f"limit is {limit}; it must be at least 1, or None for all")
    samples, images = read_source(str(reference), columns or {}, split, limit, data_dir, options or {})
    if not samples:
        raise DataError(f"{reference} has no captions: no rows came")
    check_unicode(
        str(reference), ((sample.id, sample.caption, *sample.negatives, *sample.positives) for sample in samples)
    )
    samples, lost = add_hard_captions(samples, images, negatives, positives, files or (), seed)
    facts = {
        "split": split if split != "train" else None,
        "limit": limit,
        "columns": dict(columns or {}),
        "candidates": [Path(file).name for file in files or ()],
        "options": dict(options or {}),
    }
    source = {name: value for name, value in facts.items() if value}
    return TrainingSet(str(reference), samples, images, lost=lost, source=source)


def pick(options: Sequence[Any], chance: float) -> Any:
    """Return one of the options, each for an equal part of [0, 1), or None without options."""
    return options[int(chance * len(options))] if options else None
