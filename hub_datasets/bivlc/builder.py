"""BiVLC (Miranda et al., NeurIPS 2024 Datasets and Benchmarks) as a `datasets` builder, from the Hub.

A row is a group of two images and two captions: SugarCrepe's photograph and caption, and its hard negative with an
image that was generated for it. Each caption is true of only one image. Text and images are exactly as released.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ..sources.builders import HubConfig, ReleasedRows, Rows, make_configs
from ..sources.columns import GROUP
from ..sources.hub_tables import HubTable
from ..sources.records import Row

# The release has neither ids nor names of files.
TABLE = HubTable(
    "imirandam/BiVLC",
    "data/test-*.parquet",
    {"image": "{row:04}_positive.jpg", "negative_image": "{row:04}_negative.png"},
)
ROWS = 2_933
_SCHEMA: dict[str, Any] = dict.fromkeys(
    ("image", "caption", "negative_caption", "negative_image", "type", "subtype"), str
)


class BiVLC(ReleasedRows):
    """One configuration, `bivlc`, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(HubConfig, "BiVLC", ["bivlc"])
    BUILDER_CONFIG_CLASS = HubConfig
    IS_DOWNLOADED = True
    ROWS: ClassVar = {"bivlc": Rows(TABLE, _SCHEMA, ROWS)}
    COLUMNS = f"id category {GROUP}"

    def _problem(self, record: Row) -> str | None:
        empty = [name for name, value in record.items() if not value]
        return f"{empty[0]} is empty" if empty else None

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        category = f"{record['type']}_{record['subtype']}"
        yield {
            "id": f"{part}/{category}/{key}",
            "category": category,
            "filename_0": record["image"],
            "caption_0": record["caption"],
            "filename_1": record["negative_image"],
            "caption_1": record["negative_caption"],
        }
