"""The page of the metric's Space."""

import dataclasses

from vl_assay.metrics.augmented_accuracy.app import PAGE as AUGMENTED_ACCURACY
from vl_assay.metrics.brittleness.spec import SPEC

PAGE = dataclasses.replace(AUGMENTED_ACCURACY, app=__file__, spec=SPEC)

if __name__ == "__main__":
    PAGE.build().launch()
