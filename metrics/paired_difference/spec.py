"""Two models on the same examples."""

from __future__ import annotations

from ..comparison import compare_models
from ..contract import MetricSpec, ScoreSpec

SPEC = MetricSpec(compare_models, "comparison", (ScoreSpec("difference"),))
