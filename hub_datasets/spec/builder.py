"""SPEC (Peng et al., CVPR 2024) as a `datasets` builder.

A row is a generated image and some captions, or a caption and some generated images, that differ in a size, a place, a
number or whether something is there. The text is exactly as released; what is true comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import datasets

from ..sources.builders import Images, ReleasedRows, Rows, SourceConfig, make_configs
from ..sources.columns import columns
from ..sources.hub_tables import HubFiles
from ..sources.records import Row
from ..sources.source_files import SourceFile
from .subsets import SUBSETS

_GET = (
    "Get it with `hf download wjpoom/SPEC data.zip --repo-type dataset --local-dir MY_COPY` and "
    "`unzip MY_COPY/data.zip -d MY_COPY` (https://huggingface.co/datasets/wjpoom/SPEC)"
)
_SCHEMA = {"query": str, "keys": [str], "label": int}
_FILES = {
    f"{subset}_{direction}": f"{subset}/{file}.json"
    for direction, file in (("i2t", "image2text"), ("t2i", "text2image"))
    for subset in SUBSETS
}


class SPEC(ReleasedRows):
    """Two configurations for each subset, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(SourceConfig, "SPEC", _FILES)
    BUILDER_CONFIG_CLASS = SourceConfig
    IS_DOWNLOADED = True
    RELEASE = HubFiles("wjpoom/SPEC", "data.zip")
    ROWS: ClassVar = {
        config: Rows(SourceFile(file, (f"data/{file}",), remedy=_GET), _SCHEMA) for config, file in _FILES.items()
    }

    @property
    def _subset(self) -> str:
        return self.config.name.rpartition("_")[0]

    @property
    def _is_over_captions(self) -> bool:
        return self.config.name.endswith("_i2t")

    def _columns(self) -> dict[str, Any]:
        if self._is_over_captions:
            return columns("id image filename caption negative_captions")
        numbers = range(SUBSETS[self._subset])
        images = {f"image_{number}": datasets.Image() for number in numbers}
        return columns("id") | images | columns(" ".join([*(f"filename_{number}" for number in numbers), "caption"]))

    def _images(self) -> Images:
        return Images((self._subset, f"data/{self._subset}"), _GET)

    def _problem(self, record: Row) -> str | None:
        keys, expected = record["keys"], SUBSETS[self._subset]
        if len(keys) != expected:
            return f"keys has {len(keys)} entries, but a row of {self._subset} chooses from {expected}"
        if not 0 <= record["label"] < expected:
            return f"label is {record['label']}, which is not a place in keys, from 0 to {expected - 1}"
        empty = next((text for text in (record["query"], *keys) if not text.strip()), None)
        return None if empty is None else f"{empty!r} among the query and keys is empty"

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        keys = list(record["keys"])
        true = keys.pop(record["label"])
        row: Row = {"id": f"{part}/{key}"}
        if self._is_over_captions:
            row |= {"filename": record["query"], "caption": true, "negative_captions": keys}
        else:
            row |= {f"filename_{number}": name for number, name in enumerate((true, *keys))}
            row["caption"] = record["query"]
        yield row
