"""Pairs of questions about pairs of images."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.questions import paired_question_accuracy

SPEC = MetricSpec(
    paired_question_accuracy,
    "groups",
    (
        ScoreSpec("group_accuracy", chance=1 / 16, meaning="How often all four answers of a group are right."),
        ScoreSpec("question_accuracy", chance=1 / 4, meaning="How often a question is right on both images."),
        ScoreSpec("image_accuracy", chance=1 / 4, meaning="How often both questions about an image are right."),
        ScoreSpec("accuracy", chance=1 / 2, meaning="How often a question about an image is answered rightly."),
    ),
    is_joint=True,
)
