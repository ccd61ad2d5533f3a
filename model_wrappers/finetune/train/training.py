"""Fine-tune a dual encoder with a recipe, and save it as a model folder.

The loss sees the whole batch of all processes, of which each encodes its share. A run that was killed resumes from its
last checkpoint when the same call is made again; with one process on a CPU the result equals an uninterrupted run bit
by bit.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ....hub_datasets import compare
from ....hub_datasets.core.examples import check_reference
from ....hub_datasets.hub.model_cards import write_model_card
from ....hub_datasets.sources.availability import check_sources
from ....metrics.common.errors import DataError
from ....metrics.common.storage import alone_in, check_writable, write_text
from ....metrics.records.results import Result, read_results, write_results
from ....metrics.results.compare import Comparison
from ...engine.distributed import Processes, default_device, join
from ...engine.families import check_model, get_family, load_model
from ...engine.protocol import LoadOptions
from ..data.training_set import TrainingSet, read_training_set
from .checkpoints import checkpoint_folders, read_json
from .config import TrainingConfig
from .loop import TrainingLoop
from .model_card import model_card
from .recipes import Recipe, get_recipe
from .towers import restarted, trainable
from .validation import Evaluation

__all__ = ["Evaluation", "TrainingConfig", "TrainingOutcome", "finetune"]


@dataclass(frozen=True)
class TrainingOutcome:
    """The result of a run.

    Attributes:
        folder: the model.
        history: the evaluations during training, the first before it: ``{"epoch", "step", "scores"}``.
        results: the saved model's results on the benchmarks of the evaluation.
        comparison: of the saved model with the one before training, on the same examples; None without benchmarks, and
            in processes other than the main one.
    """

    folder: Path
    history: list[dict[str, Any]]
    results: list[Result]
    comparison: Comparison | None = None


def finetune(
    model: str,
    data: str | Path | TrainingSet,
    out: str | Path,
    recipe: str | Recipe = "negclip",
    *,
    config: TrainingConfig | None = None,
    evaluation: Evaluation | None = None,
    on_step: Callable[[int, Mapping[str, Any]], None] | None = None,
    revision: str | None = None,
    settings: Mapping[str, str] | None = None,
    progress: bool = True,
    **source: Any,
) -> TrainingOutcome:
    """Fine-tune a dual encoder and save it as a folder of the same family, with a model card.

    Processes started by ``torchrun`` or ``accelerate launch`` share each batch. The same call again resumes from the
    last checkpoint in ``out/training``, or returns the finished run.

    Args:
        model: the name of a dual encoder (see `load_model`).
        data: captions and images (see `read_training_set`), or a training set.
        out: the folder of the new model; its folder ``training`` has the log, the predictions of evaluations and,
            until the end, checkpoints.
        recipe: a recipe, or the name of one.
        config: how to run it.
        evaluation: what is measured before the first epoch and after each.
        on_step: is called after each step with its number and logged values, in every process. If it raises, the run
            stops, and the same call resumes it.
        revision, settings: of the model, see `LoadOptions`.
        progress: whether to show progress.
        source: further arguments of `read_training_set`, such as `columns`, `split`, `files` and `limit`. Kinds of
            negatives and positives come from the recipe, and only kinds that a loss uses are made.

    Raises:
        VLAssayError: a model, data or an option that cannot be used; ``out`` holds something else.
        TrainingError: the loss or a gradient is not finite. The last checkpoint is intact.
        StorageError: no space is left. The last checkpoint is intact.
    """
    recipe = get_recipe(recipe) if isinstance(recipe, str) else recipe
    config, out, processes = config or TrainingConfig(), Path(out), join()
    evaluation = evaluation or Evaluation()
    with processes.raise_on_all_ranks():
        config.check()
        _check_out(out)
        check_model(model)
        for reference in evaluation.benchmarks:
            check_reference(reference)
        check_sources(evaluation.benchmarks, data_dir=evaluation.data_dir, options=evaluation.options)
        load_options = LoadOptions(default_device(processes.rank), "float32", revision, dict(settings or {}))
        encoder = trainable(load_model(model, load_options))
        if recipe.random_start:
            encoder = restarted(encoder, recipe.seed)
    training_set = _read(data, recipe, processes, source)
    facts = {
        "model": asdict(encoder.info),
        "recipe": recipe.as_json(),
        "precision": config.precision,
        "evaluation": list(evaluation.benchmarks),
        "data": {**training_set.summary(), "fingerprint": training_set.fingerprint},
    }
    folder = out / "training"
    with ExitStack() as held:
        with processes.raise_on_all_ranks():
            if processes.is_main:
                held.enter_context(alone_in(folder))
                _claim(out, folder, facts)
        if not (folder / "finished.json").exists():
            loop = TrainingLoop(encoder, training_set, recipe, config, evaluation, folder, facts, processes, progress)
            loop.train(on_step)
            _finish(loop, out, facts, settings)
        history = read_json(folder / "finished.json", out)["history"]
    results = read_results(folder / "results.json") if evaluation.benchmarks else []
    comparison = None
    before = folder / "evaluations" / "epoch-0"
    if results and processes.is_main and before.is_dir():
        comparison = compare(folder / "predictions", before)
        comparison.write(folder)
    return TrainingOutcome(out, history, results, comparison)


def _read(
    data: str | Path | TrainingSet, recipe: Recipe, processes: Processes, source: Mapping[str, Any]
) -> TrainingSet:
    """Read the training set; the main process first, so that a dataset is built once."""
    kinds = {
        "negatives": recipe.negatives if recipe.uses_negatives else (),
        "positives": recipe.positives if recipe.uses_positives else (),
    }
    training_set: Any = data if isinstance(data, TrainingSet) else None
    for turn in (processes.is_main, not processes.is_main):
        with processes.raise_on_all_ranks():
            if turn and training_set is None:
                training_set = read_training_set(str(data), **kinds, seed=recipe.seed, **source)
    summary = training_set.summary()
    needs = {"negative": recipe.uses_negatives or recipe.needs_negative, "positive": recipe.uses_positives}
    for kind, is_needed in needs.items():
        if is_needed and not summary[f"with_{kind}"]:
            raise DataError(
                f"none of the {len(training_set.samples)} captions of {training_set.reference} has a {kind}, which "
                f"{recipe.name} needs; name kinds to make (--set {kind}s=…), a file of candidates, or the column that "
                "has them"
            )
    training_set = training_set.frozen(recipe.seed) if recipe.frozen else training_set
    return training_set.with_negatives() if recipe.needs_negative else training_set


def _check_out(out: Path) -> None:
    """Check that a folder is new, empty, or holds a run."""
    check_writable(out)
    if not (out / "training" / "run.json").exists() and any(path.name != "training" for path in out.glob("*")):
        raise DataError(f"{out} is not empty; name a new folder for the fine-tuned model")


def _claim(out: Path, folder: Path, facts: Mapping[str, Any]) -> None:
    """Make the folder this run's; raise if another run has a checkpoint there or is finished."""
    file = folder / "run.json"
    if file.exists():
        changed = [*_differences(read_json(file, out), json.loads(json.dumps(facts)))]
        if changed and ((folder / "finished.json").exists() or checkpoint_folders(folder)):
            raise DataError(
                f"{out} holds a run with another {' and '.join(changed[:5])}, see {file}; name a new folder, or make "
                "the same call again"
            )
        for path in folder.iterdir() if changed else ():
            if path.name != ".lock":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    write_text(file, json.dumps(facts, indent=1, sort_keys=True) + "\n")


def _differences(theirs: Any, ours: Mapping[str, Any]) -> Iterator[str]:
    """The names of different values, such as ``recipe.epochs``."""
    for name, value in ours.items():
        known = theirs.get(name) if isinstance(theirs, dict) else None
        if isinstance(known, dict) and isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in _differences(known, value))
        elif known != value:
            yield name


def _finish(loop: TrainingLoop, out: Path, facts: Mapping[str, Any], settings: Mapping[str, str] | None) -> None:
    """Save the model of a trained loop, measure it, and write its card. Every process calls it.

    The saved folder is loaded anew and evaluated as by ``vl-assay run``.
    """
    history, folder = loop.position.history, loop.folder
    loop.save_model(out)
    loop.processes.wait()
    name = str(out.resolve())  # a folder, even if it has the name of a demo checkpoint
    family = get_family(facts["model"]["family"])
    if hasattr(family, "SAVED_AS"):
        name = family.SAVED_AS.format(name)
        settings = {key: value for key, value in (settings or {}).items() if key != "pretrained"}
    _, results = loop.evaluation.measure(name, folder / "predictions", loop.processes, settings=settings)
    with loop.processes.raise_on_all_ranks():
        if loop.processes.is_main:
            write_results(folder / "results.json", results)
            details = {
                "warmup steps": str(loop.warmup),
                "precision": loop.config.precision,
                "steps": f"{loop.steps:,}",
                "trained parameters": f"{loop.trained:,}",
                "processes": str(loop.processes.world),
            }
            write_text(out / "README.md", model_card(out, facts, details, history, results))
            if results:
                write_model_card(out / "README.md", results)
            finished = {"steps": loop.position.step, "history": history}
            write_text(folder / "finished.json", json.dumps(finished, indent=1) + "\n")
            for leftover in (folder / "checkpoints", *out.glob(".model.*")):
                shutil.rmtree(leftover, ignore_errors=True)
    loop.processes.wait()
