"""The authors' release of VG-Relation and VG-Attribution: its files, its mirrors, and the rows of each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..core.crops import box_problem
from ..core.hub_tables import HubTable, read_table
from ..core.source_files import Row, SourceFile, check_row_count, check_rows, is_inner_path, parse_json

FILES = {"vg_relation": "visual_genome_relation.json", "vg_attribution": "visual_genome_attribution.json"}
ROWS = {"vg_relation": 23_937, "vg_attribution": 28_748}
# Of files on Google Drive, as the authors' code fetches them; `gdown ID` downloads one.
DRIVE_IDS = {
    "visual_genome_relation.json": "1kX2iCHEv0CADL8dSO1nMdW-V0NqIAiP3",
    "visual_genome_attribution.json": "13tWvOrNOLHxl3Rm9cR3geAdHx2qR3-Tw",
    "vgr_vga_images.zip": "1qaPlrwhGNMrR3a11iopZUT_GPP_LrgP9",
}
# Datasets of the Hub with the same number of rows and whole photographs, whose names they lack.
MIRRORS = {
    name: HubTable(repository, "data/test-*.parquet", {"image": "{content}.jpg"}, revision)
    for name, repository, revision in (
        ("vg_relation", "mteb/ARO-Visual-Relation", "53c1115ab5871ab33b09d5bb8856236d46bdaf2d"),
        ("vg_attribution", "mteb/ARO-Visual-Attribution", "25fe9b460426ff67cdb0608a737c94f8f49a901e"),
    )
}
_BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")
_COMMON = {**dict.fromkeys(("image_path", "true_caption", "false_caption"), str), **dict.fromkeys(_BOX, float)}
_SCHEMAS = {"vg_relation": _COMMON | {"relation_name": str}, "vg_attribution": _COMMON | {"attributes": [str]}}
_CAPTIONS = {"image": str, "true_caption": str, "false_caption": str, "bbox": dict.fromkeys("xywh", float)}
_MIRRORED = {"vg_relation": _CAPTIONS | {"relation_name": str}, "vg_attribution": _CAPTIONS | {"attributes": [str]}}


def annotation_file(config: str) -> SourceFile:
    """The file of a configuration in the user's own copy."""
    name = FILES[config]
    return SourceFile(name, remedy=f"Get {name} with `gdown {DRIVE_IDS[name]}` (Google Drive, as in the authors' code)")


def read_rows(config: str, folder: Path | None, *, verify: bool) -> list[Row]:
    """The columns of each row that need no image, in the file's order; other fields of the file are left out.

    Raises:
        ValueError: a row, counted from 0, is of another form, or, if `verify`, the number of rows is not the release's.
        FileNotFoundError: the file is missing.
    """
    payload, origin = annotation_file(config).read(folder)
    labelled = ((f"row {number}", record) for number, record in enumerate(parse_json(payload, origin)))
    records = check_rows(labelled, _SCHEMAS[config], origin, _problem)
    return _rows(config, records, origin, verify=verify)


def read_mirror(config: str, paths: Iterable[Path], *, verify: bool) -> tuple[list[Row], dict[str, str]]:
    """The same columns from the files of a mirror, and the addresses of the photographs by their names.

    Raises:
        ValueError: as `read_rows`.
    """
    records: list[Row] = []
    addresses: dict[str, str] = {}
    table, origin = MIRRORS[config], MIRRORS[config].source
    for path, named, stored in read_table(paths, table, _MIRRORED[config]):
        addresses, origin = stored | addresses, str(path.parent)
        labelled = ((label, _as_released(record)) for label, _, record in named)
        records += check_rows(labelled, _SCHEMAS[config], str(path), _problem)
    return _rows(config, records, origin, verify=verify), addresses


def _as_released(record: Row) -> Row:
    box = record["bbox"] if isinstance(record["bbox"], dict) else {}  # the check names what is lacking
    return {**record, "image_path": record["image"], **{f"bbox_{side}": value for side, value in box.items()}}


def _rows(config: str, records: list[Row], origin: str, *, verify: bool) -> list[Row]:
    if verify:
        check_row_count(len(records), ROWS[config], origin)
    return [_row(config, number, record) for number, record in enumerate(records)]


def _row(config: str, number: int, record: dict[str, Any]) -> Row:
    columns: Row = {
        "id": f"{config}/{number}",
        "filename": record["image_path"],
        "caption": record["true_caption"],
        "negative_caption": record["false_caption"],
        "bbox": [record[side] for side in _BOX],
    }
    if config == "vg_relation":
        return columns | {"category": record["relation_name"], "relation": record["relation_name"]}
    return columns | {"category": " & ".join(record["attributes"]), "attributes": record["attributes"]}


def _problem(record: Row) -> str | None:
    empty = [name for name, value in record.items() if value == "" or (isinstance(value, list) and "" in value)]
    if empty:
        return f"{empty[0]} is empty"
    if len(record.get("attributes", "ab")) != 2:
        return f"attributes is {record['attributes']!r}, not a list of two texts"
    if not is_inner_path(record["image_path"]):
        return f"image_path {record['image_path']!r} does not lead to a file in the folder of images"
    return box_problem([record[side] for side in _BOX])
