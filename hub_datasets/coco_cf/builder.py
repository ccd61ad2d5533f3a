"""COCO-Counterfactuals (Le et al., NeurIPS 2023 Datasets and Benchmarks) as a `datasets` builder.

A row is a group of two generated images and two captions that differ in a noun, each true of only one image. The text
is exactly as released.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ..sources.builders import Images, ReleasedRows, Rows, SourceConfig, make_configs
from ..sources.columns import GROUP
from ..sources.hub_tables import HubFiles
from ..sources.records import Row
from ..sources.source_files import SourceFile, is_file_name

_GET = (
    "Get it with `hf download Intel/COCO-Counterfactuals data/examples.jsonl data/images.zip --repo-type dataset "
    "--local-dir MY_COPY` and `unzip MY_COPY/data/images.zip -d MY_COPY/data` "
    "(https://huggingface.co/datasets/Intel/COCO-Counterfactuals)"
)
# According to the card of the release, an id may be a number or a text.
_SCHEMA = {"id": object, "image_0": str, "image_1": str, "caption_0": str, "caption_1": str}


class COCOCounterfactuals(ReleasedRows):
    """One configuration, `pairs`, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(SourceConfig, "COCO-Counterfactuals", ["pairs"])
    BUILDER_CONFIG_CLASS = SourceConfig
    IS_DOWNLOADED = True
    RELEASE = HubFiles("Intel/COCO-Counterfactuals", "data/examples.jsonl", "data/images.zip")
    ROWS: ClassVar = {"pairs": Rows(SourceFile("data/examples.jsonl", ("examples.jsonl",), remedy=_GET), _SCHEMA)}
    IMAGES = Images(("data/images", "images"), _GET)
    COLUMNS = f"id {GROUP}"

    def _problem(self, record: Row) -> str | None:
        if not isinstance(record["id"], str | int):
            return f"id is {record['id']!r}, neither a number nor a text"
        for side in "01":
            if not is_file_name(record[f"image_{side}"]):
                return f"image_{side} {record[f'image_{side}']!r} is not the stem of a file's name"
            if not record[f"caption_{side}"].strip():
                return f"caption_{side} is empty"
        return None

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        names = {f"filename_{side}": f"{record[f'image_{side}']}.jpg" for side in "01"}
        captions = {f"caption_{side}": record[f"caption_{side}"] for side in "01"}
        yield {"id": f"{part}/{record['id']}"} | names | captions
