"""Augmented accuracy."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.hard_positives import augmented_accuracy

SPEC = MetricSpec(
    augmented_accuracy,
    "matching",
    (
        ScoreSpec("original_accuracy", chance=1 / 2, meaning="How often the original caption outscores its negative."),
        ScoreSpec(
            "augmented_accuracy",
            chance=1 / 3,
            meaning="How often a caption and its true rewording both outscore the negative.",
        ),
        ScoreSpec("gap", False, 1 / 6, meaning="What the true rewordings cost: original minus augmented accuracy."),
    ),
    main_score="augmented_accuracy",
    positive_captions=2,
)
