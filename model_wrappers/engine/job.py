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
from .distributed import default_device, join
from .families import load_model
from .gpu_decoding import decode_on_gpu
from .loader import Loader
from .output import default_folder, device_of, libraries, predictions_name, refuse_to_overwrite, run_facts, write_task
from .plan import ScoringPlan
from .precision import AUTO, TwoPrecisions, describe, load_in_two
from .progress import Progress
from .protocol import LoadOptions, Model, RemoteModel, RequestPlan, abilities
from .remote import plan_requests
from .results import PredictionsSource, refuse_computed, score_plan
from .shards import NOTHING, UNFINISHED, RunRecord, Shard
from .stages import Stages
from .store import Store, cached_folder, identity_hash, make_room, model_folder

# On CPUs larger batches are slower: with ViT-B/32 on 2 cores 18 images/s at 32, 16 at 64.
_BATCH_SIZES = {"cpu": 32, "mps": 32, "cuda": 256}

AnyModel = Model | PredictionsSource


@dataclass(frozen=True)
class WorkPlan:
    """The results that a run of a local model would compute; `str()` describes them in one line.

    Args:
        size: the examples, images and captions of the run, in words.
        results: for each kind of result (images, captions, pairs …) their number, and how many are stored already.
            Near-ties, which are computed again, are not counted, nor what `dtype auto` computes again in float32.
    """

    size: str
    results: dict[str, tuple[int, int]]

    def __str__(self) -> str:
        left = (f"{kind} {total - stored:,} of {total:,}" for kind, (total, stored) in self.results.items())
        return f"{self.size}. To be computed: {', '.join(left)}"


class Job:
    """A loaded model and the plan of all that it is to score; arguments and errors as for `predict`.

    Attributes:
        name: the model's name, or "" for an object.
        model: the loaded model.
        plan: the items to score.
        seconds: of loading and scoring.
    """

    def __init__(
        self, model: str | AnyModel, benchmarks: str | Iterable[str], seeds: Iterable[int], config: RunConfig
    ) -> None:
        self.name = model if isinstance(model, str) else ""
        self._config, self._seeds = config, list(dict.fromkeys(seeds))
        self._processes = join()
        self._progress = Progress(show=config.progress and self._processes.is_main)
        self.seconds: dict[str, float] = {}
        with self._processes.raise_on_all_ranks():
            self._references = checked_references(benchmarks, self._seeds, config)
        for name in dict.fromkeys(reference.partition("/")[0] for reference in self._references):
            if config.data_dir is None and name in benchmark_names() and (folder := sources_folder(name, None)):
                self._progress.say(f"sources of {name}: {folder}")
        with self._clock("model"), self._processes.raise_on_all_ranks():
            self.model: Any = self._load() if isinstance(model, str) else model
            if config.chosen_dtype == AUTO and not isinstance(model, str):
                raise ModelError("dtype auto loads the model in two precisions: name it by a text")
            if config.decode:
                decode_on_gpu(self.model)
        with self._clock("data"):
            self._progress.say(f"loading {', '.join(self._references)}")
            self.plan = ScoringPlan(self._tasks())
        undecided = [task for task in self.plan.tasks if task.task.task_type != "matching"]
        if config.chosen_dtype == AUTO and undecided:
            name = f"{undecided[0].benchmark}/{undecided[0].task.name}"
            raise ModelError(
                f"dtype auto decides the examples of matching tasks, and {name} is "
                f"{undecided[0].task.task_type}; leave it out, or take float32 or bfloat16"
            )

    def count(self) -> WorkPlan | RequestPlan:
        """Return the results that are to be computed, or the requests that are to be sent; nothing is written."""
        refuse_computed(self.model, "nothing to predict")
        if isinstance(self.model, RemoteModel):
            return plan_requests(self.model, self.plan)
        store = Store(model_folder(self._identity()) if self._is_cached else None)
        stages = self._stages(store, NOTHING)
        score_plan(self.model, self.plan, stages)
        return WorkPlan(self.plan.summary(), stages.counts)

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
            if shard is not None:
                raise ModelError(
                    f"{self.model.info.name} is asked from one place: take no shard, and raise the setting concurrency"
                )
            with self._processes.raise_on_all_ranks():
                self._progress.say(f"to be sent: {plan_requests(self.model, self.plan)}")
                self.model.connect()
        out, tasks = out or default_folder(self.model.info.name), self.plan.tasks
        paths = [out / f"{predictions_name(task, with_seed=bool(self._seeds))}.parquet" for task in tasks]
        with self._processes.raise_on_all_ranks():
            refuse_to_overwrite(paths, tasks, self.model.info)
        record = self.record(shard)
        store = self._store(out / UNFINISHED / record.identity, is_part=shard is not None or bool(merged))
        stages = self._stages(store, shard, merged)
        with self._clock("scores"), full_float32() if "torch" in sys.modules else nullcontext({}) as switched_off:
            if isinstance(self.model, PredictionsSource):
                with self._processes.raise_on_all_ranks():
                    results, facts = self.model.results(self.plan)
                counts = (f"{fact.replace('_', ' ')}: {count:,}" for fact, count in facts.items())
                self._progress.say(", ".join(counts))
            else:
                self._progress.say(self.plan.summary())
                results, facts = score_plan(self.model, self.plan, stages)
        if isinstance(self.model, TwoPrecisions) and shard is None:
            self._progress.say(describe(facts, len(self.plan.captions)))
        self._processes.wait()  # until every process has read all results
        with self._processes.raise_on_all_ranks():
            if self._processes.is_main and shard is not None:
                assert store.folder is not None
                record.write(store.folder)
            elif self._processes.is_main:
                facts = {**facts, **run_facts(self.model, stages, self.plan, self.seconds)}
                facts |= {"tf32_switched_off": switched_off}
                self._progress.say("writing predictions")
                for number, path in enumerate(paths):
                    write_task(path, self.model, results, number, facts)
                if UNFINISHED in (store.folder or Path()).parts:
                    store.remove()
                elif store.folder is not None:
                    make_room(keep=store)
        return PredictionFiles([] if shard else paths, captions_of, parts_in)

    def record(self, shard: Shard | None = None) -> RunRecord:
        """Return the record of the run that this run, or its shard, belongs to."""
        data = {"device": self._kind_of_device, "data": self.plan.fingerprint()}
        about = {"model": asdict(self.model.info), "library": libraries(), "the": data}
        config, part = asdict(self._config), str(shard) if shard else "here"
        return RunRecord(identity_hash(about), self.name, self._references, self._seeds, config, about, part)

    def _stages(self, store: Store, shard: Shard | None = None, merged: int = 0) -> Stages:
        device, name = device_of(self.model), self.model.info.name
        loader = Loader(self._config.workers, on_gpu=device.startswith("cuda"))
        size = self._config.batch_size or _BATCH_SIZES.get(device.partition(":")[0], 32)
        return Stages(name, store, self._processes, self._progress, loader, size, shard, merged)

    def _store(self, run_folder: Path, *, is_part: bool) -> Store:
        """Return the model's store in the cache, or a temporary store that is removed at the end of the run."""
        if isinstance(self.model, PredictionsSource | RemoteModel):
            return Store(None)
        if is_part or not self._is_cached:
            return Store(run_folder, self._progress.say)
        folder = None
        if self._processes.is_main:
            try:
                folder = cached_folder(self._identity())
            except StorageError as error:
                self._progress.say(f"nothing is kept for later runs: {error}")
        return Store(self._processes.from_main(folder) or run_folder, self._progress.say)

    @property
    def _is_cached(self) -> bool:
        by_default = bool(self.name) and not self.model.info.is_baseline
        return by_default if self._config.cache is None else self._config.cache

    def _identity(self) -> dict[str, Any]:
        """Return all that the model's stored results depend on."""
        versions = {name: version for name, version in libraries().items() if name not in ("datasets", "accelerate")}
        return {**asdict(self.model.info), "device": self._kind_of_device, "libraries": versions}

    @property
    def _kind_of_device(self) -> str:
        # Each rank of a machine has another GPU, and all have the same results.
        return device_of(self.model).partition(":")[0]

    def _load(self) -> Any:
        """Load the model by its name."""
        config, is_auto = self._config, self._config.chosen_dtype == AUTO
        self._progress.say(f"loading {self.name}")
        on_cpu = self.name.startswith(("mock:", "endpoint:", "precomputed:"))
        device = "cpu" if on_cpu else default_device(self._processes.rank)
        dtype = "float32" if is_auto else config.chosen_dtype
        options = LoadOptions(device, dtype, config.revision, dict(config.settings or {}))
        return load_in_two(load_model, self.name, options) if is_auto else load_model(self.name, options)

    def _tasks(self) -> list[TaskData]:
        """Return the tasks for each seed of the builders; without seeds, for the default one."""
        options = self._config.options or {}
        by_seed = [self._tasks_with({**options, "seed": seed}) for seed in self._seeds]
        # Tasks that do not depend on the seed are predicted once.
        tasks: dict[tuple[str, str, str], TaskData] = {}
        for task in (task for same in zip(*by_seed, strict=True) for task in same):
            tasks.setdefault((task.benchmark, task.task.name, task.fingerprint), task)
        return [*tasks.values()] if self._seeds else self._tasks_with(options)

    def _tasks_with(self, options: Mapping[str, Any]) -> list[TaskData]:
        """Return all tasks that suit the model; the main process goes first, so that no two build the same dataset."""
        is_computed, name = isinstance(self.model, PredictionsSource), self.model.info.name
        task_types = self.model.task_types if is_computed else abilities(self.model)
        if not task_types:
            raise ModelError(
                f"{name} follows none of the protocols in model_wrappers/engine/protocol.py: a method or an attribute "
                "of theirs is missing"
            )
        tasks: list[TaskData] = []
        for turn in (self._processes.is_main, not self._processes.is_main):
            with self._processes.raise_on_all_ranks():
                for reference in self._references if turn else ():
                    of_reference = load_examples(
                        reference,
                        task_types=task_types,
                        data_dir=self._config.data_dir,
                        options=options,
                        needs_images=not is_computed,
                        limit=self._config.limit,
                    )
                    _refuse_other_types(reference, of_reference, name, task_types)
                    tasks += of_reference
        names = [predictions_name(task) for task in tasks]
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"{name} was asked for {names.count(name)} times; name each benchmark once")
        if not names:
            raise DataError("no benchmark was named; `vl-assay list` shows them")
        return tasks

    @contextmanager
    def _clock(self, phase: str) -> Iterator[None]:
        """Take the seconds of a phase."""
        start = time.perf_counter()
        yield
        self.seconds[phase] = round(time.perf_counter() - start, 3)


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


def _refuse_other_types(reference: str, tasks: list[TaskData], model: str, task_types: tuple[str, ...]) -> None:
    unsuited = [task.task for task in tasks if task.task.task_type not in task_types]
    if unsuited or not tasks:
        asks = f"is {unsuited[0].task_type}" if unsuited else "has no task of that type by default"
        if unsuited and unsuited[0].task_type == "text_similarity":
            asks += ", which takes a model that embeds texts alone, as a dual encoder does"
        raise ModelError(
            f"{model} does {' and '.join(task_types)}, but {reference} {asks}; `vl-assay list` shows the tasks"
        )
