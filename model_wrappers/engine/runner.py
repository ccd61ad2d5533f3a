"""The runner: from a model and benchmarks to predictions and reports.

Every distinct image (by content) and text of a run is encoded once, in batches as large as the device likes; images are
decoded by other processes or threads while the model computes. Results go to a store under the content keys of their
items, so a killed run resumes where it stopped, also with another number of processes.

Near-ties, scores whose difference is within the rounding error, are re-checked: their images and captions are encoded
again one at a time in float64. So in float32 no decision depends on the batch size or the number of processes, and
captions that are identical to the model tie exactly. Retrieval sets and boxes are not re-checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ...hub_datasets import report
from ...metrics.common.errors import ModelError
from ...metrics.common.storage import check_writable
from ...metrics.records.predictions import prediction_files
from ...metrics.results.compute import check_options
from ...metrics.results.report import PredictionFiles, Report
from .config import RunConfig
from .distributed import join
from .families import DEFAULT_MODEL, check_model
from .job import AnyModel, Job, WorkPlan, checked_references
from .output import default_folder
from .protocol import RequestPlan
from .ray_engine import predict_on_ray
from .shards import Shard, collect

DEFAULT_BENCHMARKS = ("toy_scenes",)


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
    results = report(paths, ties=ties, confidence=confidence)
    results.write(files[0].parent)
    return results


def with_earlier(files: Sequence[Path]) -> list[Path]:
    """Return files of predictions, followed by all others in the folder of the first."""
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

    Processes started by ``accelerate launch`` or ``torchrun`` share the work. A run that was killed resumes when the
    same call is made again. Scores of a model given by name are cached, so that later runs do not compute them again.

    Args:
        model: a model's name (see `load_model`), or an object that implements a protocol; an object is identified only
            by its `info`, also when a run resumes.
        benchmarks: names, parts of benchmarks or dataset folders (see `load_examples`).
        out: folder of the files; by default `default_folder` of the model's name.
        seeds: seeds of the benchmarks' builders, with separate files; by default the seed of the option.
        config: everything else; see `RunConfig`.
        changes: fields of `RunConfig`, for example ``dtype="bfloat16"``; they replace the fields of `config`.

    Returns:
        The paths of the files, by benchmark and seed, as a sequence that can be inspected and evaluated; the same in
        every process, though only one writes. With ``shard`` it is empty: `merge` writes the files.

    Raises:
        VLAssayError: an unknown name, unusable data or model, a full disk; finished work is kept.
    """
    config = RunConfig.of(config, changes)
    folder, seeds = None if out is None else Path(out), list(seeds)
    with join().raise_on_all_ranks():
        check_writable(folder or default_folder(""))
        if isinstance(model, str):
            check_model(model)
    if config.engine:
        if config.shard is not None or not isinstance(model, str):
            raise ModelError("the engine ray takes a model by its name, and no shard: it cuts the run itself")
        references = checked_references(benchmarks, seeds, config)
        return predict_on_ray(model, references, folder or default_folder(model), seeds, config)
    shard = Shard.parse(config.shard) if config.shard else None
    return Job(model, benchmarks, seeds, config).predict(folder, shard=shard)


def merge(
    *folders: str | Path, out: str | Path, data_dir: str | Path | None = None, progress: bool = True
) -> PredictionFiles:
    """Write the predictions of a run from the results of all its shards; they equal `predict`'s without shards.

    The model is loaded to re-check near-ties, so this machine has to be of the same kind as the shards' machines.

    Args:
        folders: the output folders of the shards, or folders that hold them, in any order.
        out: folder of the predictions.
        data_dir: as for `predict`, if the folder is another one on this machine.
        progress: whether to show progress bars.

    Raises:
        DataError: shards are missing or damaged; the message names them.
        PredictionsError: the shards are of several runs, or were made on another kind of machine or other data.
        VLAssayError: as `predict`.
    """
    out = Path(out)
    check_writable(out)
    record, shards = collect([Path(folder) for folder in folders], out)
    known = {field.name for field in fields(RunConfig)}
    arguments = {name: value for name, value in record.config.items() if name in known}
    arguments |= {"shard": None, "progress": progress, "data_dir": data_dir or record.config["data_dir"]}
    job = Job(record.model, record.benchmarks, record.seeds, RunConfig(**arguments))
    record.check_same_run(job.record())
    return job.predict(out, merged=shards)


def plan(
    model: str | AnyModel = DEFAULT_MODEL,
    benchmarks: str | Iterable[str] = DEFAULT_BENCHMARKS,
    *,
    config: RunConfig | None = None,
    **changes: Any,
) -> WorkPlan | RequestPlan:
    """Count what `predict` would compute with the same arguments, without computing or writing anything.

    For a model behind a server, count the requests that a run would send, without sending any.

    Args:
        model, benchmarks, config, changes: as for `predict`.

    Raises:
        VLAssayError: as `predict`.
    """
    if isinstance(model, str):
        check_model(model)
    return Job(model, benchmarks, (), replace(RunConfig.of(config, changes), progress=False)).count()
