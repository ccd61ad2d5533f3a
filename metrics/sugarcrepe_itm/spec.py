"""Image-text matching on SugarCrepe."""

from __future__ import annotations

from ..contract import MetricSpec, ScoreSpec
from ..matching import sugarcrepe_accuracy

SPEC = MetricSpec(sugarcrepe_accuracy, "matching", (ScoreSpec("accuracy"),))
