"""The page of the metric's Space."""

from vl_assay.metrics.group_match.spec import SPEC
from vl_assay.metrics.modules.page import Column, Page

PAGE = Page(
    __file__,
    SPEC,
    inputs={
        "scores": [
            [Column("image 0, caption 0"), Column("image 0, caption 1")],
            [Column("image 1, caption 0"), Column("image 1, caption 1")],
        ],
        "categories": Column("tag", "label"),
    },
    example=[
        ["0.90", "0.10", "0.20", "0.80", "no tag"],
        ["0.50", "0.40", "0.60", "0.70", "no tag"],
        ["0.30", "0.40", "0.20", "0.50", "Unusual Text"],
        ["0.30", "0.30", "0.30", "0.30", "Unusual Text"],
    ],
)

if __name__ == "__main__":
    PAGE.build().launch()
