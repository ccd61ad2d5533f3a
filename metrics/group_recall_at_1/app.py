"""The page of the metric's Space."""

from __future__ import annotations

from pathlib import Path

from vl_assay.metrics.functional.boxes import FORMATS
from vl_assay.metrics.functional.grounding import group_recall_at_1
from vl_assay.metrics.functional.kernels import TIES
from vl_assay.metrics.modules.page import BOXES, Column, Page

# The rows of a pair share a number and their phrase ids; the caption is true of one image and false of the other.
PAGE = Page(
    title="Group-Recall@1",
    folder=Path(__file__).parent,
    compute=group_recall_at_1,
    inputs={
        "pair_ids": Column("pair"),
        "positive": Column("true of the image (1 or 0)"),
        **BOXES,
        "categories": Column("category", "label"),
    },
    example=[
        ["1", "1", "[[10, 10, 50, 40]]", "[0.8]", "[1]", "[[10, 10, 50, 40]]", "[1]", "relation"],
        ["1", "0", "[[20, 15, 60, 45]]", "[0.9]", "[1]", "", "", "relation"],
        ["2", "1", "[[5, 5, 15, 25]]", "[0.7]", "[1]", "[[5, 5, 15, 25]]", "[1]", "object"],
        ["2", "0", "[[30, 5, 40, 25]]", "[0.4]", "[1]", "", "", "object"],
    ],
    options={"box_format": FORMATS, "ties": TIES},
)

if __name__ == "__main__":
    PAGE.build().launch()
