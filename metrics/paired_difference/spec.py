"""Two models on the same examples."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.comparison import compare_models

SPEC = MetricSpec(
    compare_models,
    "comparison",
    (ScoreSpec("difference", meaning="First model minus second, over the same examples."),),
)
