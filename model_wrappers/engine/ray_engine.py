"""Runs on a Ray cluster: the shards of a run are Ray's tasks, which any worker of any node can do.

Ray repeats the tasks of a node that is lost, and gives tasks to nodes that join. The results come back to the driver,
which keeps them, so a killed run resumes. A last task re-checks near-ties and makes the predictions.

``RAY_ADDRESS`` names the cluster; without it, Ray runs on this machine. Every node needs this package and the sources.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...hub_datasets.core.ray_cluster import cluster, run_tasks
from ...hub_datasets.reports.evaluation import captions_of, parts_in
from ...metrics.common.errors import ModelError
from ...metrics.common.storage import write_atomically
from ...metrics.results.report import PredictionFiles
from .config import RunConfig
from .job import Job
from .progress import Progress
from .shards import UNFINISHED, RunRecord, Shard, collect
from .store import Store

# The number of tasks of a run: a few for each GPU of a large cluster, and each large enough for whole batches.
_SHARDS = 64
# Bytes of Ray's object store on a cluster that is started here.
_STORE = 256 << 20

# Files by their path below the output folder.
_Files = dict[str, bytes]


def predict_on_ray(
    model: str, references: Sequence[str], out: Path, seeds: Sequence[int], config: RunConfig
) -> PredictionFiles:
    """Do what `predict` does on the workers of a Ray cluster.

    Args:
        model: a model's name; every node must find it.
        references, out, seeds, config: as for `predict`; ``engine`` is ``"ray"``, or ``"ray:0.5"`` for two tasks at a
            time on a GPU.

    Raises:
        VLAssayError: Ray is not installed, or as `predict`, from a worker. Finished tasks are kept.
    """
    gpus = parse_engine(config.engine)
    alone = replace(config, engine="", cache=False, progress=False)
    arguments = pickle.dumps((model, list(references), list(seeds), alone))
    progress = Progress(show=config.progress)
    done = _finished(out, model, references, seeds, alone)
    remaining = [Shard(number, _SHARDS) for number in range(1, _SHARDS + 1) if number not in done]
    folders = {*done.values()}
    with cluster(_STORE):
        with progress.bar("shards on Ray", len(remaining)) as advance:
            for files in run_tasks(_compute_shard, remaining, arguments, gpus=gpus):
                _write(files, out)
                folders |= {(out / name).parent for name in files}
                advance(1)
        collected = _read(out, (path for folder in folders for path in folder.iterdir()))
        [files] = run_tasks(_merge_shards, [0], arguments, collected, gpus=gpus)
    _write(files, out)
    for folder in folders:
        Store(folder).remove()
    return PredictionFiles([out / name for name in files], captions_of, parts_in)


def parse_engine(engine: str) -> float:
    """Return the share of a GPU that a task takes: ``"ray"`` → 1, ``"ray:0.25"`` → 0.25; ModelError for others."""
    name, _, share = engine.partition(":")
    try:
        gpus = float(share or 1)
    except ValueError:
        gpus = 0.0
    if name != "ray" or not 0 < gpus <= 8 or (gpus > 1 and gpus % 1):
        raise ModelError(f"the engine is {engine!r}; give ray, or ray:0.5 for two tasks on each GPU")
    return gpus


def _finished(
    out: Path, model: str, references: Sequence[str], seeds: Sequence[int], config: RunConfig
) -> dict[int, Path]:
    """Return the folders of the shards of this run that an earlier call has computed, by their number."""
    records = {path: RunRecord.read(path) for path in (out / UNFINISHED).glob(f"*/shard-*-of-{_SHARDS}.json")}
    ours = model, list(references), list(seeds), _without_batching(json.loads(json.dumps(asdict(config), default=str)))
    return {
        Shard.parse(record.shard).number: path.parent
        for path, record in records.items()
        if (record.model, record.benchmarks, record.seeds, _without_batching(record.config)) == ours
    }


def _without_batching(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that results depend on, so that a killed run may continue with smaller batches."""
    return {name: value for name, value in config.items() if name not in ("batch_size", "workers")}


def _compute_shard(shard: Shard, arguments: bytes) -> _Files:
    """Compute a shard on a worker; return its results and record."""
    with tempfile.TemporaryDirectory() as folder:
        _job(arguments).predict(Path(folder), shard=shard)
        return _read(Path(folder), Path(folder).rglob("*.*"))


def _merge_shards(_: int, arguments: bytes, shards: _Files) -> _Files:
    """Make the predictions from the results of all shards, on a worker."""
    with tempfile.TemporaryDirectory() as folder:
        there, out = Path(folder) / "shards", Path(folder) / "out"
        for name, content in shards.items():
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            (there / name).write_bytes(content)
        record, count = collect([there], out)
        job = _job(arguments)
        record.check_same_run(job.record())
        return _read(out, job.predict(out, merged=count))


@lru_cache(1)
def _job(arguments: bytes) -> Job:
    """Return the loaded model and data, which a worker keeps between tasks."""
    model, references, seeds, config = pickle.loads(arguments)  # pickled by the driver
    return Job(model, references, seeds, config)


def _read(folder: Path, paths: Iterable[Path]) -> _Files:
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}


def _write(files: _Files, folder: Path) -> None:
    for name, content in files.items():
        write_atomically(folder / name, content)
