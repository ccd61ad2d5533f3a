"""The page of the metric's Space."""

from vl_assay.metrics.artifact_gap.spec import SPEC
from vl_assay.metrics.modules.page import CAPTION_PAIR, Column, Page

PAGE = Page(
    __file__,
    SPEC,
    inputs={
        **CAPTION_PAIR,
        "categories": Column("category", "label"),
        "clusters": Column("image", "label"),
    },
    # Minus the length of each caption: negatives that add something are longer, the others are not.
    example=[
        ["-14", "-24", "0", "add", "1"],
        ["-9", "-19", "0", "add", "1"],
        ["-21", "-35", "0", "add", "2"],
        ["-11", "-18", "0", "add", "3"],
        ["-11", "-11", "0", "swap", "1"],
        ["-12", "-8", "0", "swap", "2"],
        ["-26", "-30", "0", "swap", "3"],
    ],
)

if __name__ == "__main__":
    PAGE.build().launch()
