"""How a recipe is run: precision, memory, checkpoints, trackers, validation."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....metrics.common.errors import ModelError, check_known
from .validation import Evaluation, Stopping

# Names of precisions, and what Accelerate calls them.
PRECISIONS = {"float32": "no", "bfloat16": "bf16"}
# Trackers, and the libraries of which one must be installed.
_TRACKERS = {"tensorboard": ("tensorboard", "tensorboardX"), "trackio": ("trackio",)}


@dataclass(frozen=True)
class TrainingConfig:
    """How a recipe is run. Only the precision and early stopping change the result beyond rounding.

    Models with dropout are an exception: what is dropped depends on `micro_batch` and the number of processes. The
    card names both.

    Args:
        precision: of the arithmetic, ``"float32"`` or ``"bfloat16"``; the weights are kept in float32.
        micro_batch: the captions that each process encodes at once, with their negatives and positives; by default 32
            on a CPU and 256 on a GPU.
        gradient_checkpointing: whether activations are computed twice to save memory.
        save_steps: a checkpoint is written every so many steps, and after each epoch.
        workers: threads that prepare images; by default 8, or the number of CPUs where that is smaller.
        trackers: ``"tensorboard"``, ``"trackio"``, in addition to the log of JSON lines.
        evaluation: what is measured before the first epoch and after each.
        stopping: when to stop early.
        on_step: is called after each step with its number and logged values, in every process. If it raises, the run
            stops, and the same call resumes it.
    """

    precision: str = "float32"
    micro_batch: int | None = None
    gradient_checkpointing: bool = False
    save_steps: int = 500
    workers: int | None = None
    trackers: tuple[str, ...] = ()
    evaluation: Evaluation = field(default_factory=Evaluation)
    stopping: Stopping = field(default_factory=Stopping)
    on_step: Callable[[int, Mapping[str, Any]], None] | None = None

    def check(self) -> None:
        """Check the values before anything is loaded.

        Raises:
            ModelError, UnknownNameError: a value outside its range; a tracker that is not installed.
        """
        check_known("precision", [self.precision], PRECISIONS)
        check_known("tracker", self.trackers, _TRACKERS)
        for name in ("micro_batch", "save_steps", "workers"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ModelError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.stopping.score is not None and not self.evaluation:
            raise ModelError(f"stopping on {self.stopping.score!r} needs an evaluation that has this score")
        for name in self.trackers:
            if not any(importlib.util.find_spec(library) for library in _TRACKERS[name]):
                raise ModelError(f"the tracker {name} is not installed: pip install {name}")
