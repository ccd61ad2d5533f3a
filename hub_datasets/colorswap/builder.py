"""ColorSwap (Burapacheep et al., Findings of ACL 2024) as a `datasets` builder, from its gated repository on the Hub.

A row is a group of two images and two captions of the same words, in which colours are swapped; each caption is true of
its own image only. Text and images are exactly as released. They are read with the user's own access, or from the
user's own copy: the Hub's Parquet files, or the authors' JSON files and folder of images.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ..sources.columns import GROUP
from ..sources.hub_tables import HubConfig, HubTable
from ..sources.released_rows import Images, ReleasedRows, Rows
from ..sources.source_files import Row, SourceFile, make_configs

# The names that the images have in the authors' archive.
IMAGE_NAMES = {f"image_{side}": f"images/img_{{id}}_{side}.png" for side in "12"}
_GET = "Get the authors' archive with `gdown 1xdG94DQdz_eQVH1lrEeaHVz_BNkrVgb5`"
COUNTS = {"test": 300, "train": 700}
_TEXTS = ("caption_1", "caption_2", "image_source", "caption_source")
_SCHEMA: dict[str, Any] = {"id": int, **dict.fromkeys((*IMAGE_NAMES, *_TEXTS), str)}


class ColorSwap(ReleasedRows):
    """Configurations `test` and `train`, each with one split `test`; the card has columns and layout of `data_dir`.

    Without access on the Hub a `MissingSourceError` is raised.
    """

    BUILDER_CONFIGS: ClassVar = make_configs(HubConfig, "ColorSwap", COUNTS)
    BUILDER_CONFIG_CLASS = HubConfig
    IS_DOWNLOADED = True
    ROWS: ClassVar = {
        name: Rows(
            SourceFile(f"{name}.json", remedy=_GET),
            _SCHEMA,
            count,
            table=HubTable("stanfordnlp/colorswap", f"data/{name}-*.parquet", IMAGE_NAMES),
        )
        for name, count in COUNTS.items()
    }
    IMAGES = Images(("images",), f"{_GET} and unpack its images.zip")
    COLUMNS = f"id {GROUP} image_source caption_source"

    def _problem(self, record: Row) -> str | None:
        empty = [name for name in (*IMAGE_NAMES, "caption_1", "caption_2") if not record[name].strip()]
        return f"{empty[0]} is empty" if empty else None

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        yield {
            "id": f"{part}/{record['id']}",
            "filename_0": record["image_1"],
            "caption_0": record["caption_1"],
            "filename_1": record["image_2"],
            "caption_1": record["caption_2"],
            "image_source": record["image_source"],
            "caption_source": record["caption_source"],
        }
