"""CREPE (Ma et al., CVPR 2023) as a `datasets` builder, from the user's own copy of the authors' release.

A row is a part of a photograph of Visual Genome, the caption that describes it, and hard negatives: captions that do
not. The text is exactly as released. The repository states no licence, so nothing of it comes with this module and
nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import datasets

from ..core.columns import columns
from ..core.crops import crop, crop_name
from ..core.source_files import ImagePaths, Row, SourceBuilder, SourceConfig, find_images, make_configs
from .configs import PRODUCTIVITY, SYSTEMATICITY
from .release import IMAGE_FOLDERS, IMAGES_SOURCE, SOURCE, annotation_files, read_rows

CONFIG_NAMES = (*PRODUCTIVITY, *SYSTEMATICITY)
# With these there is nothing to rank.
_UNRANKED = {"blank_caption", "no_negatives"}


@dataclass
class CREPEConfig(SourceConfig):
    """One part of CREPE, and what its images show.

    `crop` gives the part of the image in the row's box as a PNG; without it, the whole image, bytes as in the file. A
    file without columns for the box gives whole images in any case, and `bbox` is None.
    """

    crop: bool = True


class CREPE(SourceBuilder):
    """Twelve configurations; the card has the columns and the layout of `data_dir`.

    The split `test` has the rows that can be ranked. The others make the split `unranked`, if there are any. With
    `crop`, an image that cannot be decoded raises a ValueError.
    """

    config: CREPEConfig
    BUILDER_CONFIG_CLASS = CREPEConfig
    BUILDER_CONFIGS: ClassVar = make_configs(CREPEConfig, "CREPE", CONFIG_NAMES)

    GET_SOURCES = f"Download CREPE's archives from {SOURCE}, unpack them, and pass the folder that holds them"

    def _columns(self) -> dict[str, Any]:
        complexity = "complexity" if self.config.name in PRODUCTIVITY else ""
        return columns(f"id category image filename caption hard_negatives bbox {complexity} defects")

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        files = annotation_files(self.config.name, self._folder)
        return [row for part, path in files.items() for row in read_rows(self.config.name, part, path)]

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        folder = self._folder
        nested = [root / name for root in (folder, folder / "images") for name in IMAGE_FOLDERS]
        images = find_images((row["filename"] for row in rows), [*nested, folder / "images", folder])
        remedy = f"Put Visual Genome's folders {' and '.join(IMAGE_FOLDERS)} there ({IMAGES_SOURCE})"
        return self._require_images(rows, images, folder, remedy)

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        [split] = super()._split_generators(dl_manager)
        members: dict[str, list[Row]] = {"test": [], "unranked": []}
        for row in split.gen_kwargs["rows"]:
            members["unranked" if _UNRANKED & set(row["defects"]) else "test"].append(row)
        return [
            datasets.SplitGenerator(name=name, gen_kwargs={**split.gen_kwargs, "rows": rows})
            for name, rows in members.items()
            if rows or name == "test"
        ]

    def _image_file(self, row: Row, column: str, path: str) -> dict[str, Any]:
        box = row["bbox"]
        if self.config.crop and box is not None:
            return {"path": crop_name(row["filename"], box), "bytes": crop(path, box)}
        return super()._image_file(row, column, path)
