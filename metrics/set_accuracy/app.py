"""The page of the metric's Space."""

from vl_assay.metrics.modules.page import Column, Page
from vl_assay.metrics.set_accuracy.spec import SPEC

PAGE = Page(
    __file__,
    SPEC,
    inputs={
        "scores": [Column(f"score of caption {caption}") for caption in range(4)],
        "correct": Column("correct caption"),
        "sets": Column("set", "text"),
        "categories": Column("category", "text"),
    },
    example=[
        ["0.4", "0.1", "0.2", "0.2", "0", "mug and plate", "left"],
        ["0.1", "0.4", "0.2", "0.2", "1", "mug and plate", "right"],
        ["0.1", "0.2", "0.4", "0.2", "2", "mug and plate", "on"],
        ["0.1", "0.2", "0.4", "0.2", "3", "mug and plate", "under"],
    ],
    settings={"pairs": [["left", "right"], ["on", "under"]]},
)

if __name__ == "__main__":
    PAGE.build().launch()
