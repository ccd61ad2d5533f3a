"""Predictions as a log of inspect_ai, which it reads as its own, as ``precomputed:LOG`` does.

A sample is a question of `multiple_choice`, and its answer the letter of the choice with the highest score. A tie for
the highest is no answer, which is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

from ...metrics.common.errors import DataError, StorageError
from ...metrics.common.storage import write_text
from ...metrics.records.predictions import Predictions, file_hash, read_predictions
from ...metrics.records.results import code_version
from ..reports.example_data import load_predicted
from .multiple_choice import questions


class _LoggedAnswer(NamedTuple):
    """A row of the questions, its scores in the order of the choices (None without an image), and the letter."""

    row: dict[str, Any]
    scores: list[float] | None
    letter: str


def write_log(predictions: str | Path, out: str | Path, *, data_dir: str | Path | None = None) -> int:
    """Write predictions as a log of inspect_ai.

    Args:
        predictions: a file of predictions of a task that can be asked as multiple choice.
        out: the log, ``.json``, which replaces no other file.
        data_dir: the user's copy of the sources, or a folder that `build` wrote, for the captions.

    Returns:
        The number of samples with scores. Samples whose image is missing are errors in the log.

    Raises:
        DataError: another name, a task that has no choices, or its data are not here, or others.
        PredictionsError: the predictions cannot be read.
        StorageError: the log cannot be written, or another file is there.
    """
    if Path(out).suffix != ".json":
        raise DataError(f"{out} is no name of a log of inspect_ai; expected the ending .json")
    read = read_predictions(predictions)
    answers = list(_answers(read, data_dir))
    log, out = _inspect_log(answers, read, file_hash(predictions)), Path(out)
    if out.exists() and (not out.is_file() or out.read_bytes() != log.encode()):
        raise StorageError(f"{out} is there, and is not this log: remove it or name another file")
    write_text(out, log)
    return sum(answer.scores is not None for answer in answers)


def _answers(predictions: Predictions, data_dir: str | Path | None) -> Iterator[_LoggedAnswer]:
    tasks = load_predicted(predictions, data_dir, needs_images=False)
    if not all(task.task.is_multiple_choice for task in tasks):
        raise DataError(f"{predictions.benchmark} ({predictions.task}) is no task of which each image has one choice")
    predicted = {row.id: row for row in predictions.rows}
    for question in (question_ for task in tasks for question_ in questions(task)):
        row: Any = predicted[question.example.id]
        if not row.is_scored:
            yield _LoggedAnswer(question.row, None, "")
            continue
        values = [row.score, -row.score] if row.task_type == "vqa" else row.scores[question.image]
        scores = [float(values[index]) for index in question.order]
        best = max(scores)
        yield _LoggedAnswer(
            question.row, scores, ascii_uppercase[scores.index(best)] if scores.count(best) == 1 else ""
        )


def _inspect_log(answers: list[_LoggedAnswer], predictions: Predictions, sha256: str) -> str:
    """Return the log as ``inspect_ai.log.read_eval_log`` reads it, version 2."""
    name = f"{predictions.benchmark}_{predictions.task}"
    scored = [answer for answer in answers if answer.scores is not None]
    lost = {"message": "the example lacks its image", "traceback": "", "traceback_ansi": ""}
    samples = [
        {
            **{key: answer.row[key] for key in ("id", "choices", "target")},
            "epoch": 1,
            "input": answer.row["question"],
            "metadata": {"id": answer.row["id"], "category": answer.row["category"], "scores": answer.scores},
        }
        | (
            {"error": lost}
            if answer.scores is None
            else {"scores": {"choice": {"value": "CI"[answer.letter != answer.row["target"]], "answer": answer.letter}}}
        )
        for answer in answers
    ]
    rights = sum(answer.letter == answer.row["target"] for answer in scored)
    metrics = {"mean": {"name": "mean", "value": rights / max(len(scored), 1)}}
    about = {
        "created": predictions.metadata.get("run", {}).get("date") or datetime.now(UTC).isoformat(timespec="seconds"),
        "task": name,
        "dataset": {"name": name, "samples": len(answers), "sample_ids": [answer.row["id"] for answer in answers]},
        "model": predictions.model,
        "config": {},
        "packages": {"vl-assay": code_version()},
        "metadata": {"predictions_sha256": sha256},
    }
    results = {
        "total_samples": len(answers),
        "completed_samples": len(scored),
        "scores": [{"name": "choice", "scorer": "choice", "metrics": metrics}],
    }
    log = {"version": 2, "status": "success", "eval": about, "results": results, "samples": samples}
    return json.dumps(log, ensure_ascii=False, allow_nan=False)
