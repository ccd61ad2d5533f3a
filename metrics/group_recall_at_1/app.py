"""The page of the metric's Space."""

from vl_assay.metrics.group_recall_at_1.spec import SPEC
from vl_assay.metrics.modules.page import BOXES, Column, Page

# The rows of a pair share a number and their phrase ids; the caption is true of one image and false of the other.
PAGE = Page(
    __file__,
    SPEC,
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
)

if __name__ == "__main__":
    PAGE.build().launch()
