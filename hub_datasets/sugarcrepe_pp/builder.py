"""SugarCrepe++ (Dumpala et al., NeurIPS 2024 Datasets and Benchmarks) as a `datasets` builder.

A row is an image of COCO val2017, two captions that describe it in different words, and a false caption. The text is
exactly as released, defects included; `defect` names a defect that makes the row unanswerable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ..sources.builders import ReleasedRows, Rows, VerifiedConfig, make_configs
from ..sources.records import Row
from ..sources.source_files import SourceFile, is_file_name
from ..sugarcrepe.release import IMAGES

# The rows of each configuration in the release.
COUNTS = {"replace_att": 788, "replace_obj": 1_652, "replace_rel": 1_406, "swap_att": 666, "swap_obj": 245}
_URL = "https://raw.githubusercontent.com/Sri-Harsha/scpp/cfdcd827e2725427752fdc582f82d1695d983417/data"
_SCHEMA = {"id": int, "filename": str, "caption": str, "caption2": str, "negative_caption": str}


class SugarCrepePP(ReleasedRows):
    """Five configurations, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(VerifiedConfig, "SugarCrepe++", COUNTS)
    IS_DOWNLOADED = True
    ROWS: ClassVar = {
        name: Rows(SourceFile(f"data/{name}.json", (f"{name}.json",), f"{_URL}/{name}.json"), _SCHEMA, count)
        for name, count in COUNTS.items()
    }
    IMAGES = IMAGES
    COLUMNS = "id category image filename caption positive_caption negative_caption defect"

    def _problem(self, record: Row) -> str | None:
        name = record["filename"]
        return None if is_file_name(name) else f"filename {name!r} is not a bare file name"

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        first, second, negative = list(record.values())[2:]
        yield {
            "id": f"{part}/{record['id']}",
            "category": part,
            "filename": record["filename"],
            "caption": first,
            "positive_caption": second,
            "negative_caption": negative,
            "defect": "negative is a positive" if negative in (first, second) else None,
        }
