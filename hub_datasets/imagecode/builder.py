"""ImageCoDe (Krojer et al., ACL 2022) as a `datasets` builder.

A row is a description and the ten images of a set, frames of a video or similar photographs; it was written for one of
them. That one comes first, the others in their order. The text is exactly as released.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from ..sources.columns import columns
from ..sources.released_rows import Images, ReleasedRows, Rows
from ..sources.source_files import (
    ImagePaths,
    Row,
    SourceFile,
    VerifiedConfig,
    first_file,
    is_file_name,
    make_configs,
)

SIZE = 10
COUNTS = {"valid": 2_302, "train": 16_594}
_GET = (
    "Get data/ of https://github.com/McGill-NLP/imagecode, and image-sets.zip of https://zenodo.org/record/6518944, to "
    "be unpacked as image-sets/ beside it"
)
_SPLITS = {"valid": "validation", "train": "train"}
_PHOTOGRAPHS = "open-images"  # begins the names of the sets that are not frames of a video
_NAME = re.compile(r"img(\d{1,9})\.jpg")
_SHORTEST = 2  # characters: one description is "T"


def _rows_file(config: str) -> Rows:
    name = f"data/{config}_data.json"
    file = SourceFile(name, (f"{config}_data.json",), remedy=_GET)
    return Rows(file, {"set": str, "index": str, "text": str}, COUNTS[config])


class ImageCoDe(ReleasedRows):
    """Two configurations, `valid` and `train`, each with its split; the card has the columns and the layout."""

    BUILDER_CONFIGS: ClassVar = make_configs(VerifiedConfig, "ImageCoDe", COUNTS)
    GET_SOURCES = _GET
    ROWS: ClassVar = {config: _rows_file(config) for config in COUNTS}
    IMAGES = Images(("image-sets", "data/image-sets", "data"), _GET)

    @property
    def _split(self) -> str:
        return _SPLITS[self.config.name]

    def _columns(self) -> dict[str, Any]:
        images = " ".join(f"image_{place} filename_{place}" for place in range(SIZE))
        return columns(f"id category set caption {images} defect")

    def _read_files(self, part: Rows, dl_manager: Any) -> Iterator[tuple[str, list[tuple[str, str, Any]]]]:
        for origin, sets in super()._read_files(part, dl_manager):
            named: list[tuple[str, str, Any]] = []
            for label, name, texts in sets:
                if isinstance(texts, dict):
                    records = [{"set": name, "index": index, "text": text} for index, text in texts.items()]
                    named += [
                        (f"{label}, {record['index']!r}", f"{name}/{record['index']}", record) for record in records
                    ]
                else:  # such as the list of texts that the unlabelled test set has: `check_rows` refuses it
                    named.append((label, name, texts))
            yield origin, named

    def _problem(self, record: Row) -> str | None:
        if not is_file_name(record["set"]):
            return f"the set {record['set']!r} is no bare name"
        if record["index"] not in map(str, range(SIZE)):
            return f"index is {record['index']!r}, not a number from 0 to {SIZE - 1}"
        return None if record["text"].strip() else "the text is empty"

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        right, name = int(record["index"]), record["set"]
        places = [right, *(place for place in range(SIZE) if place != right)]
        yield {
            "id": f"{part}/{key}",
            "category": "static" if name.startswith(_PHOTOGRAPHS) else "video",
            "set": name,
            "caption": record["text"],
            "defect": "too short" if len(record["text"].strip()) < _SHORTEST else "",
        } | {f"filename_{number}": _image_name(name, place) for number, place in enumerate(places)}

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        folder: Path = self._folder
        folders = [*(folder / place for place in self.IMAGES.folders), folder]
        found: ImagePaths = {}
        for name in dict.fromkeys(row["set"] for row in rows):
            files = images_of([each / name for each in folders])
            found |= {_image_name(name, place): first_file(files[place : place + 1]) for place in range(SIZE)}
        return self._require_images(rows, found, folder, self.IMAGES.remedy)


def _image_name(name: str, place: int) -> str:
    """Return the name of an image by its place: the frame's number in its file's name is in no other file."""
    return f"{name}_{place}.jpg"


def images_of(folders: list[Path]) -> list[Path]:
    """The ten images of a set in the order of their numbers, from the first folder that is there.

    None if there are more or fewer: the places count the sorted files, so that nobody knows which is which.
    """
    folder = next((each for each in folders if each.is_dir()), None)
    numbers = {} if folder is None else {path: _NAME.fullmatch(path.name) for path in folder.iterdir()}
    files = sorted((int(match[1]), path) for path, match in numbers.items() if match)
    return [path for _, path in files] if len(files) == SIZE else []
