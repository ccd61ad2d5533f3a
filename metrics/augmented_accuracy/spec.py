"""Augmented accuracy."""

from ..contract.spec import MetricSpec, ScoreSpec
from ..functional.hard_positives import augmented_accuracy

SPEC = MetricSpec(
    augmented_accuracy,
    "matching",
    (
        ScoreSpec("original_accuracy", chance=1 / 2),
        ScoreSpec("augmented_accuracy", chance=1 / 3),
        ScoreSpec("gap", higher_is_better=False, chance=1 / 6),
    ),
    main_score="augmented_accuracy",
    positive_captions=2,
)
