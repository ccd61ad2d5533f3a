"""Runs on a Ray cluster: one actor for each GPU computes chunks, and the driver keeps them.

A board, an actor on the driver's node, hands out the chunks of each stage and writes those that come back, under their
names, to the output folder. When a worker is lost with its node, its chunks are handed out again: workers are not
restarted, since Ray would wait in silence for a node that does not come back. New nodes get workers. When all chunks
are there, a worker re-checks near-ties and makes the predictions, equal to the bit to those of one process of its kind.

The cluster is that of ``RAY_ADDRESS`` or, without it, this machine. Every node needs this package and the sources.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...hub_datasets.core.evaluation import captions_of, parts_in
from ...hub_datasets.core.ray_cluster import cluster, result_of
from ...metrics.common.errors import ModelError, PredictionsError
from ...metrics.common.storage import write_atomically
from ...metrics.evaluation import PredictionFiles
from .chunks import ChunkStore
from .progress import Progress
from .shards import UNFINISHED, RunRecord

# Bytes of Ray's store on this machine: chunks are small.
_STORE = 256 << 20
# Seconds without any worker after which a run ends.
PATIENCE = 300.0
_POLL = 0.5


class Board:
    """Hands out the chunks of a run, and keeps what is finished in the output folder of the driver."""

    def __init__(self, out: str) -> None:
        self._out = Path(out)
        self._record: RunRecord | None = None
        self._store: ChunkStore | None = None
        self._left: dict[str, list[int]] = {}
        self._claimed: dict[tuple[str, int], str] = {}
        self._closed: RunRecord | None = None

    def open(self, record: RunRecord) -> None:
        """Begin a run, or join it; raises PredictionsError if a worker's model, data or libraries are others."""
        if self._record is None:
            self._record = record
            self._store = ChunkStore(self._out / UNFINISHED / record.identity)
        self._record.check_same_run(record)

    def claim(self, stage: str, chunks: int, worker: str) -> int | None:
        """A chunk that nobody computes, or None."""
        if stage not in self._left:
            stored = (self.load(stage, number) for number in range(chunks))
            self._left[stage] = [number for number, rows in enumerate(stored) if rows is None][::-1]
        if not self._left[stage]:
            return None
        number = self._left[stage].pop()
        self._claimed[stage, number] = worker
        return number

    def save(self, stage: str, number: int, rows: np.ndarray) -> None:
        """Write a finished chunk."""
        assert self._store is not None
        self._store.save(stage, number, rows)
        self._claimed.pop((stage, number), None)

    def load(self, stage: str, number: int) -> np.ndarray | None:
        """A finished chunk, or None."""
        assert self._store is not None
        return self._store.load(stage, number)

    def close(self, record: RunRecord) -> None:
        """A worker has been offered the chunks of all stages."""
        self._closed = record

    def release(self, worker: str) -> int:
        """Hand out again what a lost worker has claimed; returns how many chunks."""
        lost = [key for key, owner in self._claimed.items() if owner == worker]
        for stage, number in lost:
            del self._claimed[stage, number]
            self._left[stage].append(number)
        return len(lost)

    def state(self) -> tuple[RunRecord | None, int, int]:
        """The record with all stages once they are known, and the chunks that are left and those that are claimed."""
        return self._closed, sum(map(len, self._left.values())), len(self._claimed)


class _Member:
    """The part of a run that one worker computes: whatever the board hands out."""

    def __init__(self, board: Any, name: str) -> None:
        self._board, self._name = board, name

    def open(self, record: RunRecord, folder: Path) -> ChunkStore:
        """The board's store."""
        result_of(self._board.open.remote(record))
        return _BoardStore(folder, self._board)

    def claims(self, stage: str, chunks: int) -> Iterator[int]:
        """The numbers that the board hands out."""
        while (number := result_of(self._board.claim.remote(stage, chunks, self._name))) is not None:
            yield number

    def close(self, record: RunRecord, store: ChunkStore) -> None:
        """Tell the board that all stages are known."""
        result_of(self._board.close.remote(record))


class _BoardStore(ChunkStore):
    """The board's chunks."""

    def __init__(self, folder: Path, board: Any) -> None:
        super().__init__(folder)
        self._board = board

    def save(self, stage: str, number: int, rows: np.ndarray) -> None:
        """Send a finished chunk."""
        result_of(self._board.save.remote(stage, number, rows))

    def load(self, stage: str, number: int) -> np.ndarray | None:
        """None: the board hands out only what is not finished."""
        return None


class Worker:
    """Computes chunks of a run, or its predictions from finished chunks."""

    def __init__(self, job: Callable[..., PredictionFiles], board: Any, name: str) -> None:
        self._job, self._board, self._name = job, board, name

    def compute(self) -> None:
        """Compute the chunks that the board hands out."""
        with tempfile.TemporaryDirectory() as folder:
            self._job(out=folder, part=_Member(self._board, self._name))

    def finish(self, record: RunRecord) -> dict[str, bytes]:
        """The files of the predictions by name."""
        with tempfile.TemporaryDirectory() as folder:
            store = ChunkStore(Path(folder) / UNFINISHED / record.identity)
            for stage, chunks in record.stages.items():
                for number in range(chunks):
                    rows = result_of(self._board.load.remote(stage, number))
                    if rows is None:
                        raise PredictionsError(f"chunk {number} of {stage} is damaged; run again")
                    store.save(stage, number, rows)
            files = self._job(out=folder, merged=record)
            return {path.name: path.read_bytes() for path in files}


def predict_on_ray(
    predict_part: Callable[..., PredictionFiles],
    *,
    model: str,
    benchmarks: Sequence[str],
    out: Path,
    seeds: Sequence[int],
    config: Any,
) -> PredictionFiles:
    """Do what `predict` does on the workers of a Ray cluster.

    Args:
        predict_part: the runner's function, which each worker calls.
        model: a model's name; every node must find it.
        benchmarks, out, seeds, config: as for `predict`; ``engine`` is ``"ray"``, or ``"ray:0.5"`` for two workers on
            a GPU.

    Raises:
        ModelError: no worker could be had for `PATIENCE` seconds; finished chunks are kept.
        VLAssayError: Ray is not installed; or as `predict`, from a worker.
    """
    gpus = parse_engine(config.engine)
    # Embeddings that one node has cached would change the chunks that are left.
    alone = replace(config, engine="", cache=False, progress=False)
    arguments = {"model": model, "benchmarks": benchmarks, "seeds": seeds, "config": alone}
    with cluster(_STORE) as ray:
        job = partial(predict_part, **arguments)
        record, files = _Driver(ray, job, out, gpus, Progress(show=config.progress)).finished()
    for name, content in files.items():
        write_atomically(out / name, content)
    ChunkStore(out / UNFINISHED / record.identity).remove()
    return PredictionFiles([out / name for name in files], captions_of, parts_in)


def parse_engine(engine: str) -> float:
    """The share of a GPU that a worker takes: ``"ray"`` → 1, ``"ray:0.25"`` → 0.25.

    Raises:
        ModelError: anything else.
    """
    name, _, share = engine.partition(":")
    try:
        gpus = float(share or 1)
    except ValueError:
        gpus = 0.0
    if name != "ray" or not 0 < gpus <= 8 or (gpus > 1 and gpus % 1):
        raise ModelError(f"the engine is {engine!r}; give ray, or ray:0.5 for two workers on each GPU")
    return gpus


class _Driver:
    """Starts the board and the workers of a run, and waits for them."""

    def __init__(self, ray: Any, job: Callable[..., PredictionFiles], out: Path, gpus: float, bars: Progress) -> None:
        self._ray, self._job, self._gpus, self._bars = ray, job, gpus, bars
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        self._board = ray.remote(Board).options(num_cpus=0, scheduling_strategy=here).remote(str(out.absolute()))
        self._workers: dict[str, Any] = {}
        self._tasks: dict[Any, str] = {}  # the worker of each running task
        self._count = 0

    def finished(self) -> tuple[RunRecord, dict[str, bytes]]:
        """The run, and the files of its predictions by name, when all chunks are computed."""
        heard = time.monotonic()
        while True:
            self._fill()
            done, _ = self._ray.wait([*self._tasks], timeout=_POLL) if self._tasks else ([], time.sleep(_POLL))
            for task in done:
                self._end(task)
            record, left, claimed = result_of(self._board.state.remote())
            if record is not None and not left and not claimed and (idle := self._idle()):
                try:
                    return record, result_of(self._workers[idle[0]].finish.remote(record))
                except self._ray.exceptions.RayActorError:
                    self._lose(idle[0])
            for name in self._idle() if left else ():
                self._start(name)
            if self._tasks:
                heard = time.monotonic()
            elif time.monotonic() - heard > PATIENCE:
                raise ModelError(f"no worker for {PATIENCE:.0f} s; run the same command again, which resumes")

    def _fill(self) -> None:
        """Have a worker for each free GPU, or CPU where there are no GPUs, of the nodes that are there now."""
        resources = self._ray.cluster_resources()
        if resources.get("GPU"):
            each, most = {"num_gpus": self._gpus, "num_cpus": 1}, resources["GPU"] / self._gpus
        else:
            each, most = {"num_cpus": 1}, resources.get("CPU", 0)
        while len(self._workers) < int(most):
            self._count += 1
            name = f"worker-{self._count}"
            actor = self._ray.remote(Worker).options(**each, max_restarts=0, max_task_retries=0)
            self._workers[name] = actor.remote(self._job, self._board, name)
            self._start(name)
            self._bars.say(f"{name} joins the run")

    def _start(self, name: str) -> None:
        self._tasks[self._workers[name].compute.remote()] = name

    def _idle(self) -> list[str]:
        return [name for name in self._workers if name not in self._tasks.values()]

    def _end(self, task: Any) -> None:
        """Take note that a task has ended: well, with its worker's node, or with an error of the run itself."""
        name = self._tasks.pop(task)
        try:
            result_of(task)
        except self._ray.exceptions.RayActorError:
            self._lose(name)

    def _lose(self, name: str) -> None:
        del self._workers[name]
        lost = result_of(self._board.release.remote(name))
        self._bars.say(f"{name} is lost; {lost} of its chunks are handed out again")
