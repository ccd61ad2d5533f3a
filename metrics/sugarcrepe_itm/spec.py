"""Image-text matching on SugarCrepe."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.matching import sugarcrepe_accuracy

SPEC = MetricSpec(
    sugarcrepe_accuracy,
    "matching",
    (ScoreSpec("accuracy", meaning="How often the positive caption scores higher than every negative."),),
)
