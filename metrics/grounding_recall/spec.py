"""Recall of phrase grounding."""

from __future__ import annotations

from ..contract.spec import MetricSpec, ScoreSpec
from ..functional.grounding import grounding_recall

SPEC = MetricSpec(grounding_recall, "detection", (ScoreSpec("recall_at_*"),), label="grounding")
