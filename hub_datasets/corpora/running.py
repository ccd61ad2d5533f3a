"""From shard to shard: run a step over the shards of a corpus, in processes, resumed, each output complete or absent.

Each shard of the corpus becomes one Parquet file, whose metadata record the input's version, the step's settings and
its counts. A file that is there and records the same is kept, so that an interrupted run, or one on many machines
(``--shard 3/16``), is continued or merged by the same command.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.common.errors import DataError, StorageError, VLAssayError, check_known
from ...metrics.common.storage import replacing
from ..core.ray_cluster import cluster, result_of
from .shards import Batch, CorpusShard, read_batches

_RECORD = "vl_assay"
_VERSION = 1
ENGINES = ("ray",)
# Bytes of Ray's store on this machine, and how often a shard is begun again whose node was lost.
_STORE, _RETRIES = 256 << 20, 3


class Step(ABC):
    """What is made of each shard. A step is pickled to the processes."""

    @property
    @abstractmethod
    def columns(self) -> dict[str, str]:
        """For each text that it reads, by its own name, the column of the shard."""

    @property
    def image(self) -> str | None:
        """The column of the images that it reads."""
        return None

    @property
    def settings(self) -> dict[str, Any]:
        """All that its output depends on besides shard, columns and code, as JSON takes it."""
        return {}

    @abstractmethod
    def schema(self) -> Any:
        """The Arrow schema of its output."""

    @abstractmethod
    def run(self, batches: Iterator[Batch], counts: Counter[str]) -> Iterator[Mapping[str, Any]]:
        """Parts of the output of one shard, as columns; `counts` are recorded and summed over shards."""


class ShardOutcome(NamedTuple):
    """The output of a shard with its counts, or why there is none; `is_kept` if it was there before."""

    shard: CorpusShard
    file: Path
    counts: Counter[str]
    problem: str = ""
    is_kept: bool = False


def total_counts(outcomes: Sequence[ShardOutcome]) -> Counter[str]:
    """The counts of all shards together, also those that are 0."""
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome.counts)
    return counts


def run_shards(
    shards: Sequence[CorpusShard],
    step: Step,
    out: Path,
    *,
    workers: int = 1,
    engine: str = "",
    progress: Callable[[ShardOutcome], None] = lambda outcome: None,
) -> list[ShardOutcome]:
    """Run a step over shards, and write the output of each to ``out/shards``.

    Args:
        shards: of `find_shards`.
        step: what to do.
        out: a folder, which several machines may share.
        workers: the number of processes on this machine, at least 1.
        engine: ``"ray"`` runs a shard on each CPU of a Ray cluster instead (see `cluster`), whose nodes have this
            package, and shards and `out` under the same paths. What is lost with a node is done by another. It takes
            no `workers`.
        progress: called with each outcome as it comes.

    Returns:
        The outcomes in the order of the shards. A damaged shard stops no other.

    Raises:
        StorageError: an output could not be written.
        DataError: a process was killed, as for want of memory, or Ray failed.
        UnknownNameError: another engine.
        VLAssayError: an engine with workers, Ray is not installed, or there is no cluster.
    """
    check_known("engine", [engine] if engine else [], ENGINES)
    if engine and workers > 1:
        raise VLAssayError(
            f"--engine {engine} takes all CPUs of its cluster, not --workers {workers}; give one of them"
        )
    folder, found = out / "shards", {}
    if engine:
        outcomes = _on_ray(shards, step, folder)
    elif workers == 1 or len(shards) < 2:
        outcomes = (process_shard(shard, step, folder) for shard in shards)
    else:
        outcomes = _in_processes(shards, step, folder, workers)
    for outcome in outcomes:
        found[outcome.shard] = outcome
        progress(outcome)
    return [found[shard] for shard in shards]


def _in_processes(shards: Sequence[CorpusShard], step: Step, folder: Path, workers: int) -> Iterator[ShardOutcome]:
    # Not forked: threads of the parent may hold locks.
    context = get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(shards)), context, _set_step, (step, folder)) as pool:
        futures = [pool.submit(_process, shard) for shard in shards]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise DataError(
                "a process was killed, perhaps for want of memory; finished shards are kept: run the same command "
                "again with fewer --workers"
            ) from error
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _on_ray(shards: Sequence[CorpusShard], step: Step, folder: Path) -> Iterator[ShardOutcome]:
    with cluster(_STORE) as ray:
        task = ray.remote(process_shard).options(num_cpus=1, max_retries=_RETRIES)
        sent = ray.put(step)  # once to a node, not with each shard
        # Nodes have folders of their own to start from.
        left = [task.remote(shard, sent, folder.absolute()) for shard in shards]
        try:
            while left:
                done, left = ray.wait(left)
                yield from map(result_of, done)
        except ray.exceptions.RayError as error:
            raise DataError(
                f"Ray failed: {str(error).strip()}. Finished shards are kept: see to the cluster (`ray status`) and "
                "run the same command again, or with --workers in place of --engine ray"
            ) from error


_job: tuple[Step, Path]


def _set_step(step: Step, folder: Path) -> None:
    global _job  # sent once to a process, not with each shard
    _job = step, folder


def _process(shard: CorpusShard) -> ShardOutcome:
    return process_shard(shard, *_job)


def process_shard(shard: CorpusShard, step: Step, folder: Path) -> ShardOutcome:
    """Make the output of one shard in a folder, unless it is there, as `run_shards` does.

    This function serves any scheduler: it needs nothing but its arguments, and its output appears complete or not at
    all.

    Raises:
        StorageError: the output could not be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = folder / f"{shard.name}.parquet"
    identity = _identity(shard, step)
    record = read_record(file)
    if record.get("identity") == identity:
        return ShardOutcome(shard, file, Counter(record["counts"]), is_kept=True)
    counts: Counter[str] = Counter()
    try:
        schema = step.schema()
        with replacing(file) as target, pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for columns in step.run(read_batches(shard, step.columns, step.image), counts):
                writer.write_table(pa.table(dict(columns), schema), row_group_size=1 << 16)
            writer.add_key_value_metadata({_RECORD: json.dumps({"identity": identity, "counts": counts})})
    except StorageError:
        raise
    except Exception as error:  # one caption or image of 10⁹ must not stop the others, whatever it triggers
        reason = str(error) if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
        return ShardOutcome(shard, file, Counter(), problem=reason)
    return ShardOutcome(shard, file, counts)


def read_record(file: Path) -> dict[str, Any]:
    """What the output of a shard records: `identity` and `counts`; empty if there is none, or it is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(file).metadata or {}
        return json.loads(metadata[_RECORD.encode()])
    except (OSError, KeyError, ValueError, pa.ArrowException):
        return {}


def _identity(shard: CorpusShard, step: Step) -> dict[str, Any]:
    about = {"columns": step.columns, "image": step.image, "settings": step.settings}
    identity = {"shard": list(shard), "step": type(step).__name__, **about, "code": f"{version('vl-assay')}.{_VERSION}"}
    return json.loads(json.dumps(identity, default=str))
