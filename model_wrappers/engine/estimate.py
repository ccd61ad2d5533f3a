"""What a small sample of a run tells beforehand: how long all of it will take, and what half precision changes."""

from __future__ import annotations

import dataclasses
import resource
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...hub_datasets.core.examples import TaskData
from ...metrics.records.schema import MatchingRow, Row, VQARow
from .cache import EmbeddingCache
from .chunks import PartStore
from .distributed import Processes
from .pipeline import Pipeline
from .plan import ScoringPlan
from .progress import Progress
from .protocol import Model
from .rows import Results, score_work

# Stages by the beginning of their name, and what they spend their time on.
PHASES = {
    "images": "vision",
    "captions": "text",
    "pairs": "cross-attention",
    "questions": "cross-attention",
    "boxes": "detection",
    "settling": "settling",
}


@dataclass(frozen=True)
class Prediction:
    """What a run is expected to take.

    Args:
        seconds: by phase, for all devices together; "decode" is time in which the device waits for images.
        devices: how many share the work.
        memory: bytes of the device at the peak (of the process, on a CPU).
        sample: how many examples it was measured on, of
        examples: all.
    """

    seconds: dict[str, float]
    devices: int
    memory: int
    sample: int
    examples: int

    @property
    def total(self) -> float:
        """Seconds from the first image to the last score; loading the model and the data come on top."""
        return sum(self.seconds.values()) / self.devices

    @property
    def bound(self) -> str:
        """The phase that takes most of the time."""
        return max(self.seconds, key=lambda phase: self.seconds[phase], default="nothing")


def predict(model: Model, tasks: list[TaskData], *, batch_size: int, devices: int = 1, size: int = 64) -> Prediction:
    """Score a sample of every task twice, the first time to warm up, and scale what the second took.

    Args:
        model: a loaded model.
        tasks: what the run would score.
        batch_size: as in the run.
        devices: how many devices would share the work.
        size: examples of each task to measure on.
    """
    work, sampled = ScoringPlan(tasks), ScoringPlan(sample(tasks, size))
    _score(model, sampled, batch_size)
    stages, _ = _score(model, sampled, batch_size)
    factors = {
        "images": _ratio(len(work.captions.images()), len(sampled.captions.images())),
        "captions": _ratio(len(work.captions.texts), len(sampled.captions.texts)),
        "pairs": _ratio(len(work.captions), len(sampled.captions)),
        "questions": _ratio(len(work.questions), len(sampled.questions)),
        "boxes": _ratio(sum(map(len, work.queries.values())), sum(map(len, sampled.queries.values()))),
        "settling": _ratio(len(work.captions.image), len(sampled.captions.image)),
    }
    seconds: dict[str, float] = {}
    for stage, spent in stages.seconds.items():
        kind = stage.partition("-")[0]
        phase, factor = PHASES[kind], factors[kind]
        seconds["decode"] = seconds.get("decode", 0.0) + spent["waiting"] * factor
        seconds[phase] = seconds.get(phase, 0.0) + (spent["total"] - spent["waiting"]) * factor
    examples = sum(len(task.examples) for task in tasks)
    measured = sum(len(task.examples) for task in sampled.tasks)
    return Prediction(seconds, devices, peak_memory(), measured, examples)


def changed_decisions(
    model: Model, exact: Model, tasks: list[TaskData], *, batch_size: int, size: int
) -> dict[str, int]:
    """How many of a sample of examples a model decides otherwise than the same model in single precision.

    Args:
        model: in the precision of the run.
        exact: in float32.
        tasks: what the run scores; examples of matching and of answers are compared.
        batch_size: as in the run.
        size: examples of each task.

    Returns:
        ``precision_sample``, the number of examples compared, and ``precision_changes``, those decided otherwise.
    """
    tasks = sample([task for task in tasks if task.task.task_type in ("matching", "vqa")], size)
    sides = []
    for each in (model, exact):
        _, results = _score(each, ScoringPlan(tasks), batch_size)
        sides.append([_decisions(row) for number in range(len(tasks)) for row in results.rows(number) if row.is_scored])
    changes = sum(ours != theirs for ours, theirs in zip(*sides, strict=True))
    return {"precision_sample": len(sides[0]), "precision_changes": changes}


def sample(tasks: list[TaskData], size: int) -> list[TaskData]:
    """The tasks with `size` examples each, evenly spread over them; a retrieval set shrinks in both directions."""
    return [dataclasses.replace(task, examples=_spread(task.examples, size)) for task in tasks]


def peak_memory() -> int:
    """Bytes that were in use at the peak: on the GPU where there is one, else by this process."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def _score(model: Model, work: ScoringPlan, batch_size: int) -> tuple[Pipeline, Results]:
    """Score a work by this process alone, keeping nothing."""
    with tempfile.TemporaryDirectory() as folder:
        store = PartStore(Path(folder))
        stages = Pipeline(model.info.name, store, Processes(), Progress(show=False), batch_size)
        return stages, score_work(model, work, stages, EmbeddingCache(None, store, Processes()))[0]


def _decisions(row: Row) -> Any:
    """All that a metric could make of a row: the order of the texts of each image and of the images of each text."""
    if isinstance(row, VQARow):
        return None if row.score is None else np.sign(row.score)
    if not isinstance(row, MatchingRow) or row.scores is None:
        return None
    scores = np.array(row.scores)
    texts = np.sign(scores[:, :, None] - scores[:, None, :])
    images = np.sign(scores[:, None, :] - scores[None, :, :])
    return texts.tolist(), images.tolist()


def _spread(items: list[Any], size: int) -> list[Any]:
    places = np.unique(np.linspace(0, len(items) - 1, min(size, len(items))).round().astype(int)) if items else []
    return [items[place] for place in places]


def _ratio(whole: float, part: float) -> float:
    return whole / part if part else 1.0
