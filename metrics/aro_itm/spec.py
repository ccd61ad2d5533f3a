"""Image-text matching on ARO."""

from __future__ import annotations

from ..aro import aro_accuracy
from ..contract import MetricSpec, ScoreSpec

SPEC = MetricSpec(aro_accuracy, "matching", (ScoreSpec("accuracy"),))
