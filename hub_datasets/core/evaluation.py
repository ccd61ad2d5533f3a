"""Evaluate predictions, with captions from the benchmarks, and with their metrics for files of version 0.1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...metrics.evaluation import Comparison, Report
from ...metrics.evaluation import compare as _compare
from ...metrics.evaluation import report as _report
from ...metrics.records.predictions import Predictions
from .benchmarks import metrics_of

if TYPE_CHECKING:
    from ...metrics.evaluation.errors import ErrorAnalysis


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


def errors(
    *predictions: str | Path, data_dir: str | Path | None = None, images: bool = True, **options: Any
) -> ErrorAnalysis:
    """Find out what one or more models get wrong, and look at it.

    Args:
        predictions: files of predictions, or folders of them.
        data_dir: the user's own copy of the benchmark's sources, or a folder that `build` wrote; without it images are
            shown if they are generated or already here, and never downloaded.
        images: whether to look for images.
        options: `category`, `metric`, `ties`, `confidence`, `resamples`, `seed`; see ``metrics.evaluation.errors``.

    Returns:
        The errors of each task: `print` shows a summary and `write` a page with the examples, with captions and images
        as far as the benchmark's data are here.

    Raises:
        PredictionsError: a file holds no predictions, or in none of them single examples can be wrong.
        DataError: there is no folder `data_dir`.
        UnknownNameError, ScoresError: a category, a metric or an option's value that does not exist.
    """
    # Half a second, which reports need not wait for.
    from ...metrics.evaluation.errors import errors as analyse
    from .example_data import example_data

    return analyse(
        *predictions, metrics=metrics_of, data=lambda each: example_data(each, data_dir, images=images), **options
    )


def captions_of(predictions: Predictions) -> Mapping[str, Sequence[str]]:
    """The captions, or the question, of each example by its id; empty if the benchmark's data cannot be loaded."""
    from .example_data import example_data

    return example_data(predictions, images=False).captions
