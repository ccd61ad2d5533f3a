"""The builder of benchmarks that ``vl-assay new-benchmark`` makes: pairs and images in the folder of the benchmark."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, ClassVar

from .released_rows import parse_records
from .source_files import ImagePaths, Row, SourceBuilder, SourceConfig, SourceFile, check_rows, find_images
from .stored_images import member_address

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
        checksum, remedy = f"sha256:{self.SHA256}", "Copy the whole folder of the benchmark"
        payload, origin = SourceFile("pairs.jsonl", checksum=checksum, remedy=remedy).read(self.FOLDER)
        labelled = ((label, record) for label, _, record in parse_records(payload, origin))
        return [
            {
                "id": row["id"],
                "category": row["category"],
                "filename": row["image"],
                "caption": row["positive"],
                "negative_caption": row["negative"],
            }
            for row in check_rows(labelled, _SCHEMA, origin)
            if row["category"] == self.config.name
        ]

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        folder, archive = self._folder or self.FOLDER.parent / "captions", self.FOLDER / "images.zip"
        names = dict.fromkeys(row["filename"] for row in rows)
        found = find_images(names, [folder, folder / "images"] if folder.is_dir() else [])
        if archive.is_file():
            with zipfile.ZipFile(archive) as opened:
                inside = names.keys() & opened.namelist()
            found |= {name: member_address(archive, name) for name in inside if found[name] is None}
        return self._require_images(rows, found, self._folder or archive, "Pass data_dir, a folder that holds them")
