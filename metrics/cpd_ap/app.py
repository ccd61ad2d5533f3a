"""The page of the metric's Space."""

from vl_assay.metrics.cpd_ap.spec import SPEC
from vl_assay.metrics.modules.page import BOXES, Column, Page

# Two captions, each with an image of which it is true and one of which it is false.
PAGE = Page(
    __file__,
    SPEC,
    inputs={**BOXES, "categories": Column("category", "label")},
    example=[
        ["[[10, 10, 50, 40]]", "[0.9]", "[1]", "[[10, 10, 50, 40]]", "[1]", "relation"],
        ["[[20, 15, 60, 45]]", "[0.8]", "[1]", "", "", "relation"],
        ["[[5, 5, 15, 25], [30, 5, 40, 25]]", "[0.7, 0.6]", "[2, 2]", "[[5, 5, 15, 25]]", "[2]", "object"],
        ["", "", "", "", "", "object"],
    ],
)

if __name__ == "__main__":
    PAGE.build().launch()
