"""Brittleness."""

from ..contract.spec import MetricSpec, ScoreSpec
from ..functional.hard_positives import brittleness

SPEC = MetricSpec(
    brittleness,
    "matching",
    (
        ScoreSpec("brittleness", higher_is_better=False, chance=1 / 3),
        ScoreSpec("both_wrong", higher_is_better=False, chance=1 / 3),
    ),
    # A tie is not brittle by the paper's strict inequalities.
    ties="right",
    positive_captions=2,
)
