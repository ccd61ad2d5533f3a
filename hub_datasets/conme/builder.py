"""ConMe (Huang et al., NeurIPS 2024 Datasets and Benchmarks) as a `datasets` builder: the part that people filtered.

A row is an image, a question on it, and two answers, of which one is right. The text is exactly as released.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ..sources.builders import Images, ReleasedRows, Rows, SourceConfig, make_configs
from ..sources.hub_tables import HubFiles
from ..sources.records import Row
from ..sources.source_files import SourceFile

_GET = "Get it with `hf download conme/ConMe --local-dir MY_COPY` (https://huggingface.co/conme/ConMe)"
_CONFIGS = ("replace_att", "replace_obj", "replace_rel")
_SCHEMA = {"question": str, "image": str, "text_options": [str], "correct": str}
_LONGEST_OPTIONS = 10_000
_LETTERS = ("A", "B")


def _rows_file(config: str) -> Rows:
    name = f"{config.replace('_', '-')}_HUMAN_FILTER.csv"
    return Rows(SourceFile(name, (f"data/{name}",), remedy=_GET), _SCHEMA, lists=("text_options",))


class ConMe(ReleasedRows):
    """Three configurations, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(SourceConfig, "ConMe", _CONFIGS)
    BUILDER_CONFIG_CLASS = SourceConfig
    IS_DOWNLOADED = True
    RELEASE = HubFiles("conme/ConMe", "*_HUMAN_FILTER.csv", "images/*", repo_type="model")
    ROWS: ClassVar = {config: _rows_file(config) for config in _CONFIGS}
    IMAGES = Images(("images",), _GET)
    COLUMNS = "id category image filename question caption negative_caption"

    def _problem(self, record: Row) -> str | None:
        if record["correct"].strip() not in _LETTERS:
            return f"correct is {record['correct']!r}, not the letter of an option, A or B"
        options = record["text_options"]
        is_pair = len(options) == 2 and all(0 < len(option.strip()) < _LONGEST_OPTIONS for option in options)
        return None if is_pair else f"text_options is {options!r:.200}, not a list of two texts"

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        options, right = record["text_options"], _LETTERS.index(record["correct"].strip())
        yield {
            "id": f"{part}/{key}",
            "category": part,
            "filename": record["image"].removeprefix("images/"),
            "question": record["question"],
            "caption": options[right],
            "negative_caption": options[1 - right],
        }
