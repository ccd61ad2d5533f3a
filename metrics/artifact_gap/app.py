"""The page of the metric's Space."""

from __future__ import annotations

from pathlib import Path

from vl_assay.metrics.functional.kernels import TIES
from vl_assay.metrics.functional.symmetry import artifact_gap
from vl_assay.metrics.modules.page import Column, Page

PAGE = Page(
    title="Artefact Gap",
    folder=Path(__file__).parent,
    compute=artifact_gap,
    inputs={
        "scores": [Column("score of caption 0"), Column("score of caption 1")],
        "correct": Column("correct caption"),
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
    options={"ties": TIES},
)

if __name__ == "__main__":
    PAGE.build().launch()
