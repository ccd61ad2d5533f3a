"""The page of the comparison's Space."""

from vl_assay.metrics.modules.page import Column, Page
from vl_assay.metrics.paired_difference.spec import SPEC

PAGE = Page(
    __file__,
    SPEC,
    inputs={
        "predictions1": [Column("model 1, caption 0"), Column("model 1, caption 1")],
        "predictions2": [Column("model 2, caption 0"), Column("model 2, caption 1")],
        "references": Column("correct caption"),
        "categories": Column("category", "label"),
        "clusters": Column("image", "label"),
    },
    # Six wins and no loss are significant if examples are independent, but they are on two images only.
    example=[
        ["0.31", "0.27", "0.24", "0.26", "0", "swap", "1"],
        ["0.30", "0.22", "0.21", "0.25", "0", "replace", "1"],
        ["0.32", "0.28", "0.23", "0.24", "0", "replace", "1"],
        ["0.28", "0.26", "0.22", "0.23", "0", "swap", "2"],
        ["0.33", "0.29", "0.25", "0.25", "0", "replace", "2"],
        ["0.30", "0.26", "0.24", "0.27", "0", "swap", "2"],
        ["0.29", "0.24", "0.27", "0.22", "0", "replace", "3"],
        ["0.22", "0.25", "0.20", "0.23", "0", "swap", "3"],
        ["0.27", "0.21", "0.28", "0.24", "0", "replace", "4"],
        ["0.24", "0.26", "0.22", "0.24", "0", "swap", "4"],
    ],
)

if __name__ == "__main__":
    PAGE.build().launch()
