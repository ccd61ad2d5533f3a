"""Image-text matching: one positive caption among several."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.matching import matching_accuracy

SPEC = MetricSpec(
    matching_accuracy,
    "matching",
    (ScoreSpec("accuracy", meaning="How often the positive caption scores higher than every negative."),),
)
