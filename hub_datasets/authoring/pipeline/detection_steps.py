"""The stages of a detection benchmark: what people decide in each, or what is taken from the source without them.

See `detection`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ....metrics.common.errors import DataError
from ....metrics.common.storage import write_atomically, write_text
from ...core.image_keys import content_key
from ...core.repository import BUILD_FILE
from ..data.sources import read_captions
from ..data.tables import read_rows
from ..review.boxes import DECISIONS as BOX_DECISIONS
from ..review.boxes import JOURNAL_FILE as BOXES_FILE
from ..review.boxes import is_decided
from ..review.crossing import Group, check_group, read_groups
from ..review.journal import DecisionJournal
from ..review.pictures import Pictures
from ..review.proposals import RATERS, Picture, Proposal, read_pictures, read_proposals
from ..review.review import open_review
from ..review.similar import HISTOGRAM, SimilarImages, load_embedder
from ..text.phrases import noun_phrases
from .folder import IMAGES
from .tricd_files import write_tricd
from .workflow import Result, Waiting

IMAGES_FILE, POSITIVES_FILE, ITEMS_FILE, KEPT_FILE = "images.jsonl", "positives.jsonl", "items.jsonl", "kept.jsonl"
# AMT workers who drew the boxes of an image (section 4.1.1, step 5).
DRAWERS = 3


@dataclass(frozen=True)
class DetectionSettings:
    """The settings of ``vl-assay new-benchmark --detection``.

    Args:
        name: the benchmark's name, for messages and the `source` of its rows.
        source: a folder of images, or what `sources.read_captions` reads; without a review, annotated detection rows.
        work: the folder of the stages.
        reading: further arguments of `sources.read_captions`: columns, split, limit, data_dir.
        review: whether people decide.
        annotators: who may; anybody if empty.
        raters, drawers: how many people rate each proposal, and draw each box.
        image_model: finds similar images, see `similar.load_embedder`.
        seed: of the order in which images are shown.
    """

    name: str
    source: str
    work: Path
    reading: Mapping[str, Any] = field(default_factory=dict)
    review: bool = True
    annotators: tuple[str, ...] = ()
    raters: int = RATERS
    drawers: int = DRAWERS
    image_model: str = HISTOGRAM
    seed: int = 0

    @property
    def images(self) -> Path:
        """The folder of the images."""
        return self.work / "images" / IMAGES

    @property
    def result(self) -> Path:
        """The folder in TRICD's layout."""
        return self.work / "export"


def do_images(settings: DetectionSettings, folder: Path) -> Result:
    """Copy the images, in random order; without people also the source's positive captions with their boxes."""
    images = folder / IMAGES
    images.mkdir(parents=True, exist_ok=True)
    if not settings.review:
        write_lines(_read_positives(settings, images), folder / POSITIVES_FILE)
    elif (path := Path(settings.source).expanduser()).is_dir() and not (path / BUILD_FILE).is_file():
        pictures = Pictures(path)
        for name in pictures.names()[: settings.reading.get("limit")]:
            pictures.load(name)
            _keep(images, pictures.path(name).read_bytes(), Path(name).suffix)
    else:
        read_captions(settings.source, **settings.reading, images=images)
    names = Pictures(images).names()
    if not names:
        raise DataError(f"{settings.source} has no images; name a folder with some, or captions with images")
    order = np.random.default_rng(settings.seed).permutation(len(names)).tolist()
    write_lines((Picture(Path(names[place]).stem, names[place]) for place in order), folder / IMAGES_FILE)
    return {"summary": f"{len(names):,} images"}


def do_spot(settings: DetectionSettings, folder: Path) -> Result:
    """Step 1: surprising objects and relations, or the source's captions."""
    if not settings.review:
        positives = _positives(settings)
        found = [Proposal(row["id"], row["image"], row["caption"], row["kind"]) for row in positives]
        return _keep_all(folder, found, "captions of the source")
    items = read_pictures(settings.work / "images" / IMAGES_FILE)
    desk = _open(settings, folder, "spot", items)
    _wait(settings, folder, "spot", desk.undecided(), "images")
    found = desk.results()
    return _kept(
        folder, found, f"{len(found):,} proposals in {len({each.image for each in found}):,} of {len(items):,} images"
    )


def do_rate(settings: DetectionSettings, folder: Path) -> Result:
    """Step 2: the proposals with a mean rating of at least 2.5."""
    items = read_proposals(settings.work / "spot" / KEPT_FILE)
    if not settings.review:
        return _keep_all(folder, items, "proposals")
    desk = _open(settings, folder, "rate", items)
    _wait(settings, folder, "rate", desk.missing(settings.raters), "ratings")
    found = desk.results()
    return _kept(folder, found, f"{len(found):,} of {len(items):,} proposals kept")


def do_cross(settings: DetectionSettings, folder: Path) -> Result:
    """Step 3: a second image and caption for each proposal."""
    items = read_proposals(settings.work / "rate" / KEPT_FILE)
    if settings.review:
        desk = _open(settings, folder, "cross", items)
        _wait(settings, folder, "cross", desk.undecided(), "proposals")
        found = desk.results()
    else:
        found = cross_by_similarity(items, settings)
    return _kept(folder, found, f"{len(found):,} groups of {len(items):,} proposals")


def cross_by_similarity(proposals: list[Proposal], settings: DetectionSettings) -> list[Group]:
    """For each proposal the nearest image with a proposal that makes a group with it; each pair of images once."""
    similar = SimilarImages(Pictures(settings.images), load_embedder(settings.image_model))
    by_image: dict[str, list[Proposal]] = {}
    for each in proposals:
        by_image.setdefault(each.image, []).append(each)
    found, used = list[Group](), set[frozenset[str]]()
    for own in proposals:
        true_here = {each.text.lower() for each in by_image[own.image]}
        for name, _ in similar.nearest(own.image):
            fitting = [each for each in by_image.get(name, ()) if each.kind == own.kind]
            if frozenset((own.image, name)) in used or own.text.lower() in {each.text.lower() for each in fitting}:
                continue
            groups = [Group(own.id, own.kind, own.image, own.text, name, each.text) for each in fitting]
            group = next((g for g in groups if g.caption_1.lower() not in true_here and _is_group(g)), None)
            if group is not None:
                found.append(group)
                used.add(frozenset((own.image, name)))
                break
    return found


def do_check(settings: DetectionSettings, folder: Path) -> Result:
    """Step 4: both directions of each group, and the spelling of its captions."""
    items = read_groups(settings.work / "cross" / KEPT_FILE)
    if not settings.review:
        return _keep_all(folder, items, "groups")
    desk = _open(settings, folder, "check", items)
    _wait(settings, folder, "check", desk.undecided(), "groups")
    found = desk.results()
    return _kept(folder, found, f"{len(found):,} of {len(items):,} groups kept")


def do_boxes(settings: DetectionSettings, folder: Path) -> Result:
    """Steps 4 and 5: the noun phrases of each positive caption, and their boxes."""
    groups = read_groups(settings.work / "check" / KEPT_FILE)
    sides = [(f"{group.id}#{side}", *group[2 + 2 * side : 4 + 2 * side]) for group in groups for side in (0, 1)]
    if not settings.review:
        known = {(row["image"], row["caption"]): row["phrases"] for row in _positives(settings)}
        rows = [{"id": id, "phrases": known[image, caption]} for id, image, caption in sides]
        return _keep_all(folder, rows, "captions with the source's boxes")
    spans = noun_phrases([caption for _, _, caption in sides])
    items = [
        {
            "id": id,
            "image": image,
            "caption": caption,
            "phrases": [{"text": caption[start:end], "start": start, "end": end} for start, end in own],
        }
        for (id, image, caption), own in zip(sides, spans, strict=True)
    ]
    desk = _open(settings, folder, "boxes", items)
    shown = {(item["id"], number): phrase["text"] for item in items for number, phrase in enumerate(item["phrases"])}
    standing = DecisionJournal(folder / BOXES_FILE, BOX_DECISIONS).standing(shown).values()
    drawn = {key: sum(is_decided(own.get(key)) for own in standing) for key in shown}
    _wait(settings, folder, "boxes", sum(max(0, settings.drawers - number) for number in drawn.values()), "phrases")
    summary = desk.export(folder / KEPT_FILE)
    return {"summary": summary.partition(" written")[0]}


def do_export(settings: DetectionSettings, folder: Path) -> Result:
    """Write TRICD's files, and copy the images."""
    groups = read_groups(settings.work / "check" / KEPT_FILE)
    phrases = {row["id"]: row["phrases"] for _, row in read_rows(settings.work / "boxes" / KEPT_FILE)}
    counts = write_tricd(groups, phrases, Pictures(settings.images), folder, settings.name)
    seen = "" if settings.review else ". Nobody has checked that captions are false of the other images"
    note = {"made_by": "vl-assay new-benchmark --detection", "name": settings.name, "reviewed": settings.review}
    write_text(folder / "made.json", json.dumps(note | counts, indent=1) + "\n")
    summary = f"{counts['groups']:,} groups with {counts['boxes']:,} boxes in {settings.result}{seen}"
    return {"summary": summary, **counts}


def _read_positives(settings: DetectionSettings, images: Path) -> list[dict[str, Any]]:
    """The positive captions of annotated detection rows, with phrases and boxes (x, y, width, height)."""
    from ...core.examples import load_examples

    reading = settings.reading
    found = load_examples(settings.source, task_types=("detection",), data_dir=reading.get("data_dir"))
    rows, limit = [], reading.get("limit")
    for data in found:
        positives = (each for each in data.examples if each.positive and all(phrase.boxes for phrase in each.phrases))
        for example in islice(positives, limit and limit - len(rows)):
            suffix = Path(data.image_names.get(example.images[0], "")).suffix or ".png"
            phrases = [
                {
                    "text": phrase.text,
                    "start": phrase.start,
                    "end": phrase.end,
                    "boxes": [[x, y, right - x, bottom - y] for x, y, right, bottom in phrase.boxes],
                }
                for phrase in example.phrases
            ]
            kind = example.category if example.category in ("object", "relation") else ""
            row = {"id": example.id, "caption": example.captions[0], "phrases": phrases}
            row["kind"] = kind or ("relation" if len(phrases) > 1 else "object")
            rows.append(row | {"image": _keep(images, data.image_bytes(example.images[0]), suffix)})
    if not rows:
        raise DataError(f"{settings.source} has no positive captions with boxes; leave out --no-review to draw them")
    return rows


def _positives(settings: DetectionSettings) -> list[dict[str, Any]]:
    return [dict(row) for _, row in read_rows(settings.work / "images" / POSITIVES_FILE)]


def _keep(images: Path, content: bytes, suffix: str) -> str:
    """The name of an image's copy, by its content."""
    path = images / (content_key(content) + suffix.lower())
    if not path.exists():
        write_atomically(path, content)
    return path.name


def _is_group(group: Group) -> bool:
    try:
        check_group(group)
    except DataError:
        return False
    return True


def _open(settings: DetectionSettings, folder: Path, page: str, items: list[Any]) -> Any:
    path = folder / ITEMS_FILE
    write_lines(items, path)
    return open_review(path, out=folder, images=settings.images, page=page, annotators=settings.annotators)


def _wait(settings: DetectionSettings, folder: Path, page: str, number: int, what: str) -> None:
    """Raise `Waiting` if a number of decisions is missing."""
    if not number:
        return
    command = ["vl-assay", "review", str(folder / ITEMS_FILE), "--page", page, "--images", str(settings.images)]
    command += ["--image-model", settings.image_model] if page == "cross" and settings.image_model != HISTOGRAM else []
    command += ["--annotators", ",".join(settings.annotators)] if settings.annotators else []
    raise Waiting(
        f"people have still to decide {number:,} {what}, with\n\n    {shlex.join(command)}\n\nand then this command "
        "again"
    )


def _kept(folder: Path, rows: list[Any], summary: str) -> Result:
    if not rows:
        raise DataError(f"nothing is left after {folder.name}: {summary}; give more images, or decide again")
    write_lines(rows, folder / KEPT_FILE)
    return {"summary": summary}


def _keep_all(folder: Path, rows: list[Any], what: str) -> Result:
    return _kept(folder, rows, f"{len(rows):,} {what}, not seen by people")


def write_lines(rows: Iterable[Any], path: Path) -> None:
    """Write dictionaries or named tuples as JSON lines, atomically."""
    plain = (row if isinstance(row, dict) else row._asdict() for row in rows)
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in plain))
