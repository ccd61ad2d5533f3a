"""The page of the metric's Space."""

from __future__ import annotations

from pathlib import Path

from vl_assay.metrics.groups import group_match
from vl_assay.metrics.kernels import TIES
from vl_assay.metrics.page import Page

PAGE = Page(
    title="Group Match",
    folder=Path(__file__).parent,
    compute=group_match,
    columns={
        "image 0, caption 0": "number",
        "image 0, caption 1": "number",
        "image 1, caption 0": "number",
        "image 1, caption 1": "number",
        "tag": "label",
    },
    inputs={
        "scores": [["image 0, caption 0", "image 0, caption 1"], ["image 1, caption 0", "image 1, caption 1"]],
        "categories": "tag",
    },
    example=[
        ["0.90", "0.10", "0.20", "0.80", "no tag"],
        ["0.50", "0.40", "0.60", "0.70", "no tag"],
        ["0.30", "0.40", "0.20", "0.50", "Unusual Text"],
        ["0.30", "0.30", "0.30", "0.30", "Unusual Text"],
    ],
    options={"ties": TIES},
)

if __name__ == "__main__":
    PAGE.build().launch()
