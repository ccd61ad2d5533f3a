"""CREPE (Ma et al., CVPR 2023) as a `datasets` builder, from the user's own copy of the authors' release.

A row is a part of a photograph of Visual Genome, the caption that describes it, and hard negatives: captions that do
not. The text is exactly as released. The repository states no licence, so nothing of it comes with this module and
nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import datasets

from ..core.crops import crop, crop_name
from ..core.source_files import ImagePaths, Row, SourceBuilder, SourceConfig, find_images
from .release import IMAGE_FOLDERS, IMAGES_SOURCE, PRODUCTIVITY, SOURCE, SYSTEMATICITY, annotation_files, read_rows

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
    """Twelve configurations; see `SourceConfig` and `CREPEConfig` for the options.

    `data_dir` is the user's own copy of the release, unpacked; nothing is downloaded. It holds
    `prod_hard_negatives/<atom, swap or negate>/*.csv` and `syst_hard_negatives/*.csv`, or these in `data/`, or the
    files directly; and the images of Visual Genome in `VG_100K/` and `VG_100K_2/`, in these inside `images/`, in
    `images/` or directly.

    A row has `id` (configuration, "/", category, "/", the row's place in its file, from 0), `category` (the complexity,
    "4" to "12", or "seen_compounds" and "unseen_compounds"), `image`, `filename`, `caption`, `hard_negatives` (a list,
    not always of one length), `bbox` (x, y, width and height in pixels of the whole image, or None), `defects` and, of
    productivity, `complexity` as a number. `defects` is a list of:

    - "no_negatives", "blank_caption": there is nothing to rank;
    - "same_text": a negative is the caption;
    - "repeated_negative": two negatives are the same;
    - "blank_negative": a negative without a text.

    The split `test` has the rows that can be ranked. The others make the split `unranked`, if there are any. With
    `crop`, an image that cannot be decoded raises a ValueError.
    """

    config: CREPEConfig
    BUILDER_CONFIG_CLASS = CREPEConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        CREPEConfig(name=name, version=datasets.Version("1.0.0"), description=f"CREPE {name}") for name in CONFIG_NAMES
    ]

    GET_SOURCES = f"Download CREPE's archives from {SOURCE}, unpack them, and pass the folder that holds them"

    def _columns(self) -> dict[str, Any]:
        text = datasets.Value("string")
        complexity = {"complexity": datasets.Value("int32")} if self.config.name in PRODUCTIVITY else {}
        return {
            "id": text,
            "category": text,
            "image": datasets.Image(),
            "filename": text,
            "caption": text,
            "hard_negatives": [text],
            "bbox": [datasets.Value("float32")],
            **complexity,
            "defects": [text],
        }

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        files = annotation_files(self.config.name, self._own_folder)
        return [row for part, path in files.items() for row in read_rows(self.config.name, part, path)]

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        folder = self._own_folder
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
