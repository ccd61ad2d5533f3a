"""Recall over an image and its distractor."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.grounding import group_recall_at_1

SPEC = MetricSpec(
    group_recall_at_1,
    "detection",
    (ScoreSpec("recall_at_1", meaning="How often the best box, over an image and its distractor, is right."),),
    label="group",
)
