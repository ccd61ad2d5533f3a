"""The page of the metric's Space."""

from __future__ import annotations

from pathlib import Path

from vl_assay.metrics.functional.vqa import yes_no_f1
from vl_assay.metrics.modules.page import Column, Page

PAGE = Page(
    title="Yes-No F1",
    folder=Path(__file__).parent,
    compute=yes_no_f1,
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
