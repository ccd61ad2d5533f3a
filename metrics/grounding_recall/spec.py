"""Recall of phrase grounding."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.grounding import grounding_recall

SPEC = MetricSpec(
    grounding_recall,
    "detection",
    (ScoreSpec("recall_at_*", meaning="How often one of the k best boxes of a phrase is right."),),
    label="grounding",
)
