"""Hard Positives (Kamath et al., 2024) as a `datasets` builder, from the user's copy of the authors' repository.

A row is an image with three captions: the original, a hard positive and a hard negative. The text is exactly as
released. The column `defect` has the defects of a row, and each configuration has a second one, `<name>_clean`, without
the rows that have any.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import datasets

from ...metrics.common.errors import DataError
from ..sources.builders import Images, SourceBuilder, VerifiedConfig, make_configs
from ..sources.columns import columns
from ..sources.crops import box_problem, crop
from ..sources.image_archives import VISUAL_GENOME
from ..sources.records import Row, check_row_count, check_rows, parse_records, with_remedy
from ..sources.source_files import SourceFile, is_file_name
from .defects import find_defects, find_origin
from .lexicon import LEXICON

RELEASED_ROWS = {"replace_relations": 16_868, "replace_attributes": 10_575, "swap": 28_748}
_CLEAN = "_clean"
CONFIG_NAMES = (*RELEASED_ROWS, *(name + _CLEAN for name in RELEASED_ROWS))

_HOMEPAGE = "https://github.com/amitakamath/hard_positives"
_FILES = {
    "replace_relations": "vl_checklist_relations.json",
    "replace_attributes": "vl_checklist_attributes.json",
    "swap": "visual_genome_attribution.json",
}
_ORIGINALS, _POSITIVES = "data", "swapped_data"
_GROUPS = {"replace_relations": "relation_", "replace_attributes": "attribute_"}
_TEXTS: dict[str, Any] = dict.fromkeys(("image_path", "true_caption", "false_caption"), str)
_BOX = dict.fromkeys(("bbox_x", "bbox_y", "bbox_w", "bbox_h"), int)
_SWAP_SCHEMA: dict[str, Any] = {**_TEXTS, **_BOX, "attributes": [str]}
_GET_REPOSITORY = f"It states no licence: git clone {_HOMEPAGE} and pass the clone as data_dir"
_GET_ARO = (
    ". If the clone has no such file: data/visual_genome_attribution.json is ARO's (Google Drive id "
    "13tWvOrNOLHxl3Rm9cR3geAdHx2qR3-Tw), and rebuild_swap=True makes the hard positives of swap from it alone"
)

_THE_X_AND_THE_Y = re.compile(r"(\s*[Tt]he\s+)(\S.*?)(\s+and\s+the\s+)(\S.*?)(\s*\.?\s*)")
_AND_THE = re.compile(r"\sand\s+the\s")


@dataclass
class HardPositivesConfig(VerifiedConfig):
    """One part of the benchmark, with or without its defective rows, and how to read `swap`.

    | field           | True                                      | False                                 |
    |-----------------|-------------------------------------------|---------------------------------------|
    | `crop`          | the box of the image, as the authors do   | the whole image, bytes as in the file |
    | `rebuild_swap`  | positives made from `data/` by rule       | positives from `swapped_data/`        |

    Neither changes anything in the other configurations, whose images are whole as the authors' are.
    """

    crop: bool = True
    rebuild_swap: bool = False


class HardPositives(SourceBuilder):
    """Six configurations, one split `test`; the card has the columns and the layout of `data_dir`."""

    config: HardPositivesConfig
    BUILDER_CONFIG_CLASS = HardPositivesConfig
    BUILDER_CONFIGS: ClassVar = make_configs(HardPositivesConfig, "Hard Positives", CONFIG_NAMES)

    GET_SOURCES = _GET_REPOSITORY
    IMAGES = Images(
        ("data/VG_100K_2", "data/VG_100K", "VG_100K_2", "VG_100K", "data/images", "images"),
        "Put Visual Genome's VG_100K/ and VG_100K_2/ (https://homes.cs.washington.edu/~ranjay/visualgenome/api.html) "
        "into data_dir",
        VISUAL_GENOME,
    )

    @property
    def _part(self) -> str:
        """Return the configuration's name without "_clean"."""
        return self.config.name.removesuffix(_CLEAN)

    def _columns(self) -> dict[str, Any]:
        common = columns("id category image filename caption positive_caption negative_caption")
        if self._part == "swap":
            return {**common, **columns("attributes"), "bbox": [datasets.Value("int32")], **columns("defect")}
        return common | columns("replaced replacement defect")

    def _file_names(self) -> list[str]:
        makes_positives = self._part == "swap" and self.config.rebuild_swap
        folders = [_ORIGINALS] if makes_positives else [_ORIGINALS, _POSITIVES]
        return [f"{folder}/{_FILES[self._part]}" for folder in folders]

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        originals, *perturbed = map(self._read_records, self._file_names())
        if perturbed:
            [positives] = perturbed
            _check_aligned(originals, positives, self._part)
        else:
            positives = [_swapped(record, number) for number, record in enumerate(originals)]
        pairs = list(zip(originals, positives, strict=True))
        keys = [json.dumps(pair, sort_keys=True) for pair in pairs]
        first = {key: number for number, key in reversed(list(enumerate(keys)))}
        rows = [_row(self._part, n, *pair, first[keys[n]] != n) for n, pair in enumerate(pairs)]
        return [row for row in rows if not row["defect"]] if self.config.name.endswith(_CLEAN) else rows

    def _read_records(self, name: str) -> list[Row]:
        """Return the checked records of a file of the release."""
        remedy = _GET_REPOSITORY + (_GET_ARO if self._part == "swap" else "")
        payload, origin = SourceFile(name, remedy=remedy).read(self._folder)
        with with_remedy(remedy):
            records = parse_records(payload, origin)
            labelled = ((label, content) for label, _, content in records)
            check_rows(labelled, _SWAP_SCHEMA if self._part == "swap" else _TEXTS, origin, _problem)
        if self.config.verify:
            check_row_count(len(records), RELEASED_ROWS[self._part], origin)
        return [content for _, _, content in records]  # fields beyond the schema distinguish duplicates too

    def _image_file(self, row: Row, column: str, path: str) -> dict[str, Any]:
        if "bbox" not in row or not self.config.crop:
            return super()._image_file(row, column, path)
        name = "_".join([Path(row["filename"]).stem, *map(str, row["bbox"])]) + ".png"
        return {"path": name, "bytes": crop(path, row["bbox"], compress_level=6)}


def _problem(record: Row) -> str | None:
    if not is_file_name(_filename(record)):
        return f"image_path {record['image_path']!r} does not end in a file name"
    if len(record.get("attributes", "ab")) != 2:
        return f"attributes is {record['attributes']!r}, not a list of two texts"
    return box_problem([record[side] for side in _BOX]) if "bbox_x" in record else None


def _check_aligned(originals: list[Row], positives: list[Row], part: str) -> None:
    """Raise a `DataError` unless two files are about the same images row by row."""
    names = f"{_ORIGINALS}/{_FILES[part]} and {_POSITIVES}/{_FILES[part]}"
    remedy = "Take both from the same commit of the repository."
    if len(originals) != len(positives):
        raise DataError(f"{names} have {len(originals):,} and {len(positives):,} rows. {remedy}")
    for number, pair in enumerate(zip(originals, positives, strict=True)):
        ours, theirs = map(_filename, pair)
        if ours != theirs:
            raise DataError(f"{names} differ in record {number}: images {ours!r} and {theirs!r}. {remedy}")


def swap_phrases(caption: str) -> str | None:
    """Exchange the objects of a caption of VG-Attribution: "the X and the Y" becomes "the Y and the X".

    Args:
        caption: "the X and the Y", with only white space or a full stop around it, which keep their places.

    Returns:
        The hard positive; None if the caption is not of this form, or has "and the" more than once.

    Source: The Hard Positive Truth about Vision-Language Compositionality (Kamath et al., 2024), section 3.4.

    >>> swap_phrases("the crouched cat and the open door")
    'the open door and the crouched cat'
    """
    match = _THE_X_AND_THE_Y.fullmatch(caption)
    if match is None or len(_AND_THE.findall(caption)) != 1:
        return None
    the, first, and_the, second, end = match.groups()
    return the + second + and_the + first + end


def _swapped(record: dict[str, Any], number: int) -> dict[str, Any]:
    positive = swap_phrases(record["true_caption"])
    if positive is None:
        raise DataError(
            f"record {number}: {record['true_caption']!r} is not of the form 'the X and the Y', so its hard positive "
            f"cannot be made. Pass rebuild_swap=False and {_POSITIVES}/{_FILES['swap']}."
        )
    return {**record, "true_caption": positive}


def _row(
    part: str, number: int, original: dict[str, Any], positive: dict[str, Any], is_repeated: bool
) -> dict[str, Any]:
    captions = original["true_caption"], positive["true_caption"], original["false_caption"]
    row: dict[str, Any] = {"id": f"{part}/{number}", "category": part, "filename": _filename(original)}
    row.update(zip(("caption", "positive_caption", "negative_caption"), captions, strict=True))
    origin = None
    if part == "swap":
        row.update(attributes=original["attributes"], bbox=[original[field] for field in _BOX])
    else:
        lexicon = [entry for entry in LEXICON if entry.kind.startswith(_GROUPS[part])]
        origin = find_origin(captions[0], captions[1], lexicon)
        row["category"] = origin.entry.kind if origin else f"{_GROUPS[part]}other"
        row["replaced"] = origin.replaced if origin else ""
        row["replacement"] = origin.entry.synonym if origin else ""
    defects = ["duplicate"] if is_repeated else []
    defects += find_defects(*captions, origin)
    if positive["false_caption"] != original["false_caption"]:
        defects.append("negatives differ")
    return {**row, "defect": "; ".join(defects)}


def _filename(record: dict[str, Any]) -> str:
    return record["image_path"].rpartition("/")[2]
