"""The stages of a benchmark of contextual phrase detection, made as TRICD was; most stages wait for people.

    images → spot → rate → cross → check → boxes → export

Each stage but the first and the last has a page of `vl-assay review`. The result is a folder in the layout of TRICD's
release, which the benchmark `tricd` reads.

Without people a source with boxes is needed, such as ``toy_scenes/detection``: its positive captions are the proposals,
all are kept, each is crossed with the nearest image that has a fitting caption, and the boxes are the source's. In this
case nobody has checked that a caption is false of the other image, and the result records that.

Source: TRICD (Kamath, Price et al., 2023), section 4.1.1, Figures 3, 9, 11 and 12.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ....metrics.common.errors import DataError
from ....metrics.common.storage import write_text
from ...core.repository import BUILD_FILE
from ..data.made import JOURNAL_SUFFIX
from ..data.sources import keep_image, read_captions
from ..data.tables import read_records, read_rows, write_rows
from ..review.construction import KINDS, Group, SpottedProposal, SpottingImage, check_group
from ..review.pictures import Pictures
from ..review.similar import SimilarImages, load_embedder
from ..text.phrases import noun_phrases
from .captions import source_settings
from .settings import IMAGES, Settings, reviewed
from .stages import Result, Stage
from .tricd_files import write_tricd

STAGES = ("images", "spot", "rate", "cross", "check", "boxes", "export")
POSITIVES_FILE, ITEMS_FILE, KEPT_FILE = "positives.jsonl", "items.jsonl", "kept.jsonl"
Row = Mapping[str, Any]


def detection_stages(settings: Settings) -> list[Stage]:
    """Return the stages, in their order."""
    work = settings.work
    results = {name: work / name / KEPT_FILE for name in STAGES}
    review, raters = {"review": settings.review}, {"raters": settings.raters}
    options = {"cross": {"image_model": settings.image_model}, "rate": raters, "boxes": raters}
    steps = [
        Stage(
            work / name,
            review | options.get(name, {}),
            (results[before], work / name / f"{name}{JOURNAL_SUFFIX}"),
            partial(_do_step, name, before, settings),
            keeps=True,
        )
        for before, name in pairwise(STAGES[:-1])
    ]
    reading = source_settings(settings) | review | {"seed": settings.seed}
    first = Stage(work / "images", reading, (), partial(_read, settings))
    reads = (results["check"], results["boxes"])
    return [first, *steps, Stage(work / "export", {"name": settings.name}, reads, partial(_export, settings))]


def _read(settings: Settings, folder: Path) -> Result:
    """Copy the images, in random order; without people also the source's positive captions with their boxes."""
    images, path = folder / IMAGES, Path(settings.source).expanduser()
    images.mkdir(parents=True, exist_ok=True)
    if not settings.review:
        write_rows(_read_positives(settings, images), folder / POSITIVES_FILE)
    elif path.is_dir() and not (path / BUILD_FILE).is_file():
        pictures = Pictures(path)
        for name in pictures.names()[: settings.limit]:
            keep_image(pictures.path(name).read_bytes(), name, images)
    else:
        read_captions(settings.source, **settings.reading, images=images)
    names = Pictures(images).names()
    if not names:
        raise DataError(f"{settings.source} has no images; name a folder with some, or captions with images")
    order = np.random.default_rng(settings.seed).permutation(len(names)).tolist()
    write_rows((SpottingImage(Path(names[row]).stem, names[row]) for row in order), folder / KEPT_FILE)
    return {"summary": f"{len(names):,} images"}


def _do_step(name: str, before: str, settings: Settings, folder: Path) -> Result:
    """Write the rows of the previous stage that people kept; without people, take the decisions from the source."""
    source = settings.work / before / KEPT_FILE
    rows = [row for _, row in read_rows(source)]
    if settings.review:
        items = _phrases_to_draw(rows) if name == "boxes" else map(dict, rows)
        per_item = settings.raters if name in ("rate", "boxes") else None
        result = reviewed(settings, name, items, folder / ITEMS_FILE, per_item).results()
    else:
        result = _WITHOUT_PEOPLE.get(name, lambda settings, rows: [*map(dict, rows)])(settings, rows)
    summary = f"{len(result):,} rows of {len(rows):,}" + ("" if settings.review else ", not seen by people")
    if not result:
        raise DataError(f"nothing is left after {name}: {summary}; give more images, or decide again")
    write_rows(result, folder / KEPT_FILE)
    return {"summary": summary}


def cross_by_similarity(settings: Settings, rows: Sequence[Row]) -> list[Group]:
    """Group each proposal with one of the nearest image that fits; use each pair of images once."""
    proposals = [SpottedProposal(**row) for row in rows]
    similar = SimilarImages(Pictures(settings.images), load_embedder(settings.image_model))
    by_image: dict[str, list[SpottedProposal]] = {}
    for proposal in proposals:
        by_image.setdefault(proposal.image, []).append(proposal)
    groups, used = list[Group](), set[frozenset[str]]()
    for proposal in proposals:
        true_here = {other.text.lower() for other in by_image[proposal.image]}
        for name, _ in similar.nearest(proposal.image):
            fitting = [other.text for other in by_image.get(name, ()) if other.kind == proposal.kind]
            images = frozenset((proposal.image, name))
            if images in used or proposal.text.lower() in map(str.lower, fitting):
                continue
            group = _fitting_group(proposal, name, [text for text in fitting if text.lower() not in true_here])
            if group is not None:
                groups.append(group)
                used.add(images)
                break
    return groups


def _fitting_group(proposal: SpottedProposal, image: str, captions: Sequence[str]) -> Group | None:
    """Return the group of a proposal and the first caption of another image that fits; None if none does."""
    for caption in captions:
        group = Group(proposal.id, proposal.kind, proposal.image, proposal.text, image, caption)
        with suppress(DataError):
            check_group(group)
            return group
    return None


def _sides(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return both positive captions of each group with their images."""
    return [
        {"id": f"{row['id']}#{side}", "image": row[f"image_{side}"], "caption": row[f"caption_{side}"]}
        for row in rows
        for side in (0, 1)
    ]


def _phrases_to_draw(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the captions of groups with their noun phrases."""
    sides = _sides(rows)
    spans = noun_phrases([side["caption"] for side in sides])
    return [
        side | {"phrases": [{"text": side["caption"][start:end], "start": start, "end": end} for start, end in ranges]}
        for side, ranges in zip(sides, spans, strict=True)
    ]


def _proposals(settings: Settings, rows: Sequence[Row]) -> list[SpottedProposal]:
    return [SpottedProposal(row["id"], row["image"], row["caption"], row["kind"]) for row in _positives(settings)]


def _boxes_of_source(settings: Settings, rows: Sequence[Row]) -> list[dict[str, Any]]:
    known = {(row["image"], row["caption"]): row["phrases"] for row in _positives(settings)}
    return [{"id": side["id"], "phrases": known[side["image"], side["caption"]]} for side in _sides(rows)]


# The steps that change their rows without people.
_WITHOUT_PEOPLE: dict[str, Callable[[Settings, Sequence[Row]], Sequence[Any]]] = {
    "spot": _proposals,
    "cross": cross_by_similarity,
    "boxes": _boxes_of_source,
}


def _export(settings: Settings, folder: Path) -> Result:
    """Write TRICD's files, and copy the images."""
    groups = read_records(settings.work / "check" / KEPT_FILE, Group)
    phrases = {row["id"]: row["phrases"] for _, row in read_rows(settings.work / "boxes" / KEPT_FILE)}
    counts = write_tricd(groups, phrases, Pictures(settings.images), folder, settings.name)
    warning = "" if settings.review else ". Nobody has checked that captions are false of the other images"
    note = {"made_by": "vl-assay new-benchmark --detection", "name": settings.name, "reviewed": settings.review}
    write_text(folder / "made.json", json.dumps(note | counts, indent=1) + "\n")
    summary = f"{counts['groups']:,} groups with {counts['boxes']:,} boxes in {settings.folder}{warning}"
    return {"summary": summary, **counts}


def _read_positives(settings: Settings, images: Path) -> list[dict[str, Any]]:
    """Return the positive captions of annotated detection rows, with phrases and boxes (x, y, width, height)."""
    from ...core.examples import load_examples

    tasks = load_examples(settings.source, task_types=("detection",), data_dir=settings.data_dir)
    rows, limit = [], settings.limit
    for data in tasks:
        positives = (each for each in data.examples if each.positive and all(phrase.boxes for phrase in each.phrases))
        for example in islice(positives, limit and limit - len(rows)):
            name = data.image_names.get(example.images[0]) or "image"
            phrases = [
                {"text": phrase.text, "start": phrase.start, "end": phrase.end}
                | {"boxes": [[x, y, right - x, bottom - y] for x, y, right, bottom in phrase.boxes]}
                for phrase in example.phrases
            ]
            kind = example.category if example.category in KINDS else KINDS[len(phrases) > 1]
            row = {"id": example.id, "caption": example.captions[0], "phrases": phrases, "kind": kind}
            rows.append(row | {"image": Path(keep_image(data.image_bytes(example.images[0]), name, images)).name})
    if not rows:
        raise DataError(f"{settings.source} has no positive captions with boxes; leave out --no-review to draw them")
    return rows


def _positives(settings: Settings) -> list[Row]:
    return [row for _, row in read_rows(settings.work / "images" / POSITIVES_FILE)]
