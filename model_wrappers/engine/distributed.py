"""The processes of a run: one, or those started by ``torchrun`` or ``accelerate launch``."""

from __future__ import annotations

import atexit
import itertools
import multiprocessing
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ...metrics.common.command_line import LEAVING
from ...metrics.common.errors import ModelError, VLAssayError
from ...metrics.common.imports import gc_paused

# Seconds after which a process that says nothing is given up.
SILENCE = 300.0


@dataclass(frozen=True)
class Processes:
    """The rank of this process and the number of processes.

    With `together` all processes compute all chunks in one order, as parts of one model; the first writes them.
    """

    rank: int = 0
    world: int = 1
    _state: Any = None
    together: bool = False

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
    from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

    # One process may download or build for hours while the others wait for it.
    state = PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(days=1))
    if state.num_processes != world:
        raise VLAssayError(
            f"{world} processes were started but only {state.num_processes} found each other; "
            "on a CPU start them with: torchrun --nproc_per_node N --no-python vl-assay run …"
        )

    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    stop = watch(store, state.process_index, world, _give_up)
    LEAVING.append(stop)

    def leave() -> None:
        stop()
        # At the interpreter's exit torch's threads would sometimes abort it.
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    atexit.register(leave)
    return Processes(state.process_index, state.num_processes, state)


def watch(
    store: Any, rank: int, world: int, on_silence: Callable[[int], None], *, silence: float = SILENCE, every: float = 15
) -> Callable[[], None]:
    """Tell the others in a background thread that this process is alive, and listen to them.

    A process that is stopped or hangs as a whole sends no error, and the others would wait for it as long as for one
    that downloads for hours.

    Args:
        store: a store of ``torch.distributed`` that no other thread uses.
        rank, world: of this process.
        on_silence: called with the rank of a process that has not been heard of for `silence` seconds.
        silence: seconds.
        every: seconds between two messages.

    Returns:
        A function that ends the watch; the others then expect nothing more from this process.
    """
    ended = threading.Event()

    def tell(message: str) -> None:
        store.set(f"vl-assay/{rank}", message)

    def run() -> None:
        with suppress(RuntimeError):  # the store is gone with the process that started it, and nothing can be told
            listen()

    def listen() -> None:
        heard = {other: ("", time.monotonic()) for other in range(world) if other != rank}
        for beat in itertools.count():
            tell(str(beat))
            for other in heard:
                if store.check([f"vl-assay/{other}"]):
                    now = store.get(f"vl-assay/{other}").decode()
                    if now != heard[other][0]:
                        heard[other] = now, time.monotonic()
                message, since = heard[other]
                if message != "ended" and time.monotonic() - since > silence:
                    return on_silence(other)
            if ended.wait(every):
                return tell("ended")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def stop() -> None:
        ended.set()
        thread.join(every)

    return stop


def _give_up(rank: int) -> None:
    print(
        f"error: process {rank} has not been heard of for {SILENCE / 60:g} minutes: it is stopped or hangs. Start the "
        "same command again, which resumes from what is finished",
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)  # other threads may wait for it in code that no error can end


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
        with gc_paused():
            import torch
    except ModuleNotFoundError:
        raise ModelError("models need torch and transformers: pip install 'vl-assay[models]'") from None

    if torch.cuda.is_available():
        return f"cuda:{int(os.environ.get('LOCAL_RANK', rank)) % torch.cuda.device_count()}"
    return "mps" if torch.backends.mps.is_available() else "cpu"
