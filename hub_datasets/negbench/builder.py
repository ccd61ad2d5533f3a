"""NegBench's questions and retrieval sets on photographs (Alhamoud et al., CVPR 2025) as a `datasets` builder.

A row of a set of questions is a photograph and four captions that affirm or negate what is in it, of which one is true;
a row of a retrieval set is a photograph and its captions. The text is exactly as released; a true caption comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ..sources.builders import Images, ReleasedRows, Rows, VerifiedConfig, make_configs
from ..sources.columns import columns
from ..sources.image_archives import COCO_VAL2017
from ..sources.records import Row
from ..sources.source_files import SourceFile, is_file_name

_GET = (
    "Get the folder with `gdown --folder https://drive.google.com/drive/folders/1kSEq0mkV1t1T8GuOAM65iz_iAA7e5gxB` and "
    "pass where its CSV files lie"
)
_CAPTIONS = tuple(f"caption_{number}" for number in range(4))
_SCHEMA = dict.fromkeys(("image_path", *_CAPTIONS, "correct_answer", "correct_answer_template"), str)
_RETRIEVAL = {"filepath": str, "captions": [str]}
_TEMPLATES = ("positive", "negative", "hybrid")
_FILES = {"coco": ("COCO_val", 5_914), "voc2007": ("VOC2007", 5_031)}
# The same photographs, with COCO's captions and with those to which a negated object was added.
_SETS = {
    "coco_retrieval": "COCO_val_retrieval",
    "coco_negated_retrieval": "COCO_val_negated_retrieval_llama3.1_rephrased_affneg_true",
}
_IMAGES = {
    "coco": Images(
        ("val2017", "images/val2017"),
        "Get http://images.cocodataset.org/zips/val2017.zip and unpack it into data_dir",
        (COCO_VAL2017,),
    ),
    "voc2007": Images(
        ("VOC2007/JPEGImages", "VOCdevkit/VOC2007/JPEGImages"),
        "Get the test images of http://host.robots.ox.ac.uk/pascal/VOC/voc2007/ and unpack them into data_dir",
    ),
}


class NegBench(ReleasedRows):
    """Four configurations, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(VerifiedConfig, "NegBench", (*_FILES, *_SETS))
    GET_SOURCES = _GET
    ROWS: ClassVar = {
        name: Rows(SourceFile(f"{stem}_mcq_llama3.1_rephrased.csv", remedy=_GET), _SCHEMA, count)
        for name, (stem, count) in _FILES.items()
    } | {
        name: Rows(SourceFile(f"{stem}.csv", remedy=_GET), _RETRIEVAL, lists=("captions",))
        for name, stem in _SETS.items()
    }

    def _columns(self) -> dict[str, Any]:
        if self.config.name in _SETS:
            return columns("id image filename captions")
        return columns("id category image filename caption negative_captions")

    def _images(self) -> Images:
        return _IMAGES[self.config.name.partition("_")[0]]

    def _problem(self, record: Row) -> str | None:
        if "captions" in record:
            if not record["captions"] or not all(caption.strip() for caption in record["captions"]):
                return f"captions is {record['captions']!r:.80}, not a list of texts"
        elif record["correct_answer"] not in "0123" or len(record["correct_answer"]) != 1:
            return f"correct_answer is {record['correct_answer']!r}, which is not 0, 1, 2 or 3"
        elif record["correct_answer_template"] not in _TEMPLATES:
            return (
                f"correct_answer_template {record['correct_answer_template']!r} is not one of {', '.join(_TEMPLATES)}"
            )
        return None if is_file_name(_name(record)) else f"the image {_path(record)!r} does not end in a file name"

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        if "captions" in record:
            yield {"id": f"{part}/{key}", "filename": _name(record), "captions": record["captions"]}
            return
        captions = [record[column] for column in _CAPTIONS]
        caption = captions.pop(int(record["correct_answer"]))
        yield {
            "id": f"{part}/{key}",
            "category": record["correct_answer_template"],
            "filename": _name(record),
            "caption": caption,
            "negative_captions": captions,
        }


def _path(record: Row) -> str:
    return record["filepath" if "filepath" in record else "image_path"]


def _name(record: Row) -> str:
    return _path(record).rpartition("/")[2]
