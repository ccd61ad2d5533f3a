"""The page of the metric's Space."""

from vl_assay.metrics.modules.page import Column, Page
from vl_assay.metrics.yes_no_f1.spec import SPEC

PAGE = Page(
    __file__,
    SPEC,
    inputs={
        "answers": Column("answer", "text"),
        "truth": Column("right answer", "text"),
        "categories": Column("split", "label"),
    },
    example=[
        ["yes", "yes", "object"],
        ["yes", "no", "object"],
        ["no", "no", "object"],
        ["yes", "yes", "relation"],
        ["yes", "no", "relation"],
        ["no", "yes", "relation"],
    ],
)

if __name__ == "__main__":
    PAGE.build().launch()
