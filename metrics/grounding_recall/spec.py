"""Recall of phrase grounding."""

from __future__ import annotations

from ..contract import MetricSpec, ScoreSpec
from ..grounding import grounding_recall

SPEC = MetricSpec(grounding_recall, "detection", (ScoreSpec("recall_at_*"),), label="grounding")
