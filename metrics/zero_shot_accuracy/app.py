"""The page of the metric's Space."""

from vl_assay.metrics.modules.page import Column, Page
from vl_assay.metrics.zero_shot_accuracy.spec import SPEC

PAGE = Page(
    __file__,
    SPEC,
    inputs={
        "scores": Column("scores of all classes", "list"),
        "correct": Column("column of the right class", "number"),
        "categories": Column("class", "label"),
    },
    settings={"ks": (1, 2)},  # of the four classes below
    example=[
        ["[0.31, 0.22, 0.18, 0.20]", "0", "cat"],
        ["[0.24, 0.26, 0.19, 0.21]", "0", "cat"],
        ["[0.20, 0.33, 0.21, 0.18]", "1", "dog"],
        ["[0.19, 0.22, 0.22, 0.17]", "2", "car"],
    ],
)

if __name__ == "__main__":
    PAGE.build().launch()
