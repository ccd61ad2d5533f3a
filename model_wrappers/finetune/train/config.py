"""The configuration of a training run: precision, threads, checkpoints, trackers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ....metrics.common.errors import ModelError, check_known

# Names of precisions, and Accelerate's names of them.
PRECISIONS = {"float32": "no", "bfloat16": "bf16"}


@dataclass(frozen=True)
class TrainingConfig:
    """The configuration of a training run, and the settings in the YAML file of ``--config``.

    Only the precision changes the result beyond rounding. Models with dropout are an exception: what is dropped depends
    on the number of processes, which the card names.

    Args:
        precision: of the arithmetic; the weights are kept in float32.
        workers: threads that prepare images; by default 8, or the number of CPUs where that is smaller.
        save_steps: a checkpoint is written every so many steps, and after each epoch.
        tracker: trackers of Accelerate, such as ``"tensorboard"``, ``"trackio"`` or ``"wandb"``.
    """

    precision: Annotated[str, "float32, or bfloat16 with weights in float32"] = "float32"
    workers: Annotated[int | None, "threads that prepare images", 1] = None
    save_steps: Annotated[int, "steps between checkpoints", 1] = 500
    tracker: Annotated[list[str] | None, "trackers of Accelerate, such as tensorboard, besides log.jsonl"] = None

    def check(self) -> None:
        """Check the values before anything is loaded.

        Raises:
            ModelError, UnknownNameError: a value outside its range; a tracker that is not installed.
        """
        check_known("precision", [self.precision], PRECISIONS)
        for name in ("save_steps", "workers"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ModelError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.tracker:
            from accelerate.tracking import get_available_trackers

            check_known("installed tracker", self.tracker, [str(name) for name in get_available_trackers()])
