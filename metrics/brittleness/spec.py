"""Brittleness."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.hard_positives import brittleness

SPEC = MetricSpec(
    brittleness,
    "matching",
    (
        ScoreSpec(
            "brittleness", False, 1 / 3, meaning="How often only one of two true captions outscores the negative."
        ),
        ScoreSpec("both_wrong", False, 1 / 3, meaning="How often neither of two true captions outscores the negative."),
    ),
    # A tie is not brittle by the paper's strict inequalities.
    ties="right",
    positive_captions=2,
)
