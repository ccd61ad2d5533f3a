"""Error analysis of predictions: what models get wrong, what goes with it, and a page to look at the examples."""

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
        """For each task the rates of errors, what goes with them, and how the models agree."""
        return [summarize(task, self.confidence, self.resamples, self.seed) for task in self.tasks]

    @property
    def verdicts(self) -> list[str]:
        """Sentences: how often each model errs and on what, and how the models agree."""
        return [sentence for summary in self.summaries for sentence in summary.sentences]

    @property
    def tables(self) -> list[Table]:
        """For each task the errors by category, what goes with them, and the agreement of the models."""
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
            The columns benchmark, task, model, kind, name, n, clusters (images), rate (the share of errors), low,
            high, expected (see ``features.Association``), p_value and p_value_holm; the most significant first.
        """
        import pandas

        found = []
        for task, summary in zip(self.tasks, self.summaries, strict=True):
            for model, tests in zip(task.models, summary.found, strict=True):
                about = {"benchmark": task.benchmark, "task": task.task, "model": model.label}
                for each in sorted(tests.values(), key=lambda each: each.p_value):
                    facts = each._asdict()
                    found.append({**about, **facts.pop("feature")._asdict(), **facts})
        return pandas.DataFrame(found)

    def write(self, path: str | Path, *, limit: int = MOST_EXAMPLES) -> Path:
        """Write one HTML page to look at the examples; it needs no other file and no network.

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
    metric: str | None = None,
    ties: str | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ErrorAnalysis:
    """Find out what one or more models get wrong.

    Args:
        predictions: files of predictions, or folders of them.
        data: finds captions and images; by default none.
        category: one or more categories or tags to look at; by default all.
        metric: the metric that decides on errors; by default the first declared one with a score of single examples,
            of boxes one that counts those on distractors, too.
        ties: the tie policy; by default that of the metric's paper.
        confidence, resamples, seed: of the intervals.

    Returns:
        The errors of each task, with models that were evaluated on the same data side by side.

    Raises:
        PredictionsError: a file holds no predictions, or in none of them single examples can be wrong.
        UnknownNameError, ScoresError: a category, a metric or an option's value that does not exist.
    """
    check_options(ties=ties, confidence=confidence, resamples=resamples, seed=seed)
    wanted = [category] if isinstance(category, str) else list(category)
    groups = _by_task(prediction_files(*predictions))
    declared = {name: declared_metrics(next(iter(files.values()))) for name, files in groups.items()}
    if metric is not None:
        check_known("metric of these predictions", [metric], {name for each in declared.values() for name in each})
        groups = {name: files for name, files in groups.items() if metric in declared[name]}
    tasks, notes = [], []
    for name, files in groups.items():
        known = ExampleData() if data is None else data(next(iter(files.values())))
        found = task_errors(name, files, declared[name], metric=metric, ties=ties, data=known)
        if found is None:
            notes.append(f"{name}: no metric scores single examples, so there are no errors to look at.")
            continue
        notes += [f"{name}: {known.note}"] if known.note else []
        tasks.append(found)
    if not tasks:
        raise PredictionsError(" ".join(notes) or "there are no predictions")
    check_known("category", wanted, dict.fromkeys(name for task in tasks for name in task.category_names))
    if wanted:
        tasks = [kept for task in tasks if len(kept := task.restricted(wanted))]
    return ErrorAnalysis(tasks, confidence, resamples, seed, notes)


def _by_task(paths: Sequence[Path]) -> dict[str, dict[str, Predictions]]:
    """The predictions by the name of their task, and there by the label of the model; each task is of one data."""
    found = [read_predictions(path) for path in paths]
    identities = [json.dumps(each.metadata["model"], sort_keys=True) for each in found]
    models = {identity: each.metadata["model"] for identity, each in zip(identities, found, strict=True)}
    labels = dict(zip(models, distinct_labels(list(models.values())), strict=True))
    groups: dict[tuple[Any, ...], dict[str, Predictions]] = {}
    for identity, each in zip(identities, found, strict=True):
        about = each.metadata["benchmark"]
        files = groups.setdefault((each.benchmark, each.task, each.task_type, str(about.get("fingerprint"))), {})
        label = labels[identity]
        copies = sum(name == label or name.startswith(f"{label} #") for name in files)
        files[f"{label} #{copies + 1}" if label in files else label] = each
    names = _task_names([next(iter(files.values())) for files in groups.values()])
    return dict(zip(names, groups.values(), strict=True))


def _task_names(predictions: Sequence[Predictions]) -> list[str]:
    """Benchmark and task, with what distinguishes the data from those of others of that task."""
    alike: dict[tuple[str, str], list[int]] = {}
    for number, each in enumerate(predictions):
        alike.setdefault((each.benchmark, each.task), []).append(number)
    found = [""] * len(predictions)
    for (benchmark, task), numbers in alike.items():
        facts = [data_facts(predictions[number].metadata["benchmark"]) for number in numbers]
        for number, text in zip(numbers, distinguished(facts), strict=True):
            found[number] = f"{benchmark} ({task}{f': {text}' if text else ''})"
    return found


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
