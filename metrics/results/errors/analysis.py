"""Error analysis of predictions: which examples models get wrong, associated features, and a page of examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...common.documents import Document, Part, Table, bullets
from ...common.errors import PredictionsError, check_known
from ...common.formatting import distinct_labels, distinguished
from ...common.storage import write_text
from ...records.predictions import Predictions, prediction_files, read_predictions
from ..compute import check_options, declared_metrics
from ..scores import data_facts
from .features import split_captions
from .outcomes import EVERY, ExampleData, TaskErrors, task_errors
from .page import MOST_EXAMPLES, page_html
from .summary import Summary, summarize

if TYPE_CHECKING:
    import pandas

# Bounds vary by some tenths of a point with the seed; a report's have five times as many.
RESAMPLES = 2_000


@dataclass(frozen=True, repr=False)
class ErrorAnalysis(Document):
    """The errors of one or more models, in one or more tasks.

    Args:
        tasks: the errors by task.
        confidence, resamples, seed: of the intervals.
        notes: what is missing, such as images.
    """

    tasks: list[TaskErrors]
    confidence: float = 0.95
    resamples: int = RESAMPLES
    seed: int = 0
    notes: list[str] = field(default_factory=list)

    @cached_property
    def summaries(self) -> list[Summary]:
        """The error rates, associated features and model agreement of each task."""
        return [summarize(task, self.confidence, self.resamples, self.seed) for task in self.tasks]

    @property
    def verdicts(self) -> list[str]:
        """Sentences on each model's error rate, the associated features, and the agreement of the models."""
        return [sentence for summary in self.summaries for sentence in summary.sentences]

    @property
    def tables(self) -> list[Table]:
        """For each task the errors by category, and the associated features."""
        return [table for summary in self.summaries for table in summary.tables]

    def parts(self) -> list[Part]:
        """Return the verdicts, notes and tables."""
        return [*bullets([*self.verdicts, *self.notes]), *self.tables]

    def __repr__(self) -> str:
        return "\n".join(["ErrorAnalysis:", *(f"  {sentence}" for sentence in self.verdicts)])

    def data(self) -> list[dict[str, Any]]:
        """Return a record for each example and model, the most confident errors of each task first.

        Returns:
            Records of benchmark, task, model, id, part (of the row, such as a phrase), category, tags, outcome
            ("right", "wrong", "tie", "no answer"), is_error, margin (on the model's own scale), confidence (rank of
            the decision among the model's own, in [0, 1]), captions (or the question), and n_positive: how many of
            them, from the first, are true of the image.
        """
        return [record for task in self.tasks for record in _records(task)]

    def summary(self) -> pandas.DataFrame:
        """Return the features associated with errors, a row for each task, model and tested feature.

        Returns:
            The columns benchmark, task, model, kind, name, n, clusters (images), rate (the share of errors),
            expected, low, high (see ``association.Association``), p_value and p_value_holm; the most significant first.
        """
        import pandas

        records = []
        for task, summary in zip(self.tasks, self.summaries, strict=True):
            for model, tests in zip(task.models, summary.found, strict=True):
                about = {"benchmark": task.benchmark, "task": task.task, "model": model.label}
                for feature, association in sorted(tests.items(), key=lambda test: test[1].p_value):
                    facts = {**feature._asdict(), **association._asdict()}
                    del facts["other_clusters"]
                    records.append({**about, **facts})
        return pandas.DataFrame(records)

    def write(self, path: str | Path, *, limit: int = MOST_EXAMPLES) -> Path:
        """Write one self-contained HTML page with the examples; it needs no network.

        Args:
            path: the file.
            limit: how many examples of each task it holds at most, the most confident errors first.

        Returns:
            The file.
        """
        write_text(Path(path), page_html(self.summaries, self.notes, limit=limit))
        return Path(path)


def errors(
    *predictions: str | Path,
    data: Callable[[Predictions], ExampleData] | None = None,
    category: str | Sequence[str] = (),
    ties: str | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ErrorAnalysis:
    """Analyse the errors of one or more models.

    The first declared metric that scores single examples decides on errors, for boxes one that also counts boxes on
    distractors.

    Args:
        predictions: files of predictions, or folders of them.
        data: finds captions and images; by default none.
        category: one or more categories or tags to look at; by default all.
        ties: the tie policy; by default the policy of the metric's paper.
        confidence, resamples, seed: of the intervals.

    Returns:
        The errors of each task, with models that were evaluated on the same data side by side.

    Raises:
        PredictionsError: a file holds no predictions, or in none of them single examples can be wrong.
        UnknownNameError, ScoresError: a category or an option's value that does not exist.
    """
    check_options(ties=ties, confidence=confidence, resamples=resamples, seed=seed)
    categories = [category] if isinstance(category, str) else list(category)
    tasks, notes = [], []
    for name, files in _by_task(prediction_files(*predictions)).items():
        first = next(iter(files.values()))
        known = ExampleData() if data is None else data(first)
        of_task = task_errors(name, files, declared_metrics(first), ties=ties, data=known)
        if of_task is None:
            notes.append(f"{name}: no metric scores single examples, so there are no errors to look at.")
            continue
        notes += [f"{name}: {known.note}"] if known.note else []
        tasks.append(of_task)
    if not tasks:
        raise PredictionsError(" ".join(notes) or "there are no predictions")
    check_known("category", categories, dict.fromkeys(name for task in tasks for name in task.category_names))
    if categories:
        tasks = [restricted for task in tasks if len(restricted := task.restricted(categories))]
    return ErrorAnalysis(tasks, confidence, resamples, seed, notes)


def _by_task(paths: Sequence[Path]) -> dict[str, dict[str, Predictions]]:
    """Group the predictions by task, then by the label of the model; the data of a task are the same for all models."""
    files_read = [read_predictions(path) for path in paths]
    identities = [json.dumps(predictions.metadata["model"], sort_keys=True) for predictions in files_read]
    models = {
        identity: predictions.metadata["model"] for identity, predictions in zip(identities, files_read, strict=True)
    }
    labels = dict(zip(models, distinct_labels(list(models.values())), strict=True))
    groups: dict[tuple[Any, ...], dict[str, Predictions]] = {}
    for identity, predictions in zip(identities, files_read, strict=True):
        about = predictions.metadata["benchmark"]
        files = groups.setdefault(
            (predictions.benchmark, predictions.task, predictions.task_type, str(about.get("fingerprint"))), {}
        )
        label = labels[identity]
        copies = sum(name == label or name.startswith(f"{label} #") for name in files)
        files[f"{label} #{copies + 1}" if label in files else label] = predictions
    names = _task_names([next(iter(files.values())) for files in groups.values()])
    return dict(zip(names, groups.values(), strict=True))


def _task_names(predictions: Sequence[Predictions]) -> list[str]:
    """Return benchmark and task, with what distinguishes the data from other data of the same task."""
    alike: dict[tuple[str, str], list[int]] = {}
    for number, file in enumerate(predictions):
        alike.setdefault((file.benchmark, file.task), []).append(number)
    texts = [""] * len(predictions)
    for (benchmark, task), indices in alike.items():
        facts = [data_facts(predictions[number].metadata["benchmark"]) for number in indices]
        for number, text in zip(indices, distinguished(facts), strict=True):
            texts[number] = f"{benchmark} ({task}{f': {text}' if text else ''})"
    return texts


def _records(task: TaskErrors) -> Iterator[dict[str, Any]]:
    for number in task.select(EVERY).tolist():
        id, part = task.keys[number]
        row = task.rows[number]
        positives, negatives = split_captions(task, row)
        for model in task.models:
            if np.isnan(model.losses[number]):
                continue
            about = {"benchmark": task.benchmark, "task": task.task, "model": model.label, "id": id, "part": part}
            about |= {"category": row.category, "tags": row.tags, "outcome": model.outcome(number)}
            about |= {"is_error": bool(model.errs[number]), "margin": float(model.margins[number])}
            about |= {"confidence": float(model.confidence[number])}
            yield about | {"captions": [*positives, *negatives], "n_positive": len(positives)}
