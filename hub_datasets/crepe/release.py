"""The authors' release of CREPE: the files of each configuration, their rows, and where the images lie."""

from __future__ import annotations

import ast
import csv
import io
import math
from pathlib import Path
from typing import Any, NamedTuple

from ..core.crops import box_problem
from ..core.source_files import Row, SourceFile, read_bytes, shortened_list
from .configs import PRODUCTIVITY, SYSTEMATICITY

HOMEPAGE = "https://github.com/RAIVNLab/CREPE"
SOURCE = f"{HOMEPAGE}/tree/master/data"
IMAGES_SOURCE = "https://homes.cs.washington.edu/~ranjay/visualgenome/api.html"
COMPOUNDS = ("seen_compounds", "unseen_compounds")
COMPLEXITIES = tuple(range(4, 13))
_BOX = ("x", "y", "width", "height")
IMAGE_FOLDERS = ("VG_100K", "VG_100K_2")


class Part(NamedTuple):
    """One file of a configuration: its category, the folder and the name of the file, its column of negatives."""

    category: str
    folder: str
    name: str
    column: str

    def find(self, folder: Path) -> Path | None:
        """The user's own copy."""
        last = self.folder.rsplit("/", 1)[-1]
        places = tuple(f"{place}/{self.name}" for place in (self.folder, last, "."))
        return SourceFile(f"data/{self.folder}/{self.name}", places).find(folder)


def parts(config: str) -> list[Part]:
    """The files of a configuration, in the order of its rows."""
    if config in SYSTEMATICITY:
        kind, training_set = SYSTEMATICITY[config]
        column = f"valid_hard_negs_{kind}"
        return [
            Part(compounds, "syst_hard_negatives", f"syst_vg_hard_negs_{compounds}_in_{training_set}.csv", column)
            for compounds in COMPOUNDS
        ]
    kind = PRODUCTIVITY[config]
    stem = f"prod_vg_hard_negs_{kind}_complexity_"
    return [Part(str(n), f"prod_hard_negatives/{kind}", f"{stem}{n}.csv", "hard_negs") for n in COMPLEXITIES]


def annotation_files(config: str, folder: Path) -> dict[Part, Path]:
    """The user's copy of each file of a configuration; FileNotFoundError names those that are missing."""
    found = {part: part.find(folder) for part in parts(config)}
    missing = [f"{part.folder}/{part.name}" for part, path in found.items() if path is None]
    if missing:
        raise FileNotFoundError(
            f"{config}: {len(missing)} of {len(found)} files are missing from {folder}: {shortened_list(missing)}. "
            f"Download the archives from {SOURCE} and unpack them there."
        )
    return {part: path for part, path in found.items() if path is not None}


def read_rows(config: str, part: Part, path: Path) -> list[Row]:
    """The columns of each row of one file that need no image, in the file's order; other fields are left out.

    ValueError names the file and the row, counted from 0 below the header, that is malformed.
    """
    try:
        # With a byte order mark or without, as the tools that people open such files with leave it.
        reader = csv.DictReader(io.StringIO(read_bytes(path).decode("utf-8-sig"), newline=""), strict=True)
        records = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a CSV file in UTF-8: {error}.") from error
    header = list(reader.fieldnames or ())
    lacking = [name for name in ("image_id", "caption", part.column) if name not in header]
    boxed = [side for side in _BOX if side in header]
    if boxed:
        lacking += [side for side in _BOX if side not in boxed]
    if lacking or not records:
        found = f"no column {', '.join(lacking)}; it has {', '.join(header) or 'none'}" if lacking else "no row"
        raise ValueError(f"{path} holds {found}. Expected the columns image_id, caption, {', '.join(_BOX)} and more.")
    rows = []
    for number, record in enumerate(records):
        try:
            row = _row(record, part.column, has_box=bool(boxed))
        except ValueError as error:
            raise ValueError(f"{path}, row {number}: {error}.") from error
        complexity = {"complexity": int(part.category)} if config in PRODUCTIVITY else {}
        rows.append({"id": f"{config}/{part.category}/{number}", "category": part.category, **row, **complexity})
    return rows


def _row(record: dict[str, Any], column: str, *, has_box: bool) -> Row:
    if None in record or None in record.values():
        raise ValueError("it has not as many fields as the header")
    if not (record["image_id"].isascii() and record["image_id"].isdigit()):
        raise ValueError(f"image_id is {record['image_id']!r}, not a whole number")
    row = {
        "filename": f"{int(record['image_id'])}.jpg",
        "caption": record["caption"],
        "hard_negatives": _negatives(record[column], column),
        "bbox": _box(record) if has_box else None,
    }
    return row | {"defects": _defects(row["caption"], row["hard_negatives"])}


def _negatives(text: str, column: str) -> list[str]:
    """A list as Python prints it; an empty field, as a table has for a missing value, is an empty list."""
    if not text.strip():
        return []
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"{column} is {_short(text)}, not a list of texts") from error
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{column} is {_short(text)}, not a list of texts")
    return list(value)


def _box(record: dict[str, str]) -> list[float]:
    sides = []
    for side in _BOX:
        try:
            sides.append(float(record[side]))
        except ValueError:
            sides.append(math.nan)
    problem = box_problem(sides)
    if problem:
        raise ValueError(f"{problem}: {', '.join(_short(record[side]) for side in _BOX)}")
    return sides


def _defects(caption: str, negatives: list[str]) -> list[str]:
    """The defects of a row; texts are compared without outer white space."""
    texts = [negative.strip() for negative in negatives]
    found = {
        "blank_caption": not caption.strip(),
        "no_negatives": not negatives,
        "blank_negative": "" in texts,
        "same_text": caption.strip() in texts,
        "repeated_negative": len(set(texts)) < len(texts),
    }
    return [name for name, is_there in found.items() if is_there]


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
