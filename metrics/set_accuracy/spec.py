"""Accuracy of examples, pairs and sets."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.sets import set_accuracy

SPEC = MetricSpec(
    set_accuracy,
    "matching",
    (
        ScoreSpec("accuracy", meaning="How often the positive caption scores higher than every negative."),
        ScoreSpec("pair_accuracy", meaning="How often both examples of a pair are right, such as left and right."),
        ScoreSpec("set_accuracy", meaning="How often all examples of a set are right."),
    ),
    is_joint=True,
)
