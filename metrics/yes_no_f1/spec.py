"""Answers to yes-or-no questions."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.vqa import yes_no_f1

SPEC = MetricSpec(
    yes_no_f1,
    "vqa",
    (
        ScoreSpec("accuracy", chance=1 / 2, meaning="How often a yes-or-no question is answered rightly."),
        ScoreSpec("macro_f1", meaning="Mean of the F1 scores of yes and of no."),
        ScoreSpec("f1_yes", in_tables=False),
        ScoreSpec("f1_no", in_tables=False),
    ),
    main_score="macro_f1",
    ties=None,
)
