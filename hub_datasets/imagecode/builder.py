"""ImageCoDe (Krojer et al., ACL 2022) as a `datasets` builder.

A row is a description and the ten images of a set, frames of a video or similar photographs; it was written for one of
them. That one comes first, the others in their order. The text is exactly as released.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from ..sources.builders import Images, ReleasedRows, Rows, VerifiedConfig, make_configs
from ..sources.columns import columns
from ..sources.downloads import download, looked_in
from ..sources.records import Row
from ..sources.source_files import ImagePaths, SourceFile, first_file, is_file_name

SIZE = 10
COUNTS = {"valid": 2_302, "train": 16_594}
_GET = (
    "Get data/ of https://github.com/McGill-NLP/imagecode, and image-sets.zip of https://zenodo.org/record/6518944, to "
    "be unpacked as image-sets/ beside it"
)
_URL = "https://raw.githubusercontent.com/McGill-NLP/imagecode/15b993f545c6e659d80afa133c313f2b377e89f5"
_SETS = "https://zenodo.org/records/6518944/files/image-sets.zip"
_SPLITS = {"valid": "validation", "train": "train"}
_PHOTOGRAPHS = "open-images"  # begins the names of the sets that are not frames of a video
_NAME = re.compile(r"img(\d{1,9})\.jpg")
_SHORTEST = 2  # characters: one description is "T"


def _rows_file(config: str) -> Rows:
    name = f"data/{config}_data.json"
    file = SourceFile(name, (f"{config}_data.json",), f"{_URL}/{name}")
    return Rows(file, {"set": str, "index": str, "text": str}, COUNTS[config])


class ImageCoDe(ReleasedRows):
    """Two configurations, `valid` and `train`, each with its split; the card has the columns and the layout."""

    BUILDER_CONFIGS: ClassVar = make_configs(VerifiedConfig, "ImageCoDe", COUNTS)
    IS_DOWNLOADED = True
    ROWS: ClassVar = {config: _rows_file(config) for config in COUNTS}
    IMAGES = Images(("image-sets", "data/image-sets", "data"), _GET)

    @property
    def _split(self) -> str:
        return _SPLITS[self.config.name]

    def _columns(self) -> dict[str, Any]:
        images = " ".join(f"image_{position} filename_{position}" for position in range(SIZE))
        return columns(f"id category set caption {images} defect")

    def _read_files(self, part: Rows, dl_manager: Any) -> Iterator[tuple[str, list[tuple[str, str, Any]]]]:
        for origin, sets in super()._read_files(part, dl_manager):
            addresses: list[tuple[str, str, Any]] = []
            for label, name, texts in sets:
                if isinstance(texts, dict):
                    records = [{"set": name, "index": index, "text": text} for index, text in texts.items()]
                    addresses += [
                        (f"{label}, {record['index']!r}", f"{name}/{record['index']}", record) for record in records
                    ]
                else:  # such as the list of texts that the unlabelled test set has: `check_rows` refuses it
                    addresses.append((label, name, texts))
            yield origin, addresses

    def _problem(self, record: Row) -> str | None:
        if not is_file_name(record["set"]):
            return f"the set {record['set']!r} is no bare name"
        if record["index"] not in map(str, range(SIZE)):
            return f"index is {record['index']!r}, not a number from 0 to {SIZE - 1}"
        return None if record["text"].strip() else "the text is empty"

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        right, name = int(record["index"]), record["set"]
        positions = [right, *(position for position in range(SIZE) if position != right)]
        yield {
            "id": f"{part}/{key}",
            "category": "static" if name.startswith(_PHOTOGRAPHS) else "video",
            "set": name,
            "caption": record["text"],
            "defect": "too short" if len(record["text"].strip()) < _SHORTEST else "",
        } | {f"filename_{number}": _image_name(name, position) for number, position in enumerate(positions)}

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        names, subfolders = dict.fromkeys(row["set"] for row in rows), (*self.IMAGES.folders, ".")
        folder, where = self._folder, str(self._folder)
        if not folder or not any(
            (folder / subfolder / name).is_dir() for subfolder in (*self.IMAGES.folders, ".") for name in names
        ):
            with looked_in(folder, [f"{subfolder}/{min(names)}" for subfolder in self.IMAGES.folders]):
                folder, where = Path(download(dl_manager, _SETS, _GET, extract=True)), _SETS
            self._note("images", where, folder)
        paths: ImagePaths = {}
        for name in names:
            files = images_of([folder / subfolder / name for subfolder in subfolders])
            paths |= {
                _image_name(name, position): first_file(files[position : position + 1]) for position in range(SIZE)
            }
        return self._require_images(rows, paths, where, self.IMAGES.remedy)


def _image_name(name: str, position: int) -> str:
    """Return the name of an image by its position: the frame's number in its file's name is in no other file."""
    return f"{name}_{position}.jpg"


def images_of(folders: list[Path]) -> list[Path]:
    """Return the ten images of a set in the order of their numbers, from the first existing folder.

    None if there are more or fewer: the positions count the sorted files, so that nobody knows which is which.
    """
    folder = next((candidate for candidate in folders if candidate.is_dir()), None)
    matches = {} if folder is None else {path: _NAME.fullmatch(path.name) for path in folder.iterdir()}
    files = sorted((int(match[1]), path) for path, match in matches.items() if match)
    return [path for _, path in files] if len(files) == SIZE else []
