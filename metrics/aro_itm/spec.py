"""Image-text matching on ARO."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.aro import aro_accuracy

SPEC = MetricSpec(
    aro_accuracy,
    "matching",
    (ScoreSpec("accuracy", meaning="How often the positive caption scores higher than every negative."),),
)
