"""The score that text alone reaches on the examples of predictions, by category, if audits or predictions know it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metrics.records.predictions import Predictions
from ...metrics.records.schema import MatchingRow
from ..authoring.audit.summaries import Levels, audited_levels


def text_levels(predictions: Predictions, metric: str, score: str) -> list[Levels]:
    """The accuracy of each known text-only scorer on a task, a mapping from category to a fraction in [0, 1].

    They are the best rule of the predictions' metadata (see ``blind.blind_levels``) and, where each row is one caption
    and one negative, the rules and probes of the benchmark's audit. A level is what can be reached at least: of rows
    with more captions and of benchmarks without an audit only rules are known.

    Args:
        predictions: of a task of a known benchmark.
        metric, score: the metric that evaluates them, and its score of single examples.
    """
    found = [_of_rules(predictions.metadata["benchmark"], metric, score)]
    scored = [row for row in predictions.rows if row.is_scored]
    if all(isinstance(row, MatchingRow) and [len(each) for each in row.scores or ()] == [2] for row in scored):
        found += audited_levels(predictions.benchmark, predictions.task)
    return [levels for levels in found if levels]


def _of_rules(about: Mapping[str, Any], metric: str, score: str) -> Levels:
    """The levels in a file's metadata, which may be of anybody."""
    levels: Any = about.get("blind")
    for key in (metric, "per_category"):
        levels = levels.get(key) if isinstance(levels, dict) else None
    parts = levels.items() if isinstance(levels, dict) else ()
    found = {name: part.get(score) for name, part in parts if isinstance(part, dict)}
    return {name: value for name, value in found.items() if isinstance(value, int | float) and 0 <= value <= 1}
