"""The processes that share a run: one, or as many as ``torchrun`` or ``accelerate launch`` started."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..metrics.errors import VLAssayError


@dataclass(frozen=True)
class Processes:
    """This process's place among those of the run."""

    rank: int = 0
    world: int = 1
    _state: Any = None

    @property
    def is_main(self) -> bool:
        """Whether this is the process that prints and writes the results."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait until every process has come here."""
        if self._state is not None:
            self._state.wait_for_everyone()


def join() -> Processes:
    """Join the other processes of this run, if there are any; torch is imported only then."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return Processes()
    import torch
    from accelerate import PartialState

    state = PartialState(cpu=not torch.cuda.is_available())
    if state.num_processes != world:
        raise VLAssayError(
            f"{world} processes were started but only {state.num_processes} found each other; "
            "on a CPU start them with: torchrun --nproc_per_node N --no-python vl-assay run …"
        )
    return Processes(state.process_index, state.num_processes, state)


def default_device(rank: int) -> str:
    """The device of a process: its GPU, Apple's, or the CPU."""
    import torch

    if torch.cuda.is_available():
        return f"cuda:{int(os.environ.get('LOCAL_RANK', rank)) % torch.cuda.device_count()}"
    return "mps" if torch.backends.mps.is_available() else "cpu"
