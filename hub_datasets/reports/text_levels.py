"""The score that text alone reaches on the examples of predictions, by category."""

from __future__ import annotations

from typing import Any

from ...metrics.records.predictions import Predictions
from ..authoring.audit.blind import known_levels
from ..authoring.audit.summaries import Levels


def text_levels(predictions: Predictions, metric: str, score: str) -> Levels:
    """The blind levels of a task (see ``audit.blind``), a mapping from category to a fraction in [0, 1].

    They are those that come with the package or, for a task without them, those in the predictions' metadata.

    Args:
        predictions: of a task of a known benchmark.
        metric, score: the metric that evaluates them, and its score of single examples.
    """
    about = predictions.metadata["benchmark"]
    known = known_levels(predictions.benchmark, predictions.task, about.get("options") or {})
    # A file's metadata may be of anybody.
    levels: Any = known or about.get("blind")
    for key in (metric, "per_category"):
        levels = levels.get(key) if isinstance(levels, dict) else None
    parts = levels.items() if isinstance(levels, dict) else ()
    found = {name: part.get(score) for name, part in parts if isinstance(part, dict)}
    return {name: value for name, value in found.items() if isinstance(value, int | float) and 0 <= value <= 1}
