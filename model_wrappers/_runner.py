"""The runner: from a model and benchmarks to score sheets.

Each different image (by content) and caption of all benchmarks of a run is encoded once; captions go in batches of
like length; images are decoded in threads while the model works. The work is cut into fixed parts, so a killed run
goes on where it stopped, with any number of processes.

Cosines that lie closer together than rounding can tell apart are settled: their images and captions are encoded
again, one at a time and in double precision. So in float32 no decision of a dual encoder depends on the batch size or
the number of processes, and captions that are the same to the model tie exactly.
"""

from __future__ import annotations

import platform
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..hub_datasets.examples import TaskData, check_reference, load_examples
from ..metrics.errors import DataError, ModelError, SheetError
from ..metrics.results import code_version
from ..metrics.sheets import Row, Sheet, read_sheet, write_sheet
from ._families import load_model
from ._parts import PartStore
from ._processes import Processes, default_device, join
from ._progress import Progress
from ._protocol import DualEncoder, LoadOptions, Model
from ._scoring import Stages, score_by_embeddings, score_by_pairs
from ._work import Work, run_key, scored

DEFAULT_MODEL = "demo-clip"
DEFAULT_BENCHMARKS = ("toy_scenes",)
# On CPUs larger batches leave the cache and are slower: 17 images a second of ViT-B/32 at 32, 12 at 64, on 2 cores.
DEFAULT_BATCH_SIZE = 32


def score(
    model: str | Model = DEFAULT_MODEL,
    benchmarks: str | Iterable[str] = DEFAULT_BENCHMARKS,
    *,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    dtype: str = "float32",
    revision: str | None = None,
    progress: bool = True,
) -> list[Path]:
    """Score a model on benchmarks and write one score sheet for each task.

    Started in several processes (``torchrun``, ``accelerate launch``), they share the work. A run that was killed
    goes on when the same call is made again.

    Args:
        model: a model's name (see `load_model`), or a model that follows the protocol.
        benchmarks: names, parts of benchmarks or dataset folders (see `load_examples`).
        out: folder of the sheets; by default `default_folder` of the model's name.
        data_dir: the user's own copy of the benchmarks' sources.
        options: fields of the builders' configurations, such as ``{"allow_missing": True}``.
        batch_size: how many images or captions the model takes at once; in float32 it changes no decision.
        dtype: type of the model's weights and activations.
        revision: branch, tag or commit of the model's Hub repository.
        progress: show progress bars and a summary of the work.

    Returns:
        The paths of the sheets, in the order of the benchmarks. Every process returns them, one writes them.

    Raises:
        VLAssayError: an unknown name, data or a model that cannot be used, a full disk; what was finished stays.
    """
    if batch_size < 1:
        raise ModelError(f"the batch size is {batch_size}; it must be 1 or more")
    references = [benchmarks] if isinstance(benchmarks, str) else list(benchmarks)
    processes = join()
    clock = _Clock()
    with processes.together():
        for reference in references:
            check_reference(reference)
    with clock("model"), processes.together():
        if isinstance(model, str):
            model = load_model(model, _load_options(model, processes, dtype, revision))
    assert not isinstance(model, str)
    with clock("data"):
        tasks = _load_data(references, data_dir, options, processes)
        work = Work(tasks)
    out = Path(out) if out is not None else default_folder(model.info.name)
    paths = [out / f"{_sheet_name(task)}.parquet" for task in tasks]
    with processes.together():
        _refuse_to_overwrite(paths, tasks, model)
    bars = Progress(show=progress and processes.is_main)
    bars.say(work.summary())
    libraries = _libraries()
    store = PartStore(out / ".unfinished" / run_key(asdict(model.info), libraries, work))
    with clock("scores"):
        stages = Stages(model.info.name, store, processes, bars)
        if isinstance(model, DualEncoder):
            scores, facts = score_by_embeddings(model, work, stages, batch_size)
        else:
            scores, facts = score_by_pairs(model, work, stages)
    processes.wait()
    with processes.together():
        if processes.is_main:
            facts |= _facts(processes, clock, work, batch_size)
            facts |= {"libraries": libraries, "device": str(getattr(model, "device", "cpu"))}
            matrices = work.matrices(scores)
            for path, task in zip(paths, tasks, strict=True):
                write_sheet(path, _sheet(model, task, matrices, facts))
            store.remove()
    return paths


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


def _load_data(
    references: list[str], data_dir: str | Path | None, options: Mapping[str, Any] | None, processes: Processes
) -> list[TaskData]:
    """All tasks; the main process first, so that no two build the same dataset."""
    tasks: list[TaskData] = []
    for turn in (processes.is_main, not processes.is_main):
        with processes.together():
            if turn:
                for reference in references:
                    tasks += load_examples(reference, data_dir=data_dir, options=options)
    names = [_sheet_name(task) for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{name} was asked for {names.count(name)} times; name each benchmark once")
    if not names:
        raise DataError("no benchmark was named; `vl-assay list` shows them")
    return tasks


def _refuse_to_overwrite(paths: list[Path], tasks: list[TaskData], model: Model) -> None:
    """Raise where a sheet of another model, revision or dataset would be replaced."""
    for path, task in zip(paths, tasks, strict=True):
        try:
            found = read_sheet(path).metadata
        except SheetError:
            continue  # none there, or one that nobody can read
        ours = {"name": model.info.name, "revision": model.info.revision, "dtype": model.info.dtype}
        theirs = {key: found["model"].get(key) for key in ours}
        data = found["benchmark"].get("fingerprint")
        if theirs != ours or data != task.fingerprint:
            what = f"{theirs}" if theirs != ours else f"another version of the data ({data})"
            raise SheetError(f"{path} holds scores of {what}; name another folder with --out, or move the sheet away")


def _load_options(model: str, processes: Processes, dtype: str, revision: str | None) -> LoadOptions:
    device = "cpu" if model.startswith("mock:") else default_device(processes.rank)
    return LoadOptions(device, dtype, revision)


def _sheet_name(task: TaskData) -> str:
    return f"{task.benchmark}.{task.task.name if task.configs == task.task.configs else '+'.join(task.configs)}"


def _sheet(model: Model, task: TaskData, matrices: Iterator[list[list[float]]], facts: dict[str, Any]) -> Sheet:
    complete = {example.id for example in scored(task)}
    rows = [
        Row(
            id=example.id,
            config=example.config,
            category=example.category,
            images=list(example.images),
            correct=list(range(len(example.images))),
            scores=next(matrices) if example.id in complete else None,
        )
        for example in task.examples
    ]
    benchmark = {
        "name": task.benchmark,
        "task": task.task.name,
        "configs": list(task.configs),
        "split": task.split,
        "fingerprint": task.fingerprint,
        "rows": len(rows),
        "missing": task.missing,
    }
    return Sheet(rows, {"benchmark": benchmark, "model": asdict(model.info), "run": facts})


def _facts(processes: Processes, clock: _Clock, work: Work, batch_size: int) -> dict[str, Any]:
    """Where and how the scores were made, for the sheet's metadata."""
    return {
        "code": code_version(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": sys.modules["torch"].get_num_threads() if "torch" in sys.modules else 1,
        "processes": processes.world,
        "batch_size": batch_size,
        "seed": None,  # nothing in scoring is drawn at random
        "images": len(work.images),
        "captions": len(work.captions),
        "seconds": clock.seconds,
    }


def _libraries() -> dict[str, str]:
    """The versions of everything that scores depend on."""
    found = {"vl-assay": code_version()}
    for name in ("torch", "transformers", "accelerate", "datasets", "numpy", "pillow"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
