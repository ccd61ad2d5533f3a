"""The page of the metric's Space."""

from vl_assay.metrics.aro_itm.spec import SPEC
from vl_assay.metrics.functional.aro import MIN_COUNTS
from vl_assay.metrics.modules.page import Column, Page

PAGE = Page(
    __file__,
    SPEC,
    # A list, since Order has five captions and the others two.
    inputs={
        "scores": Column("scores of the captions", "list"),
        "correct": Column("correct caption"),
        "categories": Column("relation or attributes", "label"),
    },
    example=[
        ["[0.31, 0.27]", "0", "to the left of"],
        ["[0.27, 0.28]", "0", "to the left of"],
        ["[0.26, 0.29]", "0", "to the left of"],
        ["[0.30, 0.24]", "0", "on"],
        ["[0.29, 0.25]", "0", "eating"],
        ["[0.25, 0.25]", "0", "riding"],
        ["[0.30, 0.29]", "0", "next to"],
    ],
    options={"task": tuple(MIN_COUNTS)},
)

if __name__ == "__main__":
    PAGE.build().launch()
