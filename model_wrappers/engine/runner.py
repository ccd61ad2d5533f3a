"""The runner: from a model and benchmarks to predictions and reports.

Every distinct image (by content) and text of a run is encoded once and cached; texts are batched by length; images are
decoded in threads while the model computes. The work is split into fixed chunks, so a killed run resumes where it
stopped, also with another number of processes.

Near-ties, scores whose difference is within the rounding error, are re-checked: their images and captions are encoded
again one at a time in float64. So in float32 no decision depends on the batch size or the number of processes, and
captions that are identical to the model tie exactly. Retrieval sets and boxes are not re-checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ...hub_datasets import report
from ...hub_datasets.core.benchmarks import benchmark_names, option_names, parts_of
from ...hub_datasets.core.blind import blind_levels
from ...hub_datasets.core.evaluation import captions_of, parts_in
from ...hub_datasets.core.examples import TaskData, check_reference, load_examples
from ...hub_datasets.core.network import check_sources
from ...metrics.common.errors import DataError, ModelError, PredictionsError, check_known
from ...metrics.common.storage import check_writable
from ...metrics.evaluation import PredictionFiles, Report, check_options
from ...metrics.records.predictions import Predictions, prediction_files, read_predictions, write_predictions
from ...metrics.records.results import code_version
from ...metrics.records.schema import Row
from .cache import EmbeddingCache, open_cache
from .chunks import ChunkStore
from .distributed import Processes, available_cpus, default_device, join
from .estimate import Estimate, changed_decisions, estimate
from .families import DEFAULT_MODEL, check_model, load_model
from .finished import finished_files, record_files, run_key
from .pipeline import Pipeline
from .plan import ScoringPlan
from .precision import AUTO, TwoPrecisions, describe, load_in_two
from .progress import Progress
from .protocol import DTYPES, DualEncoder, LoadOptions, Model, RemoteModel, RequestPlan, TextScorer, abilities
from .ray_engine import predict_on_ray
from .remote import plan_requests
from .results import PredictionsSource, Results, refuse_computed, score_plan
from .shards import UNFINISHED, Part, RunRecord, Shard, collect

DEFAULT_BENCHMARKS = ("toy_scenes",)
_LIBRARIES = (
    "torch", "torchvision", "transformers", "tokenizers", "open_clip_torch",
    "accelerate", "datasets", "numpy", "pillow",
)  # fmt: skip
# On CPUs larger batches are slower: with ViT-B/32 on 2 cores 18 images/s at 32, 16 at 64.
BATCH_SIZES = {"cpu": 32, "mps": 32, "cuda": 128}

AnyModel = Model | PredictionsSource


@dataclass(frozen=True)
class RunConfig:
    """How `run`, `predict` and `plan` load and run a model; every field is a keyword argument of theirs, too.

    | field | default | meaning |
    |---|---|---|
    | `data_dir` | None | the user's own copy of the benchmarks' sources; None downloads them |
    | `options` | None | fields of the builders' configurations, such as ``{"allow_missing": True}`` |
    | `batch_size` | None | images or texts in a batch; None: what suits the device. Halved when memory runs out |
    | `dtype` | "float32" | type of weights and activations: ``"float32"``, ``"bfloat16"`` or ``"float16"`` |
    | `revision` | None | branch, tag or commit of the model's Hub repository |
    | `settings` | None | settings of the model's family, such as ``{"head": "itc"}`` |
    | `compile` | False | whether to compile the model with `torch.compile`; needs a model given by name |
    | `workers` | None | processes that prepare images; None: 0 on a CPU, which uses threads, up to 8 for a GPU |
    | `cache` | None | whether to use finished predictions and cached embeddings; None: only of models given by name |
    | `check_precision` | 0 | count the decisions on so many examples of each task that differ from float32 |
    | `limit` | None | the most examples of each task, for a quick look: predictions that say that they are partial |
    | `shard` | None | compute this part alone, such as ``"3/16"``, for `merge`; see `shards` |
    | `engine` | "" | ``"ray"``: on a Ray cluster, a worker for each GPU; ``"ray:0.5"``: two; see `ray_engine` |
    | `progress` | True | whether to show progress bars and a summary |

    The dtype ``"auto"`` is bfloat16, and float32 for what that cannot decide; see `precision`. In float32 and with it
    neither `batch_size` nor `workers` changes a decision. Other models are not cached by default, since they may change
    without changing their `info`. `check_precision` loads the model again, so it needs a name.

    Raises:
        ModelError: a batch size or a limit below 1.
        VLAssayError: no shard.
        UnknownNameError: a dtype that does not exist.
    """

    data_dir: str | Path | None = None
    options: Mapping[str, Any] | None = None
    batch_size: int | None = None
    dtype: str = "float32"
    revision: str | None = None
    settings: Mapping[str, str] | None = None
    compile: bool = False
    workers: int | None = None
    cache: bool | None = None
    check_precision: int = 0
    limit: int | None = None
    shard: str | None = None
    engine: str = ""
    progress: bool = True

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ModelError(f"the limit is {self.limit} examples; it must be 1 or more")
        if self.batch_size is not None and self.batch_size < 1:
            raise ModelError(f"the batch size is {self.batch_size}; it must be 1 or more")
        check_known("dtype", [self.dtype], (*DTYPES, AUTO))
        if self.shard is not None:
            Shard.parse(self.shard)
        if self.dtype == AUTO and (self.shard is not None or self.engine):
            raise ModelError(
                "dtype auto decides by a sample of all examples, which a shard or a worker of Ray does not have; take "
                "float32 or bfloat16"
            )

    @classmethod
    def of(cls, config: RunConfig | None, changes: Mapping[str, Any]) -> RunConfig:
        """The configuration, or the default one, with some fields replaced; `TypeError` for an unknown field."""
        return replace(config or cls(), **changes)


def run(
    model: str | AnyModel = DEFAULT_MODEL,
    benchmarks: str | Iterable[str] = DEFAULT_BENCHMARKS,
    *,
    out: str | Path | None = None,
    seeds: Iterable[int] = (),
    ties: str | None = None,
    confidence: float = 0.95,
    config: RunConfig | None = None,
    **changes: Any,
) -> Report:
    """Evaluate a model on benchmarks: write predictions, and a report with tables and plots, to a folder.

    Predictions that are in the folder stay, and the report covers all of them.

    Args:
        model, benchmarks, out, config, changes: as for `predict`.
        seeds: seeds of the benchmarks' builders; reports show means and standard deviations over them.
        ties: how ties count; by default as in each metric's paper.
        confidence: level of the intervals.

    Returns:
        The results of all predictions in the folder, with tables, examples and plots; empty in a process other than
        the main one.

    Raises:
        VLAssayError: as `predict`.
    """
    check_options(ties=ties, confidence=confidence)
    files = predict(model, benchmarks, out=out, seeds=seeds, config=config, **changes)
    paths = with_earlier(files)
    if not join().is_main:
        return Report([], paths, ties, files.captions, files.parts)
    found = report(paths, ties=ties, confidence=confidence)
    found.write(files[0].parent)
    return found


def with_earlier(files: Sequence[Path]) -> list[Path]:
    """Files of predictions, followed by all others in the folder of the first."""
    return list(dict.fromkeys([*files, *prediction_files(files[0].parent)]))


def predict(
    model: str | AnyModel = DEFAULT_MODEL,
    benchmarks: str | Iterable[str] = DEFAULT_BENCHMARKS,
    *,
    out: str | Path | None = None,
    seeds: Iterable[int] = (),
    config: RunConfig | None = None,
    **changes: Any,
) -> PredictionFiles:
    """Run a model on benchmarks and write one file of predictions for each task.

    Processes started by ``torchrun`` or ``accelerate launch`` share the work. A run that was killed resumes when the
    same call is made again; one that is complete is not computed again, unless with ``cache=False`` (see `finished`).

    Args:
        model: a model's name (see `load_model`), or an object that implements a protocol; an object is identified by
            its `info` alone, also when a run resumes.
        benchmarks: names, parts of benchmarks or dataset folders (see `load_examples`).
        out: folder of the files; by default `default_folder` of the model's name.
        seeds: seeds of the benchmarks' builders, with separate files; by default the seed of the option.
        config: everything else; see `RunConfig`.
        changes: fields of `RunConfig`, for example ``dtype="bfloat16"``; they replace those of `config`.

    Returns:
        The paths of the files, by benchmark and seed, as a sequence that can be inspected and evaluated; the same in
        every process, though only one writes. With ``shard`` there are none until all shards are merged.

    Raises:
        VLAssayError: an unknown name, unusable data or model, a full disk; finished chunks are kept.
    """
    config = RunConfig.of(config, changes)
    part = Shard.parse(config.shard) if config.shard else None
    if config.engine:
        if part is not None or not isinstance(model, str):
            raise ModelError("the engine ray takes a model by its name, and no shard: it cuts the run itself")
        chosen = {"model": model, "benchmarks": _references(benchmarks), "seeds": list(seeds), "config": config}
        return predict_on_ray(predict_part, out=default_folder(model) if out is None else Path(out), **chosen)
    return predict_part(model, benchmarks, out, seeds, config, part=part)


def predict_part(
    model: str | AnyModel,
    benchmarks: str | Iterable[str],
    out: str | Path | None,
    seeds: Iterable[int],
    config: RunConfig,
    *,
    part: Part | None = None,
    merged: RunRecord | None = None,
) -> PredictionFiles:
    """See `predict`; `part` is computed alone, and `merged` is the run whose finished chunks are to be used."""
    context = _Context(config, join(), list(dict.fromkeys(seeds)), part)
    with context.processes.raise_on_all_ranks():
        _check_arguments(model, out, config)
        references = _checked_references(benchmarks, context)
    key = _key(model, references, out, context) if context.processes.world == 1 and part is None else None
    if finished := finished_files(key):
        context.bars.say(
            "the predictions of this model, data and code exist; `cache: false` in --config computes them again"
        )
        return PredictionFiles(finished, captions_of, parts_in)
    loaded = _load(model, context)
    with context.clock("data"):
        context.bars.say(f"loading {', '.join(references)}")
        plan = ScoringPlan(_load_seeds(references, loaded, context))
    _check_task_types(plan, config)
    if isinstance(loaded, RemoteModel):
        _connect(loaded, plan, context)
    out = Path(out) if out is not None else default_folder(loaded.info.name)
    paths = [out / f"{_predictions_name(task, with_seed=bool(context.seeds))}.parquet" for task in plan.tasks]
    record = _record(loaded, plan, model=str(model), benchmarks=references, seeds=context.seeds, config=config)
    with context.processes.raise_on_all_ranks():
        _refuse_to_overwrite(paths, plan.tasks, loaded)
        if merged is not None:
            merged.check_same_run(replace(record, stages=merged.stages))
        folder = out / UNFINISHED / record.identity
        store = ChunkStore(folder) if part is None else part.open(record, folder)
    pipeline = _pipeline(loaded, store, context)
    with context.clock("scores"), closing(pipeline.decoder):
        results, found = _scores(loaded, plan, pipeline, store, context, is_named=isinstance(model, str))
    context.processes.wait()  # until every process has read all chunks
    with context.processes.raise_on_all_ranks():
        if context.processes.is_main and part is not None:
            part.close(replace(record, stages=pipeline.chunks), store)
        elif context.processes.is_main:
            if config.check_precision:
                found |= _compare_with_float32(str(model), loaded, plan, pipeline, context)
            _write(paths, loaded, results, found | _facts(loaded, plan, pipeline, context), context)
            store.remove()
            record_files(key, paths)
    return PredictionFiles([] if part is not None else paths, captions_of, parts_in)


@dataclass
class _Context:
    """What the steps of a run share: how it was started, where it prints, and the seconds of its phases."""

    config: RunConfig
    processes: Processes
    seeds: list[int]
    part: Part | None

    def __post_init__(self) -> None:
        self.bars = Progress(show=self.config.progress and self.processes.is_main)
        self.seconds: dict[str, float] = {}

    @contextmanager
    def clock(self, phase: str) -> Iterator[None]:
        """Take the seconds of a phase."""
        start = time.perf_counter()
        yield
        self.seconds[phase] = round(time.perf_counter() - start, 3)


def _check_arguments(model: str | AnyModel, out: str | Path | None, config: RunConfig) -> None:
    """Raise for a model or folder that is wrong, as far as that can be known before the model is loaded."""
    if not isinstance(model, str):
        if config.check_precision:
            raise ModelError("check_precision loads the model again, in float32: name it by a text")
        if config.dtype == AUTO:
            raise ModelError("dtype auto loads the model in two precisions: name it by a text")
    check_writable(default_folder("") if out is None else Path(out))
    if isinstance(model, str):
        check_model(model)


def _checked_references(benchmarks: str | Iterable[str], context: _Context) -> list[str]:
    """The benchmarks as a list; raises for one that is unknown, has no seed to choose, or lacks its sources."""
    references = _references(benchmarks)
    for reference in references if context.seeds else ():
        name = reference.partition("/")[0]
        if name not in benchmark_names() or "seed" not in option_names(name):
            raise DataError(f"{reference} has no seed to choose; give seeds for benchmarks that are drawn at random")
    check_sources(references, data_dir=context.config.data_dir, options=context.config.options)
    return references


def _load(model: str | AnyModel, context: _Context) -> Any:
    """The model, if it can do what the configuration asks of it."""
    config = context.config
    with context.clock("model"), context.processes.raise_on_all_ranks():
        loaded: Any = model
        if isinstance(model, str):
            context.bars.say(f"loading {model}")
            options = _load_options(model, context.processes, config)
            loaded = load_in_two(load_model, model, options) if config.dtype == AUTO else load_model(model, options)
    if config.check_precision and isinstance(loaded, PredictionsSource | RemoteModel):
        raise ModelError(f"{loaded.info.name} is computed elsewhere: check_precision cannot compute it again")
    if context.part is not None:
        refuse_computed(loaded, "nothing to compute in parts")
    if getattr(loaded, "is_shared", False):
        context.processes = replace(context.processes, together=True)
    return loaded


def _check_task_types(plan: ScoringPlan, config: RunConfig) -> None:
    """Raise for a task whose decisions the precision of the run does not know."""
    if config.dtype == AUTO and (other := [task for task in plan.tasks if task.task.task_type != "matching"]):
        raise ModelError(
            f"dtype auto decides the examples of matching tasks, and {other[0].benchmark}/{other[0].task.name} is "
            f"{other[0].task.task_type}; leave it out, or take float32 or bfloat16"
        )


def _connect(model: RemoteModel, plan: ScoringPlan, context: _Context) -> None:
    """Tell what will be sent to a server, which is an error over the model's limit, and connect to it."""
    with context.processes.raise_on_all_ranks():
        context.bars.say(f"to be sent: {plan_requests(model, plan)}")
        model.connect()


def _record(loaded: AnyModel, plan: ScoringPlan, *, config: RunConfig, **of: Any) -> RunRecord:
    """What the chunks of a run depend on, with a hash of it that names their folder, and the arguments of the run."""
    # Each process of a machine has another GPU, and all have the same chunks.
    kind = _device(loaded).partition(":")[0]
    data = {"device": kind, "data": plan.fingerprint()}
    about = {"model": asdict(loaded.info), "library": _libraries(), "the": data}
    identity = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()[:16]
    return RunRecord(identity, **of, config=asdict(config), stages={}, about=about)


def _pipeline(loaded: AnyModel, store: ChunkStore, context: _Context) -> Pipeline:
    device, workers = _device(loaded), context.config.workers
    if workers is None:
        workers = min(8, available_cpus() - 1) if device.startswith("cuda") else 0
    batch_size = context.config.batch_size or _batch_size(device)
    return Pipeline(loaded.info.name, store, context.processes, context.bars, batch_size, workers, context.part)


def _scores(
    loaded: Any, plan: ScoringPlan, pipeline: Pipeline, store: ChunkStore, context: _Context, *, is_named: bool
) -> tuple[Results, dict[str, Any]]:
    """The results for everything in a plan, and counts for the metadata."""
    if isinstance(loaded, PredictionsSource):
        with context.processes.raise_on_all_ranks():
            results, found = loaded.results(plan)
        context.bars.say(", ".join(f"{fact.replace('_', ' ')}: {count:,}" for fact, count in found.items()))
        return results, found
    context.bars.say(plan.summary())
    results, found = score_plan(loaded, plan, pipeline, _cache(loaded, store, context, is_named=is_named))
    if isinstance(loaded, TwoPrecisions):
        context.bars.say(describe(found, len(plan.captions)))
    return results, found


def _cache(loaded: Any, store: ChunkStore, context: _Context, *, is_named: bool) -> EmbeddingCache:
    """The cache of the model's embeddings, which by default only a model that `is_named` uses."""
    is_cached = is_named if context.config.cache is None else context.config.cache
    # What is cached is not the same on every machine, and the chunks are of what is left.
    keep = is_cached and isinstance(loaded, DualEncoder) and context.part is None
    info = loaded.fast.info if isinstance(loaded, TwoPrecisions) else loaded.info
    return open_cache(info, _device(loaded), _libraries(), store, context.processes, keep=keep)


def _compare_with_float32(
    model: str, loaded: Any, plan: ScoringPlan, pipeline: Pipeline, context: _Context
) -> dict[str, int]:
    """Counts of the decisions that differ between the model and its float32 version."""
    options = replace(_load_options(model, context.processes, context.config), dtype="float32")
    size = context.config.check_precision
    exact: Any = load_model(model, options)
    found = changed_decisions(loaded, exact, plan.tasks, batch_size=pipeline.batch_size, size=size)
    changed, compared = found["precision_changes"], found["precision_sample"]
    context.bars.say(f"{changed} of {compared} decisions differ between {context.config.dtype} and float32")
    return found


def _write(paths: Sequence[Path], loaded: AnyModel, results: Results, facts: dict[str, Any], context: _Context) -> None:
    """Write the predictions of each task of a plan."""
    context.bars.say("writing predictions")
    for number, (path, task) in enumerate(zip(paths, results.plan.tasks, strict=True)):
        write_predictions(path, _predictions(loaded, task, results.rows(number), facts))


score = predict  # its older name


def merge(
    *folders: str | Path, out: str | Path, data_dir: str | Path | None = None, progress: bool = True
) -> PredictionFiles:
    """Write the predictions of a run from those of all its shards: the same as of `predict` without shards.

    The model is loaded to re-check near-ties, so the machine has to be of the same kind as those of the shards.

    Args:
        folders: the output folders of the shards, or folders that hold them, in any order.
        out: folder of the predictions.
        data_dir: as for `predict`, where it is another folder here.
        progress: whether to show progress bars.

    Raises:
        DataError: shards are missing or damaged; the message names them.
        PredictionsError: they are not of one run, or of another kind of machine or data than here.
        VLAssayError: as `predict`.
    """
    out = Path(out)
    check_writable(out)
    record = collect([Path(folder) for folder in folders], out)
    known = {field.name for field in fields(RunConfig)}
    given = {name: value for name, value in record.config.items() if name in known}
    given |= {"shard": None, "cache": False, "progress": progress, "data_dir": data_dir or record.config["data_dir"]}
    config = RunConfig(**given)
    return predict_part(record.model, record.benchmarks, out, record.seeds, config, merged=record)


def plan(
    model: str | AnyModel = DEFAULT_MODEL,
    benchmarks: str | Iterable[str] = DEFAULT_BENCHMARKS,
    *,
    config: RunConfig | None = None,
    **changes: Any,
) -> Estimate | RequestPlan:
    """Estimate the time and memory of `predict` with the same arguments from a sample; writes nothing.

    Of a model behind a server, tell what would be sent to it; no question is.

    Args:
        model, benchmarks, config, changes: as for `predict`.

    Raises:
        VLAssayError: as `predict`.
    """
    config = RunConfig.of(config, changes)
    if isinstance(model, str):
        check_model(model)
    references = _references(benchmarks)
    check_sources(references, data_dir=config.data_dir, options=config.options)
    loaded: Any = model
    if isinstance(model, str):
        loaded = load_model(model, _load_options(model, Processes(), config))
    refuse_computed(loaded, "nothing to predict")
    tasks = _load_data(references, loaded, _Context(config, Processes(), [], None), config.options)
    if isinstance(loaded, RemoteModel):
        return plan_requests(loaded, ScoringPlan(tasks))
    return estimate(loaded, tasks, batch_size=config.batch_size or _batch_size(_device(loaded)))


def _references(benchmarks: str | Iterable[str]) -> list[str]:
    """The benchmarks as a list; an unknown name is an error before anything is loaded."""
    references = [benchmarks] if isinstance(benchmarks, str) else list(benchmarks)
    for reference in references:
        check_reference(reference)
    return references


def _device(model: AnyModel) -> str:
    return str(getattr(model, "device", "cpu"))


def _batch_size(device: str) -> int:
    return BATCH_SIZES.get(device.partition(":")[0], 32)


def default_folder(model: str) -> Path:
    """The default folder of a model's results: ``vl-assay-results/<model>``."""
    return Path("vl-assay-results") / re.sub(r"[^\w.-]+", "--", model).strip(".-")


def _key(model: str | AnyModel, references: list[str], out: str | Path | None, context: _Context) -> str | None:
    """The key of a run for `finished_files`; None if it is to be computed in any case."""
    config = context.config
    if not isinstance(model, str) or config.cache is False:
        return None
    # What the device follows from; torch, which chooses it, takes longer to import than the look-up.
    gpus = sorted(map(str, Path("/dev").glob("nvidia[0-9]*")))
    device = [platform.machine(), os.environ.get("CUDA_VISIBLE_DEVICES"), gpus]
    about = {**asdict(config), "progress": None, "seeds": context.seeds, "libraries": _libraries(), "device": device}
    return run_key(model, references, None if out is None else Path(out), about)


def _load_seeds(references: list[str], model: AnyModel, context: _Context) -> list[TaskData]:
    """The tasks for each seed of the builders, or with the default seed if there are none."""
    options = context.config.options
    if not context.seeds:
        return _load_data(references, model, context, options)
    by_seed = [_load_data(references, model, context, {**(options or {}), "seed": seed}) for seed in context.seeds]
    # Tasks that do not depend on the seed are predicted once.
    tasks: dict[tuple[str, str, str], TaskData] = {}
    for task in (task for same in zip(*by_seed, strict=True) for task in same):
        tasks.setdefault((task.benchmark, task.task.name, task.fingerprint), task)
    return [*tasks.values()]


def _load_data(
    references: list[str], model: AnyModel, context: _Context, options: Mapping[str, Any] | None
) -> list[TaskData]:
    """All tasks that suit the model; the main process first, so that no two build the same dataset."""
    tasks: list[TaskData] = []
    needs_images = not isinstance(model, PredictionsSource)
    task_types = model.task_types if isinstance(model, PredictionsSource) else abilities(model)
    if not task_types:
        raise ModelError(
            f"{model.info.name} follows none of the protocols in model_wrappers/engine/protocol.py: a method or an "
            "attribute of theirs is missing"
        )
    for turn in (context.processes.is_main, not context.processes.is_main):
        with context.processes.raise_on_all_ranks():
            if turn:
                for reference in references:
                    found = load_examples(
                        reference,
                        task_types=task_types,
                        data_dir=context.config.data_dir,
                        options=options,
                        needs_images=needs_images,
                        limit=context.config.limit,
                    )
                    _refuse_other_types(reference, found, model.info.name, task_types)
                    tasks += found
    names = [_predictions_name(task) for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{name} was asked for {names.count(name)} times; name each benchmark once")
    if not names:
        raise DataError("no benchmark was named; `vl-assay list` shows them")
    return tasks


def _refuse_other_types(reference: str, found: list[TaskData], model: str, task_types: tuple[str, ...]) -> None:
    other = [task.task for task in found if task.task.task_type not in task_types]
    if other or not found:
        asks = f"is {other[0].task_type}" if other else "has no task of that type by default"
        if other and other[0].task_type == "text_similarity":
            asks += ", which takes a model that embeds texts alone, as a dual encoder does"
        raise ModelError(
            f"{model} does {' and '.join(task_types)}, but {reference} {asks}; `vl-assay list` shows the tasks"
        )


def _refuse_to_overwrite(paths: list[Path], tasks: list[TaskData], model: AnyModel) -> None:
    """Raise if predictions of another model, revision or dataset would be replaced."""
    for path, task in zip(paths, tasks, strict=True):
        try:
            found = read_predictions(path).metadata
        except PredictionsError:
            continue  # no such file, or not readable
        ours = {"name": model.info.name, "revision": model.info.revision, "dtype": model.info.dtype}
        theirs = {key: found["model"].get(key) for key in ours}
        data = found["benchmark"].get("fingerprint")
        if theirs != ours or data != task.fingerprint:
            what = f"{theirs}" if theirs != ours else f"another version of the data ({data})"
            raise PredictionsError(
                f"{path} holds scores of {what}; name another folder with --out, or move the predictions file away"
            )


def _load_options(model: str | AnyModel, processes: Processes, config: RunConfig) -> LoadOptions:
    on_cpu = not isinstance(model, str) or model.startswith(("mock:", "endpoint:"))
    device = "cpu" if on_cpu else default_device(processes.rank)
    dtype = "float32" if config.dtype == AUTO else config.dtype
    return LoadOptions(device, dtype, config.revision, dict(config.settings or {}), config.compile)


def _predictions_name(task: TaskData, with_seed: bool = False) -> str:
    name = f"{task.benchmark}.{task.task.name if task.configs == task.task.configs else '+'.join(task.configs)}"
    return f"{name}.seed-{task.options['seed']}" if with_seed else name


def _predictions(model: AnyModel, task: TaskData, rows: list[Row], facts: dict[str, Any]) -> Predictions:
    benchmark = {
        "name": task.benchmark,
        "task": task.task.name,
        "configs": list(task.configs),
        "split": task.split,
        "fingerprint": task.fingerprint,
        "rows": len(rows),
        "missing": task.missing,
        "options": task.options,
        "metrics": {metric: dict(settings) for metric, settings in task.task.metrics.items()},
        "blind": blind_levels(task),
    }
    if parts := [(part, task.select(part)) for part in parts_of(task.benchmark, task.task.name)]:
        benchmark["blind_parts"] = {part.name: blind_levels(data) for part, data in parts if data.examples}
    if task.is_partial:
        benchmark["limit"] = task.limit
    if task.hub:
        benchmark["hub"] = task.hub
    about = asdict(model.info)
    if isinstance(model, TextScorer):
        about |= {"is_baseline": True, "sees_images": False}
    return Predictions(rows, {"task_type": task.task.task_type, "benchmark": benchmark, "model": about, "run": facts})


def _facts(loaded: AnyModel, plan: ScoringPlan, pipeline: Pipeline, context: _Context) -> dict[str, Any]:
    """How the scores were computed, for the metadata of the predictions."""
    return {
        "code": code_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": sys.modules["torch"].get_num_threads() if "torch" in sys.modules else 1,
        "processes": context.processes.world,
        "batch_size": pipeline.batch_size,
        "seed": None,  # nothing in scoring is drawn at random
        "images": len(plan.images),
        "captions": len(plan.captions.texts),
        "seconds": context.seconds,
        "stages": pipeline.seconds,
        "libraries": _libraries(),
        "device": _device(loaded),
    }


def _libraries() -> dict[str, str]:
    """The versions of everything that the scores depend on."""
    found = {"vl-assay": code_version()}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
