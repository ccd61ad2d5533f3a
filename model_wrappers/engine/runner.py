"""The runner: from a model and benchmarks to predictions.

Each different image (by content) and text of all benchmarks of a run is encoded once, and kept for later runs; texts
go in batches of like length; images are decoded in threads while the model works. The work is cut into fixed parts, so
a killed run goes on where it stopped, with any number of processes.

Scores that lie closer together than rounding can tell apart are settled: their images and captions are encoded
again, one at a time and in double precision. So in float32 no decision depends on the batch size or the number of
processes, and captions that are the same to the model tie exactly. Retrieval sets and boxes are not settled.
"""

from __future__ import annotations

import platform
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ...hub_datasets.core.benchmarks import benchmark_names, metrics_of, option_names
from ...hub_datasets.core.blind import blind_levels
from ...hub_datasets.core.evaluation import captions_of
from ...hub_datasets.core.examples import TaskData, check_reference, load_examples
from ...metrics.common.errors import DataError, ModelError, PredictionsError
from ...metrics.evaluation import PredictionFiles
from ...metrics.records.predictions import Predictions, read_predictions, write_predictions
from ...metrics.records.results import code_version
from ...metrics.records.schema import Row
from .cache import open_cache
from .chunks import PartStore
from .distributed import Processes, available_cpus, default_device, join
from .estimate import Prediction, changed_decisions
from .estimate import predict as predict_time
from .families import load_model
from .pipeline import Pipeline
from .plan import ScoringPlan, run_key
from .progress import Progress
from .protocol import DualEncoder, LoadOptions, Model, PredictionsSource, TextScorer, abilities
from .rows import score_work

DEFAULT_MODEL = "demo-clip"
DEFAULT_BENCHMARKS = ("toy_scenes",)
_LIBRARIES = (
    "torch", "torchvision", "transformers", "tokenizers", "open_clip_torch",
    "accelerate", "datasets", "numpy", "pillow",
)  # fmt: skip
# On CPUs larger batches leave the cache and are slower: 17 images a second of ViT-B/32 at 32, 12 at 64, on 2 cores.
BATCH_SIZES = {"cpu": 32, "mps": 32, "cuda": 128}


def predict(
    model: str | Model = DEFAULT_MODEL,
    benchmarks: str | Iterable[str] = DEFAULT_BENCHMARKS,
    *,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    seeds: Iterable[int] = (),
    batch_size: int | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    settings: Mapping[str, str] | None = None,
    compile: bool = False,
    workers: int | None = None,
    cache: bool | None = None,
    check_precision: int = 0,
    progress: bool = True,
) -> PredictionFiles:
    """Run a model on benchmarks and write one file of predictions for each task.

    Started in several processes (``torchrun``, ``accelerate launch``), they share the work. A run that was killed
    goes on when the same call is made again.

    Args:
        model: a model's name (see `load_model`), or a model that follows a protocol; what it says of itself (`info`)
            is all by which a run that goes on knows it.
        benchmarks: names, parts of benchmarks or dataset folders (see `load_examples`).
        out: folder of the files; by default `default_folder` of the model's name.
        data_dir: the user's own copy of the benchmarks' sources.
        options: fields of the builders' configurations, such as ``{"allow_missing": True}``.
        seeds: seeds of the benchmarks' builders, each with a file of its own; by default the one of `options`.
        batch_size: how many images or texts the model takes at once; by default what suits the device, and less where
            its memory does not hold that. In float32 it changes no decision.
        dtype: type of the model's weights and activations.
        revision: branch, tag or commit of the model's Hub repository.
        settings: what the model's family lets one choose, such as ``{"head": "itc"}``.
        compile: whether `torch.compile` translates the model first, for a model named by a text.
        workers: how many processes decode and prepare images beside each process of the run; by default none on a CPU,
            where threads do, and up to 8 for a GPU.
        cache: whether embeddings are kept on the disk, and those kept are used; by default for models named by a
            text, since others may change without changing what they say of themselves.
        check_precision: of how many examples of each task to count the decisions that differ from float32; the counts
            stand in the predictions. Needs a model named by a text.
        progress: show progress bars and a summary of the work.

    Returns:
        The paths of the files, in the order of the benchmarks and seeds, as a sequence that can be looked into and
        evaluated. Every process returns them, one writes them.

    Raises:
        VLAssayError: an unknown name, data or a model that cannot be used, a full disk; what was finished stays.
    """
    if batch_size is not None and batch_size < 1:
        raise ModelError(f"the batch size is {batch_size}; it must be 1 or more")
    if check_precision and not isinstance(model, str):
        raise ModelError("check_precision loads the model again, in float32: name it by a text")
    processes, clock = join(), _Clock()
    with processes.raise_on_all_ranks():
        references = _references(benchmarks)
    with clock("model"), processes.raise_on_all_ranks():
        load_options = _load_options(model, processes, dtype, revision, settings, compile)
        loaded = load_model(model, load_options) if isinstance(model, str) else model
    if check_precision and isinstance(loaded, PredictionsSource):
        raise ModelError(f"{loaded.info.name} has been computed elsewhere: check_precision cannot compute it again")
    with clock("data"):
        chosen = list(dict.fromkeys(seeds))
        tasks = _load_seeds(references, loaded, data_dir, options, chosen, processes)
        work = ScoringPlan(tasks)
    out = Path(out) if out is not None else default_folder(loaded.info.name)
    paths = [out / f"{_predictions_name(task, with_seed=bool(chosen))}.parquet" for task in tasks]
    with processes.raise_on_all_ranks():
        _refuse_to_overwrite(paths, tasks, loaded)
    bars = Progress(show=progress and processes.is_main)
    device, libraries = _device(loaded), _libraries()
    store = PartStore(out / ".unfinished" / run_key(asdict(loaded.info), {**libraries, "device": device}, work))
    workers = _default_workers(device) if workers is None else workers
    stages = Pipeline(loaded.info.name, store, processes, bars, batch_size or _batch_size(device), workers)
    with clock("scores"), closing(stages.decoder):
        if isinstance(loaded, PredictionsSource):
            with processes.raise_on_all_ranks():
                results, found = loaded.results(work)
            bars.say(", ".join(f"{fact.replace('_', ' ')}: {count:,}" for fact, count in found.items()))
        else:
            bars.say(work.summary())
            keep = (isinstance(model, str) if cache is None else cache) and isinstance(loaded, DualEncoder)
            embeddings = open_cache(loaded.info, device, libraries, store, processes, keep=keep)
            results, found = score_work(loaded, work, stages, embeddings)
    processes.wait()  # until each has read all parts
    with processes.raise_on_all_ranks():
        if processes.is_main:
            if check_precision:
                exact = load_model(str(model), replace(load_options, dtype="float32"))
                found |= changed_decisions(loaded, exact, tasks, batch_size=stages.batch_size, size=check_precision)
                changes, compared = found["precision_changes"], found["precision_sample"]
                bars.say(f"{changes} of {compared} decisions differ between {dtype} and float32")
            facts = {**found, **_facts(processes, clock, work, stages), "libraries": libraries, "device": device}
            for number, (path, task) in enumerate(zip(paths, tasks, strict=True)):
                write_predictions(path, _one(loaded, task, results.rows(number), facts))
            store.remove()
    return PredictionFiles(paths, metrics_of, captions_of)


score = predict


def plan(
    model: str | Model = DEFAULT_MODEL,
    benchmarks: str | Iterable[str] = DEFAULT_BENCHMARKS,
    *,
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    batch_size: int | None = None,
    dtype: str = "float32",
    revision: str | None = None,
    settings: Mapping[str, str] | None = None,
    compile: bool = False,
    devices: int = 1,
) -> Prediction:
    """Predict what `predict` with the same arguments would take, from a sample of the work; writes nothing.

    Args:
        devices: how many devices would share the work, each like this one.
        model, benchmarks, data_dir, options, batch_size, dtype, revision, settings, compile: as for
            `predict`.

    Raises:
        VLAssayError: as `predict`.
    """
    if devices < 1:
        raise ModelError(f"the number of devices is {devices}; it must be 1 or more")
    references = _references(benchmarks)
    if isinstance(model, str):
        model = load_model(model, _load_options(model, Processes(), dtype, revision, settings, compile))
    if isinstance(model, PredictionsSource):
        raise ModelError(f"{model.info.name} has been computed elsewhere: there is nothing to predict")
    tasks = _load_data(references, model, data_dir, options, Processes())
    return predict_time(model, tasks, batch_size=batch_size or _batch_size(_device(model)), devices=devices)


def _references(benchmarks: str | Iterable[str]) -> list[str]:
    """The benchmarks as a list; an unknown name is told before anything is loaded."""
    references = [benchmarks] if isinstance(benchmarks, str) else list(benchmarks)
    for reference in references:
        check_reference(reference)
    return references


def _device(model: Model) -> str:
    return str(getattr(model, "device", "cpu"))


def _default_workers(device: str) -> int:
    if not device.startswith("cuda"):
        return 0
    return min(8, available_cpus() - 1)


def _batch_size(device: str) -> int:
    return BATCH_SIZES.get(device.partition(":")[0], 32)


def default_folder(model: str) -> Path:
    """Where the results of a model go when no folder is named: ``vl-assay-results/<model>``."""
    return Path("vl-assay-results") / re.sub(r"[^\w.-]+", "--", model).strip(".-")


class _Clock:
    """Seconds spent in the phases of a run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[phase] = round(time.perf_counter() - start, 3)


def _load_seeds(
    references: list[str],
    model: Model,
    data_dir: str | Path | None,
    options: Mapping[str, Any] | None,
    seeds: list[int],
    processes: Processes,
) -> list[TaskData]:
    """The tasks for each seed of the builders, or as they are by default where there are no seeds."""
    if not seeds:
        return _load_data(references, model, data_dir, options, processes)
    for reference in references:
        name = reference.partition("/")[0]
        if name not in benchmark_names() or "seed" not in option_names(name):
            raise DataError(f"{reference} has no seed to choose; give seeds for benchmarks that are drawn at random")
    by_seed = [_load_data(references, model, data_dir, {**(options or {}), "seed": n}, processes) for n in seeds]
    # Only what a seed changes is predicted again.
    tasks: dict[tuple[str, str, str], TaskData] = {}
    for task in (task for same in zip(*by_seed, strict=True) for task in same):
        tasks.setdefault((task.benchmark, task.task.name, task.fingerprint), task)
    return [*tasks.values()]


def _load_data(
    references: list[str],
    model: Model,
    data_dir: str | Path | None,
    options: Mapping[str, Any] | None,
    processes: Processes,
) -> list[TaskData]:
    """All tasks that the model can be given; the main process first, so that no two build the same dataset."""
    tasks: list[TaskData] = []
    task_types, needs_images = abilities(model), not isinstance(model, PredictionsSource)
    if not task_types:
        raise ModelError(
            f"{model.info.name} follows none of the protocols in model_wrappers/engine/protocol.py: a method or an "
            "attribute of theirs is missing"
        )
    for turn in (processes.is_main, not processes.is_main):
        with processes.raise_on_all_ranks():
            if turn:
                for reference in references:
                    found = load_examples(
                        reference, task_types=task_types, data_dir=data_dir, options=options, needs_images=needs_images
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
        raise ModelError(
            f"{model} does {' and '.join(task_types)}, but {reference} {asks}; `vl-assay list` shows the tasks"
        )


def _refuse_to_overwrite(paths: list[Path], tasks: list[TaskData], model: Model) -> None:
    """Raise where a predictions file of another model, revision or dataset would be replaced."""
    for path, task in zip(paths, tasks, strict=True):
        try:
            found = read_predictions(path).metadata
        except PredictionsError:
            continue  # none there, or one that nobody can read
        ours = {"name": model.info.name, "revision": model.info.revision, "dtype": model.info.dtype}
        theirs = {key: found["model"].get(key) for key in ours}
        data = found["benchmark"].get("fingerprint")
        if theirs != ours or data != task.fingerprint:
            what = f"{theirs}" if theirs != ours else f"another version of the data ({data})"
            raise PredictionsError(
                f"{path} holds scores of {what}; name another folder with --out, or move the predictions file away"
            )


def _load_options(
    model: str | Model,
    processes: Processes,
    dtype: str,
    revision: str | None,
    settings: Mapping[str, str] | None,
    compile: bool,
) -> LoadOptions:
    on_cpu = not isinstance(model, str) or model.startswith("mock:")
    device = "cpu" if on_cpu else default_device(processes.rank)
    return LoadOptions(device, dtype, revision, dict(settings or {}), compile)


def _predictions_name(task: TaskData, with_seed: bool = False) -> str:
    name = f"{task.benchmark}.{task.task.name if task.configs == task.task.configs else '+'.join(task.configs)}"
    return f"{name}.seed-{task.options['seed']}" if with_seed else name


def _one(model: Model, task: TaskData, rows: list[Row], facts: dict[str, Any]) -> Predictions:
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
    about = asdict(model.info)
    if isinstance(model, TextScorer):
        about |= {"is_baseline": True, "sees_images": False}
    return Predictions(rows, {"task_type": task.task.task_type, "benchmark": benchmark, "model": about, "run": facts})


def _facts(processes: Processes, clock: _Clock, work: ScoringPlan, stages: Pipeline) -> dict[str, Any]:
    """Where and how the scores were made, for the predictions file's metadata."""
    return {
        "code": code_version(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": sys.modules["torch"].get_num_threads() if "torch" in sys.modules else 1,
        "processes": processes.world,
        "batch_size": stages.batch_size,
        "seed": None,  # nothing in scoring is drawn at random
        "images": len(work.images),
        "captions": len(work.captions.texts),
        "seconds": clock.seconds,
        "stages": stages.seconds,
    }


def _libraries() -> dict[str, str]:
    """The versions of everything that scores depend on."""
    found = {"vl-assay": code_version()}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
