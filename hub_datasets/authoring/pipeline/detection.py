"""The stages of a benchmark of contextual phrase detection, in the layout of TRICD's release.

    images → pairs → boxes → export

The source is a table of pairs of images with a phrase that is true of the first image alone, see
`construction.ImagePair`. People write the phrase of the second image or drop the pair, and draw the boxes of the noun
phrases, each on a page of `vl-assay review`. The benchmark `tricd` reads the result.

Source: TRICD (Kamath, Price et al., 2023), section 4.1.1, steps 3 to 5, Figures 3, 9 and 12.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError
from ....metrics.common.storage import with_home, write_text
from ..data.made import JOURNAL_SUFFIX
from ..data.sources import keep_image
from ..data.tables import read_records, read_rows, write_rows
from ..review.construction import ImagePair, read_image_pairs
from ..review.pictures import Pictures
from ..text.phrases import noun_phrases
from .captions import source_settings
from .settings import IMAGES, Settings, reviewed
from .stages import Result, Stage
from .tricd_files import write_tricd

STAGES = ("images", "pairs", "boxes", "export")
ITEMS_FILE, KEPT_FILE = "items.jsonl", "kept.jsonl"


def detection_stages(settings: Settings) -> list[Stage]:
    """Return the stages, in their order."""
    work = settings.work
    copied, pairs, boxes = (work / name / KEPT_FILE for name in STAGES[:-1])
    journals = {name: work / name / f"{name}{JOURNAL_SUFFIX}" for name in ("pairs", "boxes")}
    people = {"annotators": settings.annotators}
    return [
        Stage(work / "images", source_settings(settings), (), partial(_read, settings)),
        Stage(work / "pairs", people, (copied, journals["pairs"]), partial(_check, settings), keeps=True),
        Stage(work / "boxes", people, (pairs, journals["boxes"]), partial(_draw, settings), keeps=True),
        Stage(work / "export", {"name": settings.name}, (pairs, boxes), partial(_export, settings)),
    ]


def _read(settings: Settings, folder: Path) -> Result:
    """Read the pairs, and copy their images, which are named by hashes of their content."""
    source, images = with_home(settings.source), folder / IMAGES
    pictures = Pictures(source.parent)

    def copy(name: str) -> str:
        return Path(keep_image(pictures.path(name).read_bytes(), name, images)).name

    pairs = read_image_pairs(source)[: settings.limit]
    rows = [pair._replace(image=copy(pair.image), second_image=copy(pair.second_image)) for pair in pairs]
    write_rows(rows, folder / KEPT_FILE)
    return {"summary": f"{len(rows):,} pairs of images"}


def _check(settings: Settings, folder: Path) -> Result:
    """Write the pairs that people keep."""
    return _write_reviewed(settings, folder, _kept_pairs(settings, "images"))


def _draw(settings: Settings, folder: Path) -> Result:
    """Write the phrases of the kept pairs with the boxes that people draw."""
    return _write_reviewed(settings, folder, _phrases_to_draw(_kept_pairs(settings, "pairs")))


def _write_reviewed(settings: Settings, folder: Path, items: Sequence[Any]) -> Result:
    rows = reviewed(settings, folder.name, items, folder / ITEMS_FILE).results()
    if not rows:
        raise DataError(f"nothing is left of {len(items):,} items after {folder.name}; give more pairs or decide again")
    write_rows(rows, folder / KEPT_FILE)
    return {"summary": f"{len(rows):,} of {len(items):,} kept"}


def _kept_pairs(settings: Settings, stage: str) -> list[ImagePair]:
    return read_records(settings.work / stage / KEPT_FILE, ImagePair)


def _phrases_to_draw(pairs: Iterable[ImagePair]) -> list[dict[str, Any]]:
    """Return both phrases of each pair as captions of their images, with their noun phrases."""
    sides: list[dict[str, Any]] = [
        {"id": f"{pair.id}#{side}", "image": image, "caption": phrase}
        for pair in pairs
        for side, (image, phrase) in enumerate(((pair.image, pair.phrase), (pair.second_image, pair.second_phrase)))
    ]
    spans = noun_phrases([side["caption"] for side in sides])
    for side, ranges in zip(sides, spans, strict=True):
        caption = side["caption"]
        side["phrases"] = [{"text": caption[start:end], "start": start, "end": end} for start, end in ranges]
    return sides


def _export(settings: Settings, folder: Path) -> Result:
    """Write TRICD's files, and copy the images."""
    phrases = {row["id"]: row["phrases"] for _, row in read_rows(settings.work / "boxes" / KEPT_FILE)}
    pairs = _kept_pairs(settings, "pairs")
    counts = write_tricd(pairs, phrases, Pictures(settings.images), folder, settings.name)
    note = {"made_by": "vl-assay new-benchmark --detection", "name": settings.name}
    write_text(folder / "made.json", json.dumps(note | counts, indent=1) + "\n")
    return {"summary": f"{counts['groups']:,} groups with {counts['boxes']:,} boxes in {settings.folder}", **counts}
