"""The builder of benchmarks that ``vl-assay new-benchmark`` makes: pairs and images in the folder of the benchmark."""

from __future__ import annotations

import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from .builders import SourceBuilder, SourceConfig
from .records import Row
from .source_files import ImagePaths, SourceFile, find_images

_SCHEMA = {"id": str, "image": str, "positive": str, "negative": str, "category": str}


class MadePairs(SourceBuilder):
    """A configuration for each kind of hard negatives, with one split `test`.

    A benchmark sets ``FOLDER``, which holds ``pairs.jsonl`` and perhaps ``images.zip``, and ``SHA256`` of the former.
    Other images are searched in `data_dir` and in its folder ``images``; without `data_dir` where ``vl-assay
    new-benchmark`` copied them, next to the folder.
    """

    FOLDER: ClassVar[Path]
    SHA256: ClassVar[str]
    BUILDER_CONFIG_CLASS = SourceConfig
    IS_DOWNLOADED = True
    GET_SOURCES = "Leave it out to use the builder's own images"
    COLUMNS = "id category image filename caption negative_caption"

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        file = SourceFile(
            "pairs.jsonl", checksum=f"sha256:{self.SHA256}", remedy="Copy the whole folder of the benchmark"
        )
        rows, _ = file.rows(self.FOLDER, _SCHEMA)
        return [
            {
                "id": row["id"],
                "category": row["category"],
                "filename": row["image"],
                "caption": row["positive"],
                "negative_caption": row["negative"],
            }
            for row in rows.values()
            if row["category"] == self.config.name
        ]

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        folder, archive = self._folder or self.FOLDER.parent / "captions", self.FOLDER / "images.zip"
        names = dict.fromkeys(row["filename"] for row in rows)
        paths = find_images(names, [folder, folder / "images"] if folder.is_dir() else [])
        if archive.is_file():
            with zipfile.ZipFile(archive) as opened:
                inside = names.keys() & opened.namelist()
            paths |= {name: str(archive) for name in inside if paths[name] is None}
        return self._require_images(rows, paths, self._folder or archive, "Pass data_dir, a folder that holds them")

    def _image_file(self, row: Row, column: str, path: str) -> dict[str, Any]:
        if Path(path) != self.FOLDER / "images.zip":
            return super()._image_file(row, column, path)
        name = row["filename"]
        return {"path": name, "bytes": _archive(path, Path(path).stat().st_mtime_ns).read(name)}


@lru_cache(1)
def _archive(path: str, changed: int) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)
