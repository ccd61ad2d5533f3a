"""The page of the metric's Space."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from vl_assay.metrics.augmented_accuracy.app import PAGE as AUGMENTED_ACCURACY
from vl_assay.metrics.functional.hard_positives import brittleness

# The same table judged otherwise; the paper's ties come first.
PAGE = dataclasses.replace(
    AUGMENTED_ACCURACY,
    title="Brittleness",
    folder=Path(__file__).parent,
    compute=brittleness,
    options={"ties": ("right", "half", "wrong")},
)

if __name__ == "__main__":
    PAGE.build().launch()
