"""A job: a loaded model and the plan of the examples to score."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...hub_datasets.core.benchmarks import adopt, benchmark_names, option_names
from ...hub_datasets.core.build import sources_folder
from ...hub_datasets.core.examples import TaskData, check_reference, load_examples
from ...hub_datasets.reports.evaluation import captions_of, parts_in
from ...hub_datasets.sources.availability import check_sources
from ...metrics.common.errors import DataError, ModelError, StorageError
from ...metrics.results.report import PredictionFiles
from .arithmetic import full_float32
from .config import RunConfig
from .distributed import Processes, default_device, join
from .families import load_model
from .gpu_decoding import decode_on_gpu
from .loader import Loader
from .output import (
    default_folder,
    device_of,
    libraries,
    predictions_name,
    refuse_to_overwrite,
    run_facts,
    write_task,
)
from .plan import ScoringPlan
from .precision import AUTO, TwoPrecisions, describe, load_in_two
from .progress import Progress
from .protocol import LoadOptions, Model, RemoteModel, abilities
from .remote import plan_requests
from .results import PredictionsSource, Results, refuse_computed, score_plan
from .shards import UNFINISHED, RunRecord, Shard
from .stages import Stages
from .store import Store, cached_folder, identity_hash, make_room

# On CPUs larger batches are slower: with ViT-B/32 on 2 cores 18 images/s at 32, 16 at 64.
_BATCH_SIZES = {"cpu": 32, "mps": 32, "cuda": 256}

AnyModel = Model | PredictionsSource


@dataclass
class Job:
    """A loaded model and the plan of all that it is to score.

    Args:
        name: the model's name, or "" for an object.
        model: the loaded model.
        references: the benchmarks.
        seeds: of their builders.
        config: of the run.
        plan: the items to score.
        processes: the ranks of the run.
        progress: prints.
        seconds: of loading.
    """

    name: str
    model: Any
    references: list[str]
    seeds: list[int]
    config: RunConfig
    plan: ScoringPlan
    processes: Processes
    progress: Progress
    seconds: dict[str, float]

    def predict(self, out: Path | None, *, shard: Shard | None = None, merged: int = 0) -> PredictionFiles:
        """Score the plan, and write predictions.

        Args:
            out: the folder of the predictions; None for the default one.
            shard: the part to compute, of which results and a record are written instead.
            merged: the number of shards whose results are in `out`; 0 without shards.
        """
        if shard is not None:
            refuse_computed(self.model, "nothing to compute in parts")
            if isinstance(self.model, RemoteModel):
                raise ModelError(
                    f"{self.model.info.name} is asked from one place: take no shard, and raise the setting concurrency"
                )
        out = out or default_folder(self.model.info.name)
        tasks = self.plan.tasks
        paths = [out / f"{predictions_name(task, with_seed=bool(self.seeds))}.parquet" for task in tasks]
        record = self.record(shard)
        with self.processes.raise_on_all_ranks():
            refuse_to_overwrite(paths, tasks, self.model.info)
        store = self._store(out, record, is_part=shard is not None or bool(merged))
        device = device_of(self.model)
        stages = Stages(
            self.model.info.name,
            store,
            self.processes,
            self.progress,
            Loader(self.config.workers, on_gpu=device.startswith("cuda")),
            self.config.batch_size or batch_size_of(device),
            shard,
            merged,
        )
        with clock(self.seconds, "scores"), _in_full_float32() as switched_off:
            results, facts = self._scores(stages)
        self.processes.wait()  # until every process has read all results
        with self.processes.raise_on_all_ranks():
            if not self.processes.is_main:
                return PredictionFiles([] if shard else paths, captions_of, parts_in)
            if shard is not None:
                assert store.folder is not None
                record.write(store.folder)
                return PredictionFiles([], captions_of, parts_in)
            facts |= run_facts(self.model, self.plan, stages, self.processes, self.seconds)
            facts |= {"tf32_switched_off": switched_off}
            self.progress.say("writing predictions")
            for number, path in enumerate(paths):
                write_task(path, self.model, results, number, facts)
            if UNFINISHED in (store.folder or Path()).parts:
                store.remove()
            elif store.folder is not None:
                make_room(keep=store)
        return PredictionFiles(paths, captions_of, parts_in)

    def _scores(self, stages: Stages) -> tuple[Results, dict[str, Any]]:
        """Return the results for everything in the plan, and counts for the metadata."""
        if isinstance(self.model, PredictionsSource):
            with self.processes.raise_on_all_ranks():
                results, facts = self.model.results(self.plan)
            self.progress.say(", ".join(f"{fact.replace('_', ' ')}: {count:,}" for fact, count in facts.items()))
            return results, facts
        self.progress.say(self.plan.summary())
        results, facts = score_plan(self.model, self.plan, stages)
        if isinstance(self.model, TwoPrecisions) and stages.shard is None:
            self.progress.say(describe(facts, len(self.plan.captions)))
        return results, facts

    def record(self, shard: Shard | None = None) -> RunRecord:
        """Return the record of the run that this run, or its shard, belongs to."""
        data = {"device": _kind_of_device(self.model), "data": self.plan.fingerprint()}
        about = {"model": asdict(self.model.info), "library": libraries(), "the": data}
        identity = identity_hash(about)
        which = str(shard) if shard else "here"
        return RunRecord(identity, self.name, self.references, self.seeds, asdict(self.config), about, which)

    def _store(self, out: Path, record: RunRecord, *, is_part: bool) -> Store:
        """Return the model's store in the cache, or a temporary store that is removed at the end of the run."""
        if isinstance(self.model, PredictionsSource | RemoteModel):
            return Store(None)
        is_cached = self.config.cache
        if is_cached is None:
            is_cached = bool(self.name) and not self.model.info.is_baseline
        run_folder = out / UNFINISHED / record.identity
        if is_part or not is_cached:
            return Store(run_folder, self.progress.say)
        versions = {name: version for name, version in libraries().items() if name not in ("datasets", "accelerate")}
        identity = {**asdict(self.model.info), "device": _kind_of_device(self.model), "libraries": versions}
        folder = None
        if self.processes.is_main:
            try:
                folder = cached_folder(identity)
            except StorageError as error:
                self.progress.say(f"nothing is kept for later runs: {error}")
        return Store(self.processes.from_main(folder) or run_folder, self.progress.say)


def prepare(model: str | AnyModel, benchmarks: str | Iterable[str], seeds: Iterable[int], config: RunConfig) -> Job:
    """Load a model and the data that it is to be evaluated on; arguments and errors as for `predict`."""
    processes = join()
    progress = Progress(show=config.progress and processes.is_main)
    chosen_seeds, seconds = list(dict.fromkeys(seeds)), {}
    with processes.raise_on_all_ranks():
        references = checked_references(benchmarks, chosen_seeds, config)
    for name in dict.fromkeys(reference.partition("/")[0] for reference in references):
        if config.data_dir is None and name in benchmark_names() and (folder := sources_folder(name, None)):
            progress.say(f"sources of {name}: {folder}")
    with clock(seconds, "model"), processes.raise_on_all_ranks():
        if isinstance(model, str):
            progress.say(f"loading {model}")
        loaded = _load(model, processes, config)
    with clock(seconds, "data"):
        progress.say(f"loading {', '.join(references)}")
        plan = ScoringPlan(_load_seeds(references, loaded, processes, chosen_seeds, config))
    _check_task_types(plan, config)
    if isinstance(loaded, RemoteModel):
        with processes.raise_on_all_ranks():
            progress.say(f"to be sent: {plan_requests(loaded, plan)}")
            loaded.connect()
    name = model if isinstance(model, str) else ""
    return Job(name, loaded, references, chosen_seeds, config, plan, processes, progress, seconds)


def _load(model: str | AnyModel, processes: Processes, config: RunConfig) -> Any:
    """Return the model, if it can do what the configuration asks of it."""
    loaded: Any = model
    if isinstance(model, str):
        options = load_options(model, processes, config)
        is_auto = config.chosen_dtype == AUTO
        loaded = load_in_two(load_model, model, options) if is_auto else load_model(model, options)
    elif config.chosen_dtype == AUTO:
        raise ModelError("dtype auto loads the model in two precisions: name it by a text")
    if config.decode:
        decode_on_gpu(loaded)
    return loaded


def load_options(model: str, processes: Processes, config: RunConfig) -> LoadOptions:
    """Return how to load a model for a run."""
    on_cpu = model.startswith(("mock:", "endpoint:", "precomputed:"))
    device = "cpu" if on_cpu else default_device(processes.rank)
    dtype = "float32" if config.chosen_dtype == AUTO else config.chosen_dtype
    return LoadOptions(device, dtype, config.revision, dict(config.settings or {}))


def checked_references(benchmarks: str | Iterable[str], seeds: Sequence[int], config: RunConfig) -> list[str]:
    """Return the benchmarks as a list; raise for one that is unknown, has no seed to choose, or lacks its sources."""
    references = [adopt(text) for text in ([benchmarks] if isinstance(benchmarks, str) else benchmarks)]
    for reference in references:
        check_reference(reference)
        name = reference.partition("/")[0]
        if seeds and (name not in benchmark_names() or "seed" not in option_names(name)):
            raise DataError(f"{reference} has no seed to choose; give seeds for benchmarks that are drawn at random")
    check_sources(references, data_dir=config.data_dir, options=config.options)
    return references


def _load_seeds(
    references: list[str], model: AnyModel, processes: Processes, seeds: Sequence[int], config: RunConfig
) -> list[TaskData]:
    """Return the tasks for each seed of the builders; without seeds, for the default one."""
    if not seeds:
        return load_data(references, model, processes, config, config.options)
    by_seed = [
        load_data(references, model, processes, config, {**(config.options or {}), "seed": seed}) for seed in seeds
    ]
    # Tasks that do not depend on the seed are predicted once.
    tasks: dict[tuple[str, str, str], TaskData] = {}
    for task in (task for same in zip(*by_seed, strict=True) for task in same):
        tasks.setdefault((task.benchmark, task.task.name, task.fingerprint), task)
    return [*tasks.values()]


def load_data(
    references: list[str],
    model: AnyModel,
    processes: Processes,
    config: RunConfig,
    options: Mapping[str, Any] | None,
) -> list[TaskData]:
    """Return all tasks that suit the model; the main process goes first, so that no two build the same dataset."""
    task_types = model.task_types if isinstance(model, PredictionsSource) else abilities(model)
    if not task_types:
        raise ModelError(
            f"{model.info.name} follows none of the protocols in model_wrappers/engine/protocol.py: a method or an "
            "attribute of theirs is missing"
        )
    tasks: list[TaskData] = []
    for turn in (processes.is_main, not processes.is_main):
        with processes.raise_on_all_ranks():
            for reference in references if turn else ():
                reference_tasks = load_examples(
                    reference,
                    task_types=task_types,
                    data_dir=config.data_dir,
                    options=options,
                    needs_images=not isinstance(model, PredictionsSource),
                    limit=config.limit,
                )
                _refuse_other_types(reference, reference_tasks, model.info.name, task_types)
                tasks += reference_tasks
    names = [predictions_name(task) for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{name} was asked for {names.count(name)} times; name each benchmark once")
    if not names:
        raise DataError("no benchmark was named; `vl-assay list` shows them")
    return tasks


def _refuse_other_types(
    reference: str, reference_tasks: list[TaskData], model: str, task_types: tuple[str, ...]
) -> None:
    unsuited = [task.task for task in reference_tasks if task.task.task_type not in task_types]
    if unsuited or not reference_tasks:
        asks = f"is {unsuited[0].task_type}" if unsuited else "has no task of that type by default"
        if unsuited and unsuited[0].task_type == "text_similarity":
            asks += ", which takes a model that embeds texts alone, as a dual encoder does"
        raise ModelError(
            f"{model} does {' and '.join(task_types)}, but {reference} {asks}; `vl-assay list` shows the tasks"
        )


def _check_task_types(plan: ScoringPlan, config: RunConfig) -> None:
    """Raise for a task whose decisions the precision of the run does not know."""
    undecided = [task for task in plan.tasks if task.task.task_type != "matching"]
    if config.chosen_dtype == AUTO and undecided:
        name = f"{undecided[0].benchmark}/{undecided[0].task.name}"
        raise ModelError(
            f"dtype auto decides the examples of matching tasks, and {name} is "
            f"{undecided[0].task.task_type}; leave it out, or take float32 or bfloat16"
        )


@contextmanager
def clock(seconds: dict[str, float], phase: str) -> Iterator[None]:
    """Take the seconds of a phase."""
    start = time.perf_counter()
    yield
    seconds[phase] = round(time.perf_counter() - start, 3)


def batch_size_of(device: str) -> int:
    """Return the number of items in a batch that suits a device."""
    return _BATCH_SIZES.get(device.partition(":")[0], 32)


def _kind_of_device(model: AnyModel) -> str:
    # Each rank of a machine has another GPU, and all have the same results.
    return device_of(model).partition(":")[0]


def _in_full_float32() -> Any:
    return full_float32() if "torch" in sys.modules else nullcontext({})
