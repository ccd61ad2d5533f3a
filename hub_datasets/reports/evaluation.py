"""Evaluation of predictions, with captions, parts of tasks and suites from the benchmarks."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...metrics.common.errors import PredictionsError
from ...metrics.common.storage import with_home
from ...metrics.records.predictions import Predictions, prediction_files
from ...metrics.results.compare import Comparison
from ...metrics.results.compare import compare as _compare
from ...metrics.results.compute import no_parts
from ...metrics.results.report import Report
from ...metrics.results.report import report as _report
from ..core.benchmarks import adopt, parts_of, suites_of

if TYPE_CHECKING:
    from ...metrics.results.errors.analysis import ErrorAnalysis

# A count of a run that is known only for the full task, not for its parts.
_OF_WHOLE = "truncated_captions"


def report(predictions: str | Path | Iterable[str | Path], *, parts: bool = True, **options: Any) -> Report:
    """Evaluate files of predictions.

    Args:
        predictions: a file of predictions or a folder of them, or several.
        parts: whether results of the parts of a task follow its own; see `parts_in`.
        options: `ties`, `confidence`, `resamples`, `seed`; see ``metrics.results.compute``.

    Returns:
        A sequence of results with tables, examples (with their captions if the benchmark's data can be loaded) and
        plots.

    Raises:
        PredictionsError: a file holds no predictions, or nothing in it can be evaluated.
        UnknownNameError, ScoresError: an option or its value does not exist.
    """
    paths = [predictions] if isinstance(predictions, str | Path) else predictions
    find_parts = parts_in if parts else no_parts
    return _report(prediction_files(*paths), captions=captions_of, parts=find_parts, suites=suites_of, **options)


def compare(*predictions: str | Path, **options: Any) -> Comparison:
    """Compare two or more models on the same examples.

    Args:
        predictions: files of predictions, or folders of them.
        options: `ties`, `confidence`, `resamples`, `permutations`, `seed`; see ``metrics.results.compare``.

    Returns:
        The differences of every pair of models and score, with a verdict and tables.

    Raises:
        PredictionsError: fewer than two models, no task in common, or files of one task with other data or examples.
        UnknownNameError, ScoresError: an option's value does not exist.
    """
    return _compare(*predictions, parts=parts_in, **options)


def errors(
    *predictions: str | Path, data_dir: str | Path | None = None, images: bool = True, **options: Any
) -> ErrorAnalysis:
    """Analyse the errors of one or more models.

    Args:
        predictions: files of predictions, or folders of them.
        data_dir: the user's copy of the benchmark's sources, a folder that `build` wrote, or the folder of a
            benchmark outside the package; without it images are shown if they are generated or already here, and never
            downloaded.
        images: whether to look for images.
        options: `category`, `ties`, `confidence`, `resamples`, `seed`; see ``metrics.results.errors``.

    Returns:
        The errors of each task: `print` shows a summary and `write` a page with the examples, with captions and images
        as far as the benchmark's data are here.

    Raises:
        PredictionsError: a file holds no predictions, or in none of them single examples can be wrong.
        DataError: the folder `data_dir` does not exist.
        UnknownNameError, ScoresError: a category or an option's value that does not exist.
    """
    # Half a second, which reports need not wait for.
    from ...metrics.results.errors.analysis import errors as analyse
    from .example_data import example_data

    folder, name = None if data_dir is None else str(with_home(data_dir).absolute()), ""
    if folder is not None and (name := adopt(folder)) != folder:
        folder = None  # the folder of a benchmark outside the package, whose builder finds its images
    return analyse(*predictions, data=lambda each: example_data(each, folder, images=images, adopted=name), **options)


def captions_of(predictions: Predictions) -> Mapping[str, Sequence[str]]:
    """Return the captions, or the question, of each example by its id; empty if the data cannot be loaded."""
    from .example_data import example_data

    return example_data(predictions, images=False).captions


def task_in(predictions: Predictions, task: str) -> Predictions:
    """Return the predictions of a task: the given ones, or a part of them.

    Raises:
        PredictionsError: the task is neither theirs nor a part of it, or they lack rows of it.
    """
    for part_or_whole in chain((predictions,), parts_in(predictions)):
        if part_or_whole.task == task:
            return part_or_whole
    raise PredictionsError(
        f"the predictions of {predictions.model} on {predictions.benchmark}/{predictions.task} have no examples of "
        f"{predictions.benchmark}/{task}, or not all; choose a task that they have"
    )


def parts_in(predictions: Predictions) -> Iterator[Predictions]:
    """Yield the predictions of each part of a task (see `Task.part_of`) whose rows some predictions contain.

    The metadata are copied, with the name, rows and blind levels of the part, and without the number of truncated
    captions, which is known for the whole task only. Predictions of some configurations, or of the first examples of
    a task, contain only the matching rows of a part.

    Warns:
        UserWarning: the predictions lack rows of a part, for example because they are of another release; the part is
            left out.
    """
    about = predictions.metadata["benchmark"]
    for part in parts_of(predictions.benchmark, predictions.task):
        configs = set(about.get("configs") or ())
        part_ids = {id for id in part.ids if not configs or id.partition("/")[0] in configs}
        rows = [replace(row, config=part.configs[0]) for row in predictions.rows if row.id in part_ids]
        if not rows:
            continue
        if len(rows) < len(part_ids) and not about.get("limit"):
            lacking = sorted(part_ids.difference(row.id for row in rows))
            warnings.warn(
                f"{predictions.benchmark}/{part.name} is not reported: the predictions of {predictions.model} lack "
                f"{len(lacking):,} of its {len(part_ids):,} examples, such as {lacking[0]!r}, as those of another "
                "release do",
                UserWarning,
                stacklevel=2,
            )
            continue
        kept = {row.id for row in rows}
        about_part = {"task": part.name, "configs": list(part.configs), "rows": len(rows)}
        about_part["missing"] = [id for id in about["missing"] if id in kept]
        about_part["blind"] = (about.get("blind_parts") or {}).get(part.name, {})
        run = {name: value for name, value in predictions.metadata.get("run", {}).items() if name != _OF_WHOLE}
        yield Predictions(rows, {**predictions.metadata, "benchmark": {**about, **about_part}, "run": run})
