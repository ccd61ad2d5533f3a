"""The expected time and memory of a run, measured on a small sample."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass

import numpy as np

from ...hub_datasets.core.examples import TaskData
from .distributed import Processes
from .loader import Loader
from .plan import ScoringPlan
from .progress import Progress
from .protocol import Model
from .results import Results, score_plan
from .stages import Stages
from .store import Store

# Stages by the prefix of their name, and the phase that they belong to.
PHASES = {
    "images": "vision",
    "captions": "text",
    "pairs": "cross-attention",
    "choices": "cross-attention",
    "texts": "text",
    "questions": "cross-attention",
    "boxes": "detection",
    "float64": "float64 re-check of near-ties",
}


@dataclass(frozen=True)
class Estimate:
    """The expected time and memory of a run.

    Args:
        seconds: by phase; "decode" is time in which the device waits for images.
        memory: peak memory of the device in bytes (of the process, on a CPU).
        sample: number of examples in the sample.
        examples: number of examples in the run.
    """

    seconds: dict[str, float]
    memory: int
    sample: int
    examples: int

    @property
    def total(self) -> float:
        """Seconds from the first image to the last score, without loading the model and the data."""
        return sum(self.seconds.values())

    @property
    def bound(self) -> str:
        """The phase that takes the most time."""
        return max(self.seconds, key=lambda phase: self.seconds[phase], default="nothing")


def estimate(model: Model, tasks: list[TaskData], *, batch_size: int, size: int = 64) -> Estimate:
    """Score a sample of every task twice, first to warm up, and scale the times of the second pass.

    Args:
        model: a loaded model.
        tasks: the tasks of the run.
        batch_size: as in the run.
        size: number of examples of each task in the sample.
    """
    plan, sampled = ScoringPlan(tasks), ScoringPlan(sample(tasks, size))
    score_alone(model, sampled, batch_size)
    stages, _ = score_alone(model, sampled, batch_size)
    factors = {
        "images": _ratio(len(plan.captions.images()), len(sampled.captions.images())),
        "captions": _ratio(len(plan.captions.texts), len(sampled.captions.texts)),
        "pairs": _ratio(len(plan.captions), len(sampled.captions)),
        "choices": _ratio(len(plan.captions), len(sampled.captions)),
        "texts": _ratio(len(plan.text_pairs), len(sampled.text_pairs)),
        "questions": _ratio(len(plan.questions), len(sampled.questions)),
        "boxes": _ratio(sum(map(len, plan.queries.values())), sum(map(len, sampled.queries.values()))),
        "float64": _ratio(
            len(plan.captions.anchor) + len(plan.text_pairs), len(sampled.captions.anchor) + len(sampled.text_pairs)
        ),
    }
    seconds: dict[str, float] = {}
    for stage, spent in stages.seconds.items():
        kind = stage.partition("-")[0]
        phase, factor = PHASES[kind], factors[kind]
        seconds["decode"] = seconds.get("decode", 0.0) + spent["waiting"] * factor
        seconds[phase] = seconds.get(phase, 0.0) + (spent["total"] - spent["waiting"]) * factor
    examples = sum(len(task.examples) for task in tasks)
    measured = sum(len(task.examples) for task in sampled.tasks)
    return Estimate(seconds, peak_memory(model), measured, examples)


def sample(tasks: list[TaskData], size: int) -> list[TaskData]:
    """Return the tasks with `size` evenly spaced examples each; a retrieval set is cut to fewer images and captions."""
    sampled = []
    for task in tasks:
        count = len(task.examples)
        indices = np.unique(np.linspace(0, count - 1, min(size, count)).round().astype(int)) if count else ()
        sampled.append(dataclasses.replace(task, examples=[task.examples[index] for index in indices]))
    return sampled


def peak_memory(model: object) -> int:
    """Return the peak memory in bytes of a model's GPU, or else of this process; 0 on Windows, where it is unknown."""
    if str(getattr(model, "device", "")).startswith("cuda"):
        return sys.modules["torch"].cuda.max_memory_allocated(model.device)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        import resource
    except ModuleNotFoundError:
        return 0
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def score_alone(model: Model, plan: ScoringPlan, batch_size: int) -> tuple[Stages, Results]:
    """Score a plan in this process and store nothing; the stages have their times."""
    progress = Progress(show=False)
    stages = Stages(model.info.name, Store(None), Processes(), progress, Loader(), batch_size)
    return stages, score_plan(model, plan, stages)[0]


def _ratio(total: float, measured: float) -> float:
    return total / measured if measured else 1.0
