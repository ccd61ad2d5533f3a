"""The authors' release of CREPE: which files a configuration has, what a row must be, where its image lies.

Like the builder, the module works as part of a script: it imports only the standard library and Pillow.
"""

from __future__ import annotations

import ast
import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from PIL import Image

HOMEPAGE = "https://github.com/RAIVNLab/CREPE"
SOURCE = f"{HOMEPAGE}/tree/master/data"
IMAGES_SOURCE = "https://homes.cs.washington.edu/~ranjay/visualgenome/api.html"
# As in the release's file names; its training sets are CC12M, YFCC15M and LAION400M.
TRAINING_SETS = ("cc12m", "yfcc", "laion")
SYSTEMATICITY_KINDS = ("atom", "comp", "combined")
# The release says "atom" for what its paper and this package call replacing.
PRODUCTIVITY_KINDS = {"replace": "atom", "swap": "swap", "negate": "negate"}
COMPOUNDS = ("seen_compounds", "unseen_compounds")
COMPLEXITIES = tuple(range(4, 13))
SYSTEMATICITY = {f"systematicity_{kind}_{name}": (kind, name) for kind in SYSTEMATICITY_KINDS for name in TRAINING_SETS}
PRODUCTIVITY = {f"productivity_{kind}": name for kind, name in PRODUCTIVITY_KINDS.items()}

_BOX = ("x", "y", "width", "height")
_IMAGE_FOLDERS = ("VG_100K", "VG_100K_2")
_NAMES_SHOWN = 5
# No photograph is as wide: a number beyond it is damage.
_MOST_PIXELS = 100_000

Row = dict[str, Any]
Box = tuple[float, float, float, float]


class Part(NamedTuple):
    """One file of a configuration: its category, the folder and the name of the file, its column of negatives."""

    category: str
    folder: str
    name: str
    column: str


def parts(config: str) -> list[Part]:
    """Return the files of a configuration, in the order of its rows."""
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
    """Return the user's copy of each file of a configuration; FileNotFoundError names those that are missing."""
    found = {part: _local(part, folder) for part in parts(config)}
    missing = [f"{part.folder}/{part.name}" for part, path in found.items() if path is None]
    if missing:
        raise FileNotFoundError(
            f"{config}: {len(missing)} of {len(found)} files are missing from {folder}: {_shown(missing)}. Download "
            f"the archives from {SOURCE}, unpack them there, and see that the files lie in these folders."
        )
    return {part: path for part, path in found.items() if path is not None}


def _local(part: Part, folder: Path) -> Path | None:
    last = part.folder.rsplit("/", 1)[-1]
    places = [folder / "data" / part.folder, folder / part.folder, folder / last, folder]
    return next((place / part.name for place in places if (place / part.name).is_file()), None)


def read_rows(config: str, part: Part, path: Path) -> list[Row]:
    """Return the columns of each row of one file that need no image, in the file's order.

    Fields that no column holds are left out. ValueError names the file and the row, counted from 0 below the header,
    that is not of the documented shape.
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
    """Read a list as Python prints it; an empty field, which is how a table leaves out a value, is an empty list."""
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
            value = float(record[side])
        except ValueError:
            value = math.nan
        if not abs(value) <= _MOST_PIXELS:
            raise ValueError(f"{side} is {_short(record[side])}, no number of pixels")
        sides.append(value)
    left, top, right, bottom = corners((sides[0], sides[1], sides[2], sides[3]))
    if right <= left or bottom <= top:
        raise ValueError(f"the box {sides} (x, y, width, height) holds no pixel")
    return sides


def _defects(caption: str, negatives: list[str]) -> list[str]:
    """Return what is wrong with a row that can be read; outer white space does not tell texts apart."""
    texts = [negative.strip() for negative in negatives]
    found = {
        "blank_caption": not caption.strip(),
        "no_negatives": not negatives,
        "blank_negative": "" in texts,
        "same_text": caption.strip() in texts,
        "repeated_negative": len(set(texts)) < len(texts),
    }
    return [name for name, is_there in found.items() if is_there]


def find_images(config: str, rows: list[Row], folder: Path, *, allow_missing: bool) -> dict[str, str | None]:
    """Return the path of each image by its file name, None where it is missing and that is allowed."""
    roots = [folder, folder / "images"]
    places = [*(root / name for root in roots for name in _IMAGE_FOLDERS), *reversed(roots)]
    names = dict.fromkeys(row["filename"] for row in rows)
    images = {name: _first_file(place / name for place in places) for name in names}
    missing = sum(path is None for path in images.values())
    if missing and not allow_missing:
        shown = _missing(images, ((row["filename"], row["id"]) for row in rows))
        raise FileNotFoundError(
            f"{config}: {missing} of {len(images)} images are missing from {folder}, or empty: {shown}. Put "
            f"Visual Genome's folders {' and '.join(_IMAGE_FOLDERS)} there ({IMAGES_SOURCE}); or pass "
            f"allow_missing=True to keep their rows without an image, or with_images=False for the text alone."
        )
    return images


def _first_file(places: Iterable[Path]) -> str | None:
    """Return the first of the paths where a file lies that is not empty (an interrupted copy is)."""
    return next((str(path) for path in places if path.is_file() and path.stat().st_size), None)


def corners(box: Box) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a box (x, y, width, height), in whole pixels as Pillow rounds them."""
    x, y, width, height = box
    return round(x), round(y), round(x + width), round(y + height)


def crop(path: str, box: Box) -> bytes:
    """Return the part of an image in a box as the file of a PNG; what lies outside the image is black.

    ValueError names a file that is no image.
    """
    payload = read_bytes(Path(path))
    try:
        with Image.open(io.BytesIO(payload)) as image:
            part = image.convert("RGB").crop(corners(box))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(
            f"{path} cannot be read as an image ({error}). Replace it, or pass crop=False to keep files as they are."
        ) from error
    buffer = io.BytesIO()
    # Twice as fast as the default level or more, for files some 6 % larger.
    part.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def crop_name(filename: str, box: Box) -> str:
    """A name that tells the crops of one image apart: 7.jpg and (5, 0, 90, 80) give 7-5-0-95-80.png, the corners."""
    return f"{PurePosixPath(filename).stem}-{'-'.join(map(str, corners(box)))}.png"


def read_bytes(path: Path) -> bytes:
    """Return what a file holds."""
    # Not `read_bytes`: `datasets` swaps Path for a class of its own, of which only `open` reads remote files.
    with path.open("rb") as file:
        return file.read()


def _missing(images: dict[str, str | None], uses: Iterable[tuple[str, str]]) -> str:
    """Name images without a path, each with the rows that show it, of which `uses` has (image, id of the row)."""
    ids: dict[str, list[str]] = {name: [] for name, path in images.items() if path is None}
    for name, row_id in uses:
        if name in ids:
            ids[name].append(row_id)
    return _shown([f"{name} (for {_shown(rows)})" for name, rows in ids.items()])


def _shown(names: list[str]) -> str:
    more = [f"and {len(names) - _NAMES_SHOWN} more"] if len(names) > _NAMES_SHOWN else []
    return ", ".join([*names[:_NAMES_SHOWN], *more])


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
