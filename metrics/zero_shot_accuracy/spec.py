"""Zero-shot classification."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.classification import zero_shot_accuracy

SPEC = MetricSpec(
    zero_shot_accuracy,
    "matching",
    (
        ScoreSpec("acc_at_1", meaning="How often the right class scores higher than every other."),
        ScoreSpec("acc_at_5", meaning="How often the right class is among the five highest."),
        ScoreSpec("acc_at_*", in_tables=False),
    ),
)
