"""The authors' release of VG-Relation and VG-Attribution: its files, its mirrors, and the rows of each."""

from __future__ import annotations

from pathlib import Path

from ..sources.builders import Rows
from ..sources.crops import box_problem
from ..sources.hub_tables import HubTable
from ..sources.records import Row
from ..sources.source_files import SourceFile

FILES = {"vg_relation": "visual_genome_relation.json", "vg_attribution": "visual_genome_attribution.json"}
ROWS = {"vg_relation": 23_937, "vg_attribution": 28_748}
# The ids of files on Google Drive, as in the authors' code; `gdown ID` downloads one.
DRIVE_IDS = {
    "visual_genome_relation.json": "1kX2iCHEv0CADL8dSO1nMdW-V0NqIAiP3",
    "visual_genome_attribution.json": "13tWvOrNOLHxl3Rm9cR3geAdHx2qR3-Tw",
    "vgr_vga_images.zip": "1qaPlrwhGNMrR3a11iopZUT_GPP_LrgP9",
}
# Datasets of the Hub with the same number of rows and uncropped photographs, but without their file names.
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
    """Return the file of a configuration in the user's copy."""
    name = FILES[config]
    return SourceFile(name, remedy=f"Get {name} with `gdown {DRIVE_IDS[name]}` (Google Drive, as in the authors' code)")


def released_rows(config: str, folder: Path | None) -> Rows:
    """Return the rows of the authors' file if the user has it, else of the mirror."""
    file = annotation_file(config)
    if file.find(folder):
        return Rows(file, _SCHEMAS[config], ROWS[config])
    return Rows(MIRRORS[config], _MIRRORED[config], ROWS[config])


def to_row(config: str, number: str, record: Row) -> Row:
    """Return the dataset row, without its image, of a record in either form."""
    common: Row = {
        "id": f"{config}/{number}",
        "filename": record["image_path" if "image_path" in record else "image"],
        "caption": record["true_caption"],
        "negative_caption": record["false_caption"],
        "bbox": _box(record),
    }
    if config == "vg_relation":
        return common | {"category": record["relation_name"], "relation": record["relation_name"]}
    return common | {"category": " & ".join(record["attributes"]), "attributes": record["attributes"]}


def problem(record: Row) -> str | None:
    """Return the fault of a record beyond the types of its fields; None if it is valid."""
    empty = [name for name, value in record.items() if value == "" or (isinstance(value, list) and "" in value)]
    if empty:
        return f"{empty[0]} is empty"
    if len(record.get("attributes", "ab")) != 2:
        return f"attributes is {record['attributes']!r}, not a list of two texts"
    return box_problem(_box(record))


def _box(record: Row) -> list[float]:
    return [record["bbox"][side] for side in "xywh"] if "bbox" in record else [record[side] for side in _BOX]
