"""The page of the metric's Space."""

from __future__ import annotations

from pathlib import Path

from vl_assay.metrics.functional.boxes import FORMATS
from vl_assay.metrics.functional.grounding import grounding_recall
from vl_assay.metrics.functional.kernels import TIES
from vl_assay.metrics.modules.page import BOXES, Column, Page

PAGE = Page(
    title="Phrase grounding Recall@k",
    folder=Path(__file__).parent,
    compute=grounding_recall,
    inputs={
        **BOXES,
        "categories": Column("category", "label"),
    },
    example=[
        ["[[10, 10, 50, 40], [60, 5, 80, 30]]", "[0.9, 0.7]", "[1, 2]", "[[12, 10, 50, 40]]", "[1]", "relation"],
        ["[[0, 0, 9, 9], [5, 5, 15, 25]]", "[0.8, 0.6]", "[1, 1]", "[[5, 5, 15, 25]]", "[1]", "object"],
        ["", "", "", "[[30, 30, 60, 60]]", "[1]", "object"],
    ],
    options={"box_format": FORMATS, "ties": TIES},
)

if __name__ == "__main__":
    PAGE.build().launch()
