"""The processes of a run: one, or the ranks started by ``accelerate launch`` or ``torchrun``."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from ...metrics.common.errors import ModelError, VLAssayError
from ...metrics.common.imports import gc_paused

# The values of Accelerate's setting `mixed_precision`, and the dtypes that they mean here.
_MIXED_PRECISION = {"bf16": "bfloat16", "fp16": "float16"}


@dataclass(frozen=True)
class Processes:
    """The rank of this process and the number of processes."""

    rank: int = 0
    world: int = 1
    _state: Any = None

    @property
    def is_main(self) -> bool:
        """Return whether this process prints and writes the results."""
        return self.rank == 0

    @contextmanager
    def raise_on_all_ranks(self) -> Iterator[None]:
        """Raise the first process's error on all ranks if any rank fails in the block, so that none waits for it."""
        failure: VLAssayError | None = None
        try:
            yield
        except VLAssayError as error:
            failure = error
        texts = self.gather(None if failure is None else str(failure))
        first = next((text for text in texts if text is not None), None)
        if first is not None:
            raise failure or VLAssayError(first)

    def gather(self, value: Any) -> list[Any]:
        """Return the objects of all ranks, by rank; a barrier."""
        if self._state is None:
            return [value]
        from accelerate.utils import gather_object

        return gather_object([value])

    def from_main(self, value: Any) -> Any:
        """Return the object of the main process, in every process; a barrier."""
        if self._state is None:
            return value
        from accelerate.utils import broadcast_object_list

        values = [value]
        broadcast_object_list(values)
        return values[0]

    def wait(self) -> None:
        """Wait until all ranks are here."""
        if self._state is not None:
            self._state.wait_for_everyone()


@cache
def join() -> Processes:
    """Join the other ranks of this run, if there are any; torch is imported only then."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return Processes()
    import torch
    from accelerate import PartialState

    # One process may download or build for hours while the others wait for it.
    state = PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(days=1))
    if state.num_processes != world:
        raise VLAssayError(
            f"{world} processes were started but only {state.num_processes} found each other; "
            'start them with: accelerate launch --multi_gpu "$(which vl-assay)" run …'
        )
    # At the interpreter's exit torch's threads would sometimes abort it.
    atexit.register(state.destroy_process_group)
    return Processes(state.process_index, state.num_processes, state)


def configured_dtype() -> str:
    """Return the dtype that the user's Accelerate configuration asks for (`mixed_precision`); else "float32"."""
    return _MIXED_PRECISION.get(os.environ.get("ACCELERATE_MIXED_PRECISION", ""), "float32")


def available_cpus() -> int:
    """Return the number of CPUs for this process, which shares them with the other ranks of its machine."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(cpus // int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)


def default_device(rank: int) -> str:
    """Return the device of a process: its CUDA GPU, Apple's GPU, or the CPU."""
    try:
        with gc_paused():
            import torch
    except ModuleNotFoundError:
        raise ModelError("models need torch and transformers: pip install 'vl-assay[models]'") from None

    if torch.cuda.is_available():
        return f"cuda:{int(os.environ.get('LOCAL_RANK', rank)) % torch.cuda.device_count()}"
    return "mps" if torch.backends.mps.is_available() else "cpu"
