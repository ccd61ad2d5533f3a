"""The page of the metric's Space."""

from vl_assay.metrics.modules.page import Column, Page
from vl_assay.metrics.paired_question_accuracy.spec import SPEC

PAGE = Page(
    __file__,
    SPEC,
    inputs={
        "scores": [
            [
                Column(f"image {image}, question {question}, {kind} answer")
                for kind in ("own", "other")
                for question in "01"
            ]
            for image in "01"
        ],
        "categories": Column("type", "label"),
    },
    example=[
        ["0.9", "0.2", "0.1", "0.8", "0.3", "0.7", "0.6", "0.4", "yes_no"],
        ["0.9", "0.6", "0.1", "0.4", "0.3", "0.7", "0.6", "0.4", "yes_no"],
        ["0.9", "0.2", "0.1", "0.8", "0.9", "0.7", "0.1", "0.4", "multiple_choice"],
        ["0.5", "0.5", "0.5", "0.5", "0.5", "0.5", "0.5", "0.5", "multiple_choice"],
    ],
)

if __name__ == "__main__":
    PAGE.build().launch()
