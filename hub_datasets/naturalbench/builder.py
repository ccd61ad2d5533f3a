"""NaturalBench (Li, Lin, Peng et al., NeurIPS 2024 Datasets and Benchmarks) as a `datasets` builder.

A row of `vqa`, from the Hub, is two photographs and two questions, each with one answer on the first and the other on
the second; its captions are a question with an answer. A row of `retrieval`, from the user's copy, is two photographs
with a caption each. Text and images are exactly as released; `defect` names questions that no answer can decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ..sources.builders import HubConfig, Images, ReleasedRows, Rows, make_configs
from ..sources.columns import GROUP, columns
from ..sources.hub_tables import HubFiles, HubTable
from ..sources.records import Row
from ..sources.source_files import SourceFile

TABLE = HubTable(
    "BaiqiL/NaturalBench",
    "data/train-*.parquet",
    {"Image_0": "{row:04}_0.jpg", "Image_1": "{row:04}_1.jpg"},
)
PROMPT = "Question: {} Answer: {}"
_GET = (
    "Get them with `hf download BaiqiL/NaturalBench NaturalBench-Retrieval.zip --repo-type dataset --local-dir "
    "MY_COPY` and `unzip MY_COPY/NaturalBench-Retrieval.zip -d MY_COPY` (https://huggingface.co/datasets/BaiqiL/NaturalBench)"
)
_ANSWERS = [f"Image_{image}_Question_{question}" for question in "01" for image in "01"]
_VQA: dict[str, Any] = dict.fromkeys(
    ("Image_0", "Image_1", "Question_0", "Question_1", *_ANSWERS, "Question_Type", "Source"), str
)
_RETRIEVAL = {"index": int, "image_0": str, "image_1": str, "caption_0": str, "caption_1": str}
_FOLDER = "NaturalBench-Retrieval"


class NaturalBench(ReleasedRows):
    """Two configurations, `vqa` and `retrieval`, one split `test`; the card has columns and layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(HubConfig, "NaturalBench", ["vqa", "retrieval"])
    BUILDER_CONFIG_CLASS = HubConfig
    IS_DOWNLOADED = True
    ROWS: ClassVar = {
        "vqa": Rows(TABLE, _VQA, 1_900),
        "retrieval": Rows(SourceFile("metadata.json", (f"{_FOLDER}/metadata.json",), remedy=_GET), _RETRIEVAL),
    }
    RELEASE = HubFiles("BaiqiL/NaturalBench", f"{_FOLDER}.zip")
    IMAGES = Images((f"{_FOLDER}/images", "images"), _GET)

    def _columns(self) -> dict[str, Any]:
        if self.config.name == "vqa":
            return columns(f"id category source {GROUP} other_caption_0 other_caption_1 defect")
        return columns(f"id {GROUP}")

    def _problem(self, record: Row) -> str | None:
        empty = [name for name, value in record.items() if isinstance(value, str) and not value.strip()]
        return f"{empty[0]} is empty" if empty else None

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        if part == "vqa":
            yield _question_row(key, record)
            return
        row = {"id": f"{part}/{record['index']}"}
        for side in "01":
            row |= {f"filename_{side}": record[f"image_{side}"], f"caption_{side}": record[f"caption_{side}"]}
        yield row


def _question_row(key: str, record: Row) -> Row:
    """Return the row of two questions, each with its right answer for the image of the same number, and the other."""
    row: Row = {"id": f"vqa/{key}", "category": record["Question_Type"], "source": record["Source"]}
    undecided = []
    for number, opposite in ("01", "10"):
        own_answer, other_answer = (record[f"Image_{image}_Question_{number}"] for image in (number, opposite))
        row[f"filename_{number}"] = record[f"Image_{number}"]
        row[f"caption_{number}"] = PROMPT.format(record[f"Question_{number}"], own_answer)
        row[f"other_caption_{number}"] = PROMPT.format(record[f"Question_{number}"], other_answer)
        if own_answer.strip().casefold() == other_answer.strip().casefold():
            undecided.append(f"question {number} has one answer on both images")
    return row | {"defect": "; ".join(undecided) or None}
