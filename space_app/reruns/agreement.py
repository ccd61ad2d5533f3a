"""What the board says of a submission that was run again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ...metrics.records.predictions import Predictions
from .repetition import Repetition, repetition

# With another batch size demo-clip repeats 1,000 of 1,000 toy_scenes/groups in float32, and 997 in bfloat16.
LEAST_SAME, LEAST_SAME_IN_HALF = 0.99, 0.97


@dataclass(frozen=True)
class Rerun:
    """How far the predictions of a re-run agree with the submitted ones.

    Attributes:
        repetition: of the submitted predictions by the new ones.
        dtype: that of the model in both.
        device: on which the model was run again.
        time: when, ISO 8601, UTC.
    """

    repetition: Repetition
    dtype: str
    device: str
    time: str

    @property
    def agrees(self) -> bool:
        """Whether the submitted predictions are what the model gives, up to rounding."""
        return self.repetition.same >= (LEAST_SAME if self.dtype == "float32" else LEAST_SAME_IN_HALF)

    def __str__(self) -> str:
        """Rounded down, so that 100.0 % are all examples."""
        same = math.floor(1000 * self.repetition.same) / 10
        return f"{'re-run' if self.agrees else 're-run disagrees'}: {same:.1f} % the same"


def compare(submitted: Predictions, again: Predictions, time: str = "") -> Rerun:
    """The outcome of a re-run, from the raw predictions of both.

    Raises:
        PredictionsError: they are of different data.
    """
    dtype, device = submitted.metadata["model"].get("dtype"), again.metadata["run"].get("device")
    return Rerun(repetition(submitted, again), str(dtype), str(device), time)


def summarise(reruns: Mapping[str, Rerun | None]) -> tuple[str, bool] | None:
    """The mark of a model from its predictions files: the text of the worst re-run, and whether that agrees.

    None if no file was run again; else the text says how many were, unless all were.
    """
    found = [rerun for rerun in reruns.values() if rerun]
    if not found:
        return None
    worst = min(found, key=lambda rerun: (rerun.agrees, rerun.repetition.same))
    left_out = f", {len(found)} of {len(reruns)} tasks" if len(found) < len(reruns) else ""
    return f"{worst}{left_out}", worst.agrees
