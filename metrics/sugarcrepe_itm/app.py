"""The page of the metric's Space."""

from __future__ import annotations

from pathlib import Path

from vl_assay.metrics.functional.kernels import TIES
from vl_assay.metrics.functional.matching import sugarcrepe_accuracy
from vl_assay.metrics.modules.page import Column, Page

PAGE = Page(
    title="SugarCrepe ITM",
    folder=Path(__file__).parent,
    compute=sugarcrepe_accuracy,
    inputs={
        "scores": [Column("score of caption 0"), Column("score of caption 1")],
        "correct": Column("correct caption"),
        "categories": Column("category", "label"),
    },
    example=[
        ["0.31", "0.27", "0", "swap_obj"],
        ["0.25", "0.22", "0", "swap_obj"],
        ["0.22", "0.25", "0", "swap_obj"],
        ["0.30", "0.30", "0", "swap_att"],
    ],
    options={"ties": TIES},
)

if __name__ == "__main__":
    PAGE.build().launch()
