"""The processes of a run: one, or those started by ``torchrun`` or ``accelerate launch``."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ...metrics.common.errors import ModelError, VLAssayError


@dataclass(frozen=True)
class Processes:
    """The rank of this process and the number of processes."""

    rank: int = 0
    world: int = 1
    _state: Any = None

    @property
    def is_main(self) -> bool:
        """Whether this process prints and writes the results."""
        return self.rank == 0

    @contextmanager
    def raise_on_all_ranks(self) -> Iterator[None]:
        """Raise the first process's error on all ranks if any rank fails in the block, so that none waits for it."""
        failure: VLAssayError | None = None
        try:
            yield
        except VLAssayError as error:
            failure = error
        texts = [None if failure is None else str(failure)]
        if self._state is not None:
            from accelerate.utils import gather_object

            texts = gather_object(texts)
        first = next((text for text in texts if text is not None), None)
        if first is not None:
            raise failure or VLAssayError(first)

    def share_token(self) -> str:
        """A random string that is the same in all processes and differs between runs; a barrier."""
        tokens = [secrets.token_hex(4)]
        if self._state is not None:
            from accelerate.utils import broadcast_object_list

            broadcast_object_list(tokens)
        return tokens[0]

    def wait(self) -> None:
        """A barrier."""
        if self._state is not None:
            self._state.wait_for_everyone()


def join() -> Processes:
    """Join the other processes of this run, if any; torch is imported only then."""
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
            "on a CPU start them with: torchrun --nproc_per_node N --no-python vl-assay run …"
        )

    def leave() -> None:
        # At the interpreter's exit torch's threads would sometimes abort it.
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    atexit.register(leave)
    return Processes(state.process_index, state.num_processes, state)


def end_with_parent() -> None:
    """Make a worker process exit with its parent, even if that is killed, and at once on Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def available_cpus() -> int:
    """The number of CPUs for this process, which shares them with the others of its machine."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(cpus // int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)


def default_device(rank: int) -> str:
    """The device of a process: its CUDA GPU, Apple's GPU, or the CPU."""
    try:
        import torch
    except ModuleNotFoundError:
        raise ModelError("models need torch and transformers: pip install 'vl-assay[models]'") from None

    if torch.cuda.is_available():
        return f"cuda:{int(os.environ.get('LOCAL_RANK', rank)) % torch.cuda.device_count()}"
    return "mps" if torch.backends.mps.is_available() else "cpu"
