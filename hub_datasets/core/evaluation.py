"""Evaluate predictions, with captions from the benchmarks, and with their metrics for files of version 0.1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...metrics.common.errors import VLAssayError
from ...metrics.evaluation import Comparison, Report
from ...metrics.evaluation import compare as _compare
from ...metrics.evaluation import report as _report
from ...metrics.records.predictions import Predictions
from .benchmarks import metrics_of


def report(predictions: str | Path | Iterable[str | Path], **options: Any) -> Report:
    """Evaluate files of predictions.

    Args:
        predictions: the path of one predictions file, or several.
        options: `ties`, `confidence`, `resamples`, `seed`; see ``metrics.evaluation.compute``.

    Returns:
        A sequence of results with tables, examples (with their captions if the benchmark's data can be loaded) and
        plots.

    Raises:
        PredictionsError: a file holds no predictions, or nothing in it can be evaluated.
        UnknownNameError, ScoresError: an option or its value does not exist.
    """
    return _report(predictions, metrics=metrics_of, captions=captions_of, **options)


def compare(*predictions: str | Path, **options: Any) -> Comparison:
    """Compare two or more models on the same examples.

    Args:
        predictions: files of predictions, or folders of them.
        options: `ties`, `confidence`, `resamples`, `permutations`, `seed`; see ``metrics.evaluation.compare``.

    Returns:
        The differences of every pair of models and score, with a verdict, tables and a plot.

    Raises:
        PredictionsError: fewer than two models, no task in common, or files of one task with other data or examples.
        UnknownNameError, ScoresError: an option's value does not exist.
    """
    return _compare(*predictions, metrics=metrics_of, **options)


def captions_of(predictions: Predictions) -> Mapping[str, Sequence[str]]:
    """The captions, or the question, of each example by its id; empty if the benchmark's data cannot be loaded."""
    from .examples import load_examples

    options = predictions.metadata["benchmark"].get("options")
    try:
        tasks = load_examples(
            f"{predictions.benchmark}/{predictions.task}",
            options=options if isinstance(options, dict) else None,
            needs_images=False,
        )
    except (VLAssayError, OSError):
        return {}
    return {example.id: example.captions for task in tasks for example in task.examples}
