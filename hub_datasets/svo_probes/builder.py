"""SVO-Probes (Hendricks and Nematzadeh, ACL Findings 2021) as a `datasets` builder.

A row is a sentence with two images: one that it is true of, and one whose subject, verb or object is another. Only
addresses of the images were released, many of which are dead: the images are the user's copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ..sources.builders import Images, ReleasedRows, Rows, SourceConfig, make_configs
from ..sources.columns import columns
from ..sources.records import Row
from ..sources.source_files import SourceFile, is_file_name

PARTS = ("subj", "verb", "obj")
MIXED = "mixed"
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_GET = (
    "Get svo_probes.csv from https://github.com/google-deepmind/svo_probes, and the images from the addresses in it, "
    "each as images/<image_id>.jpg"
)
_FILE = SourceFile("svo_probes.csv", ("data/svo_probes.csv",), remedy=_GET)
_NAMES = "sentence pos_triplet neg_triplet pos_url neg_url pos_image_id neg_image_id subj_neg verb_neg obj_neg"


class SvoProbes(ReleasedRows):
    """One configuration, `svo`, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(SourceConfig, "SVO-Probes", ["svo"])
    BUILDER_CONFIG_CLASS = SourceConfig
    GET_SOURCES = _GET
    ROWS: ClassVar = {"svo": Rows(_FILE, dict.fromkeys(_NAMES.split(), str))}
    IMAGES = Images(("images",), "Put the images into images/ of data_dir, from https addresses in svo_probes.csv")

    def _columns(self) -> dict[str, Any]:
        names = "id category caption image_0 filename_0 image_1 filename_1"
        return columns(f"{names} positive_triplet negative_triplet positive_url negative_url")

    def _problem(self, record: Row) -> str | None:
        for name in ("pos_image_id", "neg_image_id"):
            if not is_file_name(record[name]):
                return f"{name} {record[name]!r} is no bare name"
        for part in PARTS:
            if record[f"{part}_neg"].strip().lower() not in _FLAGS:
                return f"{part}_neg is {record[f'{part}_neg']!r}, neither true nor false"
        return None if record["sentence"].strip() else "sentence is empty"

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        changed = [name for name in PARTS if _FLAGS[record[f"{name}_neg"].strip().lower()]]
        yield {
            "id": f"{part}/{key}",
            "category": changed[0] if len(changed) == 1 else MIXED,
            "caption": record["sentence"],
            "filename_0": f"{record['pos_image_id']}.jpg",
            "filename_1": f"{record['neg_image_id']}.jpg",
            "positive_triplet": record["pos_triplet"],
            "negative_triplet": record["neg_triplet"],
            "positive_url": record["pos_url"],
            "negative_url": record["neg_url"],
        }
