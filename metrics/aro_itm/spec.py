"""Image-text matching on ARO."""

from __future__ import annotations

from ..contract.spec import MetricSpec, ScoreSpec
from ..functional.aro import aro_accuracy

SPEC = MetricSpec(aro_accuracy, "matching", (ScoreSpec("accuracy"),))
