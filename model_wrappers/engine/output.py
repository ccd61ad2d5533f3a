"""The files of predictions that a run writes, and the facts about the run in their metadata."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ...hub_datasets.authoring.audit.blind import blind_levels
from ...hub_datasets.core.benchmarks import get_benchmark, parts_of
from ...hub_datasets.core.examples import TaskData
from ...metrics.common.errors import PredictionsError
from ...metrics.records.predictions import Predictions, read_predictions, write_predictions
from ...metrics.records.results import code_version
from .plan import ScoringPlan
from .protocol import ModelInfo, TextScorer
from .results import Results
from .stages import Stages

_LIBRARIES = (
    "torch", "torchvision", "transformers", "tokenizers", "open_clip_torch",
    "accelerate", "datasets", "numpy", "pillow",
)  # fmt: skip


def default_folder(model: str) -> Path:
    """Return the default folder of a model's results: ``vl-assay-results/<model>``."""
    return Path("vl-assay-results") / re.sub(r"[^\w.-]+", "--", model).strip(".-")


def predictions_name(task: TaskData, *, with_seed: bool = False) -> str:
    """Return the name of a task's file, without its ending."""
    [(first, _)] = get_benchmark(task.benchmark).select(task.benchmark, task.configs[0])
    shared = [task.task.name] if first.name != task.task.name else []  # another task scores the same configurations
    part = task.task.name if task.configs == task.task.configs else "+".join([*shared, *task.configs])
    name = f"{task.benchmark}.{part}"
    return f"{name}.seed-{task.options['seed']}" if with_seed else name


def refuse_to_overwrite(paths: Sequence[Path], tasks: Sequence[TaskData], info: ModelInfo) -> None:
    """Raise PredictionsError if predictions of another model, revision or dataset would be replaced."""
    for path, task in zip(paths, tasks, strict=True):
        try:
            metadata = read_predictions(path).metadata
        except PredictionsError:
            continue  # no such file, or not readable
        ours = {"name": info.name, "revision": info.revision, "dtype": info.dtype}
        theirs = {key: metadata["model"].get(key) for key in ours}
        data = metadata["benchmark"].get("fingerprint")
        if theirs != ours or data != task.fingerprint:
            difference = f"{theirs}" if theirs != ours else f"another version of the data ({data})"
            raise PredictionsError(
                f"{path} holds scores of {difference}; name another folder with --out, or move the file away"
            )


def write_task(path: Path, model: Any, results: Results, number: int, facts: dict[str, Any]) -> None:
    """Write the predictions of task number `number` of a plan."""
    task, rows = results.plan.tasks[number], results.rows(number)
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
    if parts := [
        (benchmark_part, task.select(benchmark_part)) for benchmark_part in parts_of(task.benchmark, task.task.name)
    ]:
        benchmark["blind_parts"] = {
            benchmark_part.name: blind_levels(data) for benchmark_part, data in parts if data.examples
        }
    if task.is_partial:
        benchmark["limit"] = task.limit
    if task.hub:
        benchmark["hub"] = task.hub
    about = asdict(model.info)
    if isinstance(model, TextScorer):
        about |= {"is_baseline": True, "sees_images": False}
    metadata = {"task_type": task.task.task_type, "benchmark": benchmark, "model": about, "run": facts}
    write_predictions(path, Predictions(rows, metadata))


def run_facts(model: Any, stages: Stages, plan: ScoringPlan, seconds: dict[str, float]) -> dict[str, Any]:
    """Return how the scores were computed, for the metadata of the predictions."""
    return {
        "code": code_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": sys.modules["torch"].get_num_threads() if "torch" in sys.modules else 1,
        "processes": stages.processes.world,
        "batch_size": stages.batch_size,
        "seed": None,  # nothing in scoring is drawn at random
        "images": len(plan.images),
        "captions": len(plan.captions.texts),
        "seconds": seconds,
        "stages": stages.seconds,
        "libraries": libraries(),
        "device": device_of(model),
    }


def libraries() -> dict[str, str]:
    """Return the versions of everything that the scores depend on."""
    versions = {"vl-assay": code_version()}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def device_of(model: Any) -> str:
    """Return the name of a model's device."""
    return str(getattr(model, "device", "cpu"))
