"""The authors' release of VG-Relation and VG-Attribution: where its files lie, what a row must be, what is missing.

Like the builder, the module works as part of a script: it imports only the standard library and Pillow.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from PIL import Image

FILES = {"vg_relation": "visual_genome_relation.json", "vg_attribution": "visual_genome_attribution.json"}
ROWS = {"vg_relation": 23_937, "vg_attribution": 28_748}
# Of files on Google Drive, as the authors' code fetches them; `gdown ID` downloads one.
DRIVE_IDS = {
    "visual_genome_relation.json": "1kX2iCHEv0CADL8dSO1nMdW-V0NqIAiP3",
    "visual_genome_attribution.json": "13tWvOrNOLHxl3Rm9cR3geAdHx2qR3-Tw",
    "vgr_vga_images.zip": "1qaPlrwhGNMrR3a11iopZUT_GPP_LrgP9",
}
IMAGE_FOLDER = "images"

_BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")
_TEXTS = ("image_path", "true_caption", "false_caption")
_LABELS = {"vg_relation": "relation_name", "vg_attribution": "attributes"}
_SHAPES = {"relation_name": "the text relation_name", "attributes": "the list attributes of two texts"}
_NAMES_SHOWN = 5
# No photograph is as wide: a number beyond it is damage.
_MOST_PIXELS = 100_000

Box = tuple[float, float, float, float]


def annotation_file(config: str, data_dir: str | None) -> Path:
    """Return the user's copy of a configuration's file; FileNotFoundError says which it is and where to get it."""
    name = FILES[config]
    source = f"Get it with `gdown {DRIVE_IDS[name]}` (Google Drive, as in the authors' code)"
    if not data_dir:
        raise FileNotFoundError(
            f"{config} is made from your own copy of {name}, and no data_dir was given. {source} and pass the folder "
            f"that holds it as data_dir."
        )
    folder = Path(data_dir).expanduser().absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"data_dir {folder} is not a folder. Pass the one that holds {name}.")
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing. {source} and put it there.")
    return path


def read_rows(config: str, path: Path, *, verify: bool) -> list[dict[str, Any]]:
    """Return the columns of each row that need no image, in the file's order.

    Fields that no column holds are left out. ValueError names the file and the row, counted from 0, that is not of the
    documented shape; with `verify` also a number of rows that is not the release's.
    """
    label = _LABELS[config]
    shape = f"an object with the texts {', '.join(_TEXTS)}, the numbers {', '.join(_BOX)}, and {_SHAPES[label]}"
    try:
        records = json.loads(read_bytes(path).decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}. Expected a list of rows.") from error
    if not isinstance(records, list) or not records:
        found = "an empty list" if records == [] else f"{type(records).__name__} at the top level"
        raise ValueError(f"{path} holds {found}. Expected a list of rows, each {shape}.")
    for number, record in enumerate(records):
        problem = _problem(record, label)
        if problem:
            raise ValueError(f"{path}, row {number}: {problem}. Expected {shape}.")
    if verify and len(records) != ROWS[config]:
        raise ValueError(
            f"{path} has {len(records):,} rows, but the release has {ROWS[config]:,}. It is damaged or of another "
            f"release: replace it, or pass verify=False to accept it."
        )
    return [_row(config, number, record) for number, record in enumerate(records)]


def _row(config: str, number: int, record: dict[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "id": f"{config}/{number}",
        "filename": record["image_path"],
        "caption": record["true_caption"],
        "negative_caption": record["false_caption"],
        "bbox": [record[side] for side in _BOX],
    }
    if config == "vg_relation":
        return columns | {"category": record["relation_name"], "relation": record["relation_name"]}
    return columns | {"category": " & ".join(record["attributes"]), "attributes": record["attributes"]}


def _problem(record: object, label: str) -> str | None:
    """Return what is wrong with a parsed row, None if nothing is."""
    if not isinstance(record, dict):
        return f"found {type(record).__name__} instead of a row"
    faults = [f"{field} is missing" for field in (*_TEXTS, *_BOX, label) if field not in record]
    if faults:
        return "; ".join(faults)
    texts = [field for field in (*_TEXTS, label) if field != "attributes"]
    faults = [f"{field} is {record[field]!r}, not text" for field in texts if not is_text(record[field])]
    faults += [f"{side} is {record[side]!r}, no number of pixels" for side in _BOX if not is_length(record[side])]
    if label == "attributes" and not _is_pair(record[label]):
        faults.append(f"attributes is {record[label]!r}, not a list of two texts")
    if faults:
        return "; ".join(faults)
    if not _leads_below(record["image_path"]):
        return f"image_path {record['image_path']!r} does not lead to a file in the folder of images"
    left, top, right, bottom = corners(tuple(record[side] for side in _BOX))
    return None if right > left and bottom > top else f"the box {[record[side] for side in _BOX]} holds no pixel"


def is_text(value: object) -> bool:
    """Whether a parsed value is a text, and not an empty one."""
    return isinstance(value, str) and value != ""


def is_length(value: Any) -> bool:
    """Whether a parsed value is a number of pixels; NaN is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST_PIXELS


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_text, value))


def _leads_below(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not {"/", ".."} & set(parts) and "\\" not in path


def find_images(config: str, rows: list[dict[str, Any]], folder: Path, *, allow_missing: bool) -> dict[str, str | None]:
    """Return the path of each image by its file name: in `images`, else beside it; None where missing and allowed."""
    names = dict.fromkeys(row["filename"] for row in rows)
    images = {name: _first_file((folder / IMAGE_FOLDER / name, folder / name)) for name in names}
    if not all(images.values()) and not allow_missing:
        raise FileNotFoundError(_describe_missing(config, rows, images, folder))
    return images


def _first_file(places: Iterable[Path]) -> str | None:
    """Return the first of the paths where a file lies that is not empty (an interrupted copy is)."""
    return next((str(path) for path in places if path.is_file() and path.stat().st_size), None)


def _describe_missing(config: str, rows: list[dict[str, Any]], images: dict[str, str | None], folder: Path) -> str:
    missing = sum(path is None for path in images.values())
    shown = _missing(images, ((row["filename"], row["id"]) for row in rows))
    return (
        f"{config}: {missing} of {len(images)} images are missing from {folder / IMAGE_FOLDER}, or empty: "
        f"{shown}. Get them with `gdown {DRIVE_IDS['vgr_vga_images.zip']}` (vgr_vga_images.zip, 1 GB) and "
        f"unzip it in data_dir; or pass allow_missing=True to keep their rows without an image, or with_images=False "
        f"for the text alone."
    )


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


def corners(box: Box) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a box (x, y, width, height), in whole pixels as Pillow rounds them."""
    x, y, width, height = box
    return round(x), round(y), round(x + width), round(y + height)


def crop(path: str, box: Box) -> bytes:
    """Return the part of an image in a box as the file of a PNG: the authors' crop, pixel by pixel.

    What of the box lies outside the image is black. ValueError names a file that is no image.
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
