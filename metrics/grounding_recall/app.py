"""The page of the metric's Space."""

from vl_assay.metrics.grounding_recall.spec import SPEC
from vl_assay.metrics.modules.page import BOXES, Column, Page

PAGE = Page(
    __file__,
    SPEC,
    inputs={**BOXES, "categories": Column("category", "label")},
    example=[
        ["[[10, 10, 50, 40], [60, 5, 80, 30]]", "[0.9, 0.7]", "[1, 2]", "[[12, 10, 50, 40]]", "[1]", "relation"],
        ["[[0, 0, 9, 9], [5, 5, 15, 25]]", "[0.8, 0.6]", "[1, 1]", "[[5, 5, 15, 25]]", "[1]", "object"],
        ["", "", "", "[[30, 30, 60, 60]]", "[1]", "object"],
    ],
)

if __name__ == "__main__":
    PAGE.build().launch()
