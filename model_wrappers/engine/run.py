"""Predict and report in one go, into a folder that grows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...hub_datasets import report
from ...metrics.evaluation import Report, check_options
from ...metrics.records.predictions import prediction_files
from .distributed import join
from .protocol import Model
from .runner import DEFAULT_BENCHMARKS, DEFAULT_MODEL, predict


def run(
    model: str | Model = DEFAULT_MODEL,
    benchmarks: str | Iterable[str] = DEFAULT_BENCHMARKS,
    *,
    out: str | Path | None = None,
    seeds: Iterable[int] = (),
    ties: str | None = None,
    confidence: float = 0.95,
    **how: Any,
) -> Report:
    """Predict and report: evaluate a model on benchmarks, and write tables and plots beside its predictions.

    A folder grows: predictions that are there stay, and the report covers all of the folder's.

    Args:
        model, benchmarks: as for `predict`.
        out: folder of the results; by default `default_folder` of the model's name.
        seeds: seeds of the benchmarks' builders; reports show means and standard deviations over them.
        ties: what a tie counts; by default as each metric's paper has it.
        confidence: level of the intervals.
        how: the further arguments of `predict`.

    Returns:
        The results of all predictions in the folder, with tables, examples and plots; without results in a process that
        is not the main one.

    Raises:
        VLAssayError: as `predict`.
    """
    check_options(ties=ties, confidence=confidence)
    files = predict(model, benchmarks, out=out, seeds=seeds, **how)
    paths = with_earlier(files)
    if not join().is_main:
        return Report([], paths, files.metrics, ties, files.captions)
    found = report(paths, ties=ties, confidence=confidence)
    found.write(files[0].parent)
    return found


def with_earlier(files: Sequence[Path]) -> list[Path]:
    """Files of predictions, followed by all others in the folder of the first."""
    return list(dict.fromkeys([*files, *prediction_files(files[0].parent)]))
