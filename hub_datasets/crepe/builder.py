"""CREPE (Ma et al., CVPR 2023) as a `datasets` builder, from the user's copy of the authors' release.

A row is a part of a photograph of Visual Genome, the caption that describes it, and hard negatives: captions that do
not. The text is exactly as released. The repository states no licence, so nothing of it comes with this module and
nothing is downloaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import datasets

from ..sources.builders import Images, ReleasedRows, Rows, SourceConfig, make_configs
from ..sources.columns import columns
from ..sources.crops import box_problem, crop, crop_name
from ..sources.records import Row
from ..sources.source_files import SourceFile
from .configs import PRODUCTIVITY, SYSTEMATICITY

CONFIG_NAMES = (*PRODUCTIVITY, *SYSTEMATICITY)
COMPOUNDS = ("seen_compounds", "unseen_compounds")
COMPLEXITIES = tuple(range(4, 13))
_SOURCE = "https://github.com/RAIVNLab/CREPE/tree/master/data"
_IMAGES_SOURCE = "https://homes.cs.washington.edu/~ranjay/visualgenome/api.html"
_FOLDERS = ("VG_100K", "VG_100K_2")
_BOX = ("x", "y", "width", "height")
# With these there is nothing to rank.
_UNRANKED = {"blank_caption", "no_negatives"}


@dataclass
class CREPEConfig(SourceConfig):
    """One part of CREPE, and what its images show.

    `crop` gives the part of the image in the row's box as a PNG; without it, the whole image, bytes as in the file. A
    file without columns for the box gives whole images in any case, and `bbox` is None.
    """

    crop: bool = True


class CREPE(ReleasedRows):
    """Twelve configurations; the card has the columns and the layout of `data_dir`.

    The split `test` has the rows that can be ranked. The others make the split `unranked`, if there are any. With
    `crop`, an image that cannot be decoded raises a `DataError`.
    """

    config: CREPEConfig
    BUILDER_CONFIG_CLASS = CREPEConfig
    BUILDER_CONFIGS: ClassVar = make_configs(CREPEConfig, "CREPE", CONFIG_NAMES)

    GET_SOURCES = f"Download CREPE's archives from {_SOURCE}, unpack them, and pass the folder that holds them"
    IMAGES = Images(
        (*_FOLDERS, *(f"images/{name}" for name in _FOLDERS), "images"),
        f"Put Visual Genome's folders {' and '.join(_FOLDERS)} there ({_IMAGES_SOURCE})",
    )

    @property
    def _negatives(self) -> str:
        """The column of hard negatives."""
        kind = SYSTEMATICITY.get(self.config.name)
        return f"valid_hard_negs_{kind[0]}" if kind else "hard_negs"

    def _columns(self) -> dict[str, Any]:
        complexity = "complexity" if self.config.name in PRODUCTIVITY else ""
        return columns(f"id category image filename caption hard_negatives bbox {complexity} defects")

    def _parts(self) -> Mapping[str, Rows]:
        name = self.config.name
        if name in SYSTEMATICITY:
            stem = f"syst_hard_negatives/syst_vg_hard_negs_{{}}_in_{SYSTEMATICITY[name][1]}.csv"
            paths = {compounds: stem.format(compounds) for compounds in COMPOUNDS}
        else:
            kind = PRODUCTIVITY[name]
            stem = f"prod_hard_negatives/{kind}/prod_vg_hard_negs_{kind}_complexity_"
            paths = {str(number): f"{stem}{number}.csv" for number in COMPLEXITIES}
        schema = {"image_id": str, "caption": str, self._negatives: [str], **dict.fromkeys(_BOX, object)}
        return {category: Rows(_file(path), schema, lists=(self._negatives,)) for category, path in paths.items()}

    def _problem(self, record: Row) -> str | None:
        if not (record["image_id"].isascii() and record["image_id"].isdigit()):
            return f"image_id is {record['image_id']!r}, not a whole number"
        sides: list[Any] = [record.get(side) for side in _BOX]
        if sides == [None] * 4:
            return None
        if None in sides:
            return f"it has no column {', '.join(side for side in _BOX if record.get(side) is None)}"
        problem = box_problem([_number(side) for side in sides])
        return f"{problem}: {', '.join(f'{side!r:.60}' for side in sides)}" if problem else None

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        negatives = record[self._negatives]
        yield {
            "id": f"{self.config.name}/{part}/{key}",
            "category": part,
            "filename": f"{int(record['image_id'])}.jpg",
            "caption": record["caption"],
            "hard_negatives": negatives,
            "bbox": None if record["x"] is None else [_number(record[side]) for side in _BOX],
            **({"complexity": int(part)} if self.config.name in PRODUCTIVITY else {}),
            "defects": _defects(record["caption"], negatives),
        }

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


def _file(path: str) -> SourceFile:
    """Return a file below `data` of the repository, or of an archive unpacked near it."""
    folder, _, name = path.rpartition("/")
    file_places = (path, f"{folder.rpartition('/')[2]}/{name}", name)
    return SourceFile(f"data/{path}", file_places, remedy=f"Download the archives from {_SOURCE} and unpack them there")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _defects(caption: str, negatives: list[str]) -> list[str]:
    """Return the defects of a row; texts are compared without outer white space."""
    texts = [negative.strip() for negative in negatives]
    defects = {
        "blank_caption": not caption.strip(),
        "no_negatives": not negatives,
        "blank_negative": "" in texts,
        "same_text": caption.strip() in texts,
        "repeated_negative": len(set(texts)) < len(texts),
    }
    return [name for name, applies in defects.items() if applies]
