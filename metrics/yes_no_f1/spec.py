"""Answers to yes-or-no questions."""

from __future__ import annotations

from ..answers import yes_no_f1
from ..contract import MetricSpec, ScoreSpec

SPEC = MetricSpec(
    yes_no_f1,
    "vqa",
    (
        ScoreSpec("accuracy", chance=1 / 2),
        ScoreSpec("macro_f1"),
        ScoreSpec("f1_yes", in_tables=False),
        ScoreSpec("f1_no", in_tables=False),
    ),
    main_score="macro_f1",
    ties=None,
)
