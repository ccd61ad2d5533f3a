"""The configuration of a training run: precision, memory, checkpoints, trackers, validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....metrics.common.errors import ModelError, check_known
from .validation import Evaluation

# Names of precisions, and Accelerate's names of them.
PRECISIONS = {"float32": "no", "bfloat16": "bf16"}


@dataclass(frozen=True)
class TrainingConfig:
    """The configuration of a training run. Only the precision changes the result beyond rounding.

    Models with dropout are an exception: what is dropped depends on `micro_batch` and the number of processes. The
    card names both.

    Args:
        precision: of the arithmetic, ``"float32"`` or ``"bfloat16"``; the weights are kept in float32.
        micro_batch: the captions that each process encodes at once, with their negatives and positives; by default 32
            on a CPU and 256 on a GPU. It is halved when the memory is full. The loss always sees the whole batch.
        save_steps: a checkpoint is written every so many steps, and after each epoch.
        workers: threads that prepare images; by default 8, or the number of CPUs where that is smaller.
        trackers: trackers of Accelerate, such as ``"tensorboard"``, ``"trackio"`` or ``"wandb"``, in addition to
            ``training/log.jsonl``.
        evaluation: what is measured before the first epoch and after each.
        on_step: is called after each step with its number and logged values, in every process. If it raises, the run
            stops, and the same call resumes it.
    """

    precision: str = "float32"
    micro_batch: int | None = None
    save_steps: int = 500
    workers: int | None = None
    trackers: tuple[str, ...] = ()
    evaluation: Evaluation = field(default_factory=Evaluation)
    on_step: Callable[[int, Mapping[str, Any]], None] | None = None

    def check(self) -> None:
        """Check the values before anything is loaded.

        Raises:
            ModelError, UnknownNameError: a value outside its range; a tracker that is not installed.
        """
        check_known("precision", [self.precision], PRECISIONS)
        for name in ("micro_batch", "save_steps", "workers"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ModelError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.trackers:
            from accelerate.tracking import get_available_trackers

            check_known("installed tracker", self.trackers, [str(name) for name in get_available_trackers()])
