"""The page of the metric's Space."""

from vl_assay.metrics.modules.page import Column, Page
from vl_assay.metrics.retrieval_recall.spec import SPEC

PAGE = Page(
    __file__,
    SPEC,
    inputs={
        "scores": Column("scores with all captions", "list"),
        "right": Column("columns of right captions", "list"),
        "conditions": Column("condition", "label"),
    },
    settings={"ks": (1, 5)},  # as ARO reports them
    example=[
        ["[0.9, 0.8, 0.1, 0.2, 0.3, 0.1]", "[0, 1]", "none"],
        ["[0.3, 0.2, 0.7, 0.6, 0.1, 0.2]", "[2, 3]", "none"],
        ["[0.1, 0.4, 0.3, 0.2, 0.8, 0.5]", "[4, 5]", "none"],
        ["[0.5, 0.3, 0.2, 0.3, 0.4, 0.1]", "[0, 1]", "shuffle_all_words"],
        ["[0.6, 0.2, 0.5, 0.4, 0.2, 0.3]", "[2, 3]", "shuffle_all_words"],
        ["[0.2, 0.4, 0.3, 0.2, 0.3, 0.4]", "[4, 5]", "shuffle_all_words"],
    ],
)

if __name__ == "__main__":
    PAGE.build().launch()
