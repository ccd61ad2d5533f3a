"""The trainer: from a dual encoder, captions and a recipe to a folder that is a model again.

The loss sees the whole batch of all processes, whatever fits into memory: each process encodes its share in parts of
`micro_batch` captions, by cached gradients. A run that was killed goes on from its last checkpoint when the same call
is made again; with one process on a CPU it ends with the same bits as an undisturbed one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError, ModelError
from ....metrics.common.storage import alone_in, write_text
from ....metrics.records.results import Result, read_results
from ...engine.distributed import Processes, default_device, join
from ...engine.families import load_model
from ...engine.protocol import LoadOptions
from ..data.data import TrainingSet, read_training_set
from ._cards import finish_folder
from .checkpoints import read_json
from .logging import check_trackers
from .recipes import Recipe, get_recipe
from .run import PRECISIONS, Run
from .towers import Trainable, trainable
from .validation import Evaluation, Stopping

__all__ = ["Evaluation", "Outcome", "Stopping", "TrainingConfig", "finetune"]

_MOST_NAMED = 5


@dataclass(frozen=True)
class TrainingConfig:
    """How a recipe is run; of these only the precision and the stopping change what comes out, beyond rounding.

    A model with dropout is an exception: what it drops depends on how many captions are encoded at once, and by how
    many processes. The card says both.

    Args:
        precision: of the arithmetic, ``"float32"`` or ``"bfloat16"``; the weights are kept in float32.
        micro_batch: how many captions each process encodes at once, with their negatives and positives; by default 32
            on a CPU and 256 on a GPU.
        gradient_checkpointing: whether activations are computed twice to save memory.
        save_steps: a checkpoint is written after so many steps, and after each epoch.
        workers: threads that prepare images; by default 8, or one for each CPU where there are fewer.
        trackers: ``"tensorboard"``, ``"trackio"``; a log of JSON lines is written always.
        evaluation: what to measure before the first epoch and after each.
        stopping: when to stop early.
    """

    precision: str = "float32"
    micro_batch: int | None = None
    gradient_checkpointing: bool = False
    save_steps: int = 500
    workers: int | None = None
    trackers: tuple[str, ...] = ()
    evaluation: Evaluation = field(default_factory=Evaluation)
    stopping: Stopping = field(default_factory=Stopping)

    def check(self) -> None:
        """Refuse what cannot be done, before anything is loaded.

        Raises:
            ModelError, UnknownNameError: a value outside its range; a tracker that is not there.
        """
        if self.precision not in PRECISIONS:
            raise ModelError(f"precision is {self.precision!r}; it must be one of {', '.join(PRECISIONS)}")
        for name in ("micro_batch", "save_steps", "workers"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ModelError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.stopping.score is not None and not self.evaluation:
            raise ModelError(f"stopping on {self.stopping.score!r} needs an evaluation that has this score")
        check_trackers(self.trackers)


@dataclass(frozen=True)
class Outcome:
    """What a run left.

    Attributes:
        folder: the model.
        history: the evaluations on the way, the first before any training: ``{"epoch", "step", "scores"}``.
        results: those of the saved model on the benchmarks of the evaluation.
    """

    folder: Path
    history: list[dict[str, Any]]
    results: list[Result]


def finetune(
    model: str,
    data: str | Path | TrainingSet,
    out: str | Path,
    recipe: str | Recipe = "negclip",
    *,
    running: TrainingConfig | None = None,
    revision: str | None = None,
    settings: Mapping[str, str] | None = None,
    progress: bool = True,
    **source: Any,
) -> Outcome:
    """Fine-tune a dual encoder and save it as a folder of the same kind, with a card.

    Started in several processes (``torchrun``, ``accelerate launch``), they share each batch. The same call again goes
    on from the last checkpoint in ``out/training``, or returns what is finished.

    Args:
        model: a model's name (see `load_model`), of a dual encoder.
        data: captions and images (see `data.read_training_set`), or a set that has been read.
        out: the folder of the new model; beside the model it has a folder ``training`` with the log, the evaluations'
            predictions and, until the end, checkpoints.
        recipe: a recipe, or the name of one.
        running: how to run it.
        revision, settings: of the model, see `LoadOptions`.
        progress: whether to show progress.
        source: further arguments of `data.read_training_set`, such as `columns`, `split`, `files` and `limit`. Kinds
            of negatives and positives come from the recipe, and only those that a loss looks at are made.

    Raises:
        VLAssayError: a model, data or an option that cannot be used; ``out`` holds something else.
        TrainingError: the loss or a gradient is no number any more. The last checkpoint stays as it was.
        StorageError: no space is left. The last checkpoint stays as it was.
    """
    recipe = get_recipe(recipe) if isinstance(recipe, str) else recipe
    running, out, processes = running or TrainingConfig(), Path(out), join()

    def load() -> Trainable:
        options = LoadOptions(default_device(processes.rank), "float32", revision, dict(settings or {}))
        return trainable(load_model(model, options))

    with processes.raise_on_all_ranks():
        running.check()
        encoder = load()
    training_set = _read(data, recipe, processes, source)
    facts = {
        "model": asdict(encoder.info),
        "recipe": recipe.as_json(),
        "precision": running.precision,
        "evaluation": running.evaluation.asked(),
        "stopping": asdict(running.stopping),
        "data": {**training_set.summary(), "fingerprint": training_set.fingerprint},
    }
    folder = out / "training"
    with ExitStack() as held:
        with processes.raise_on_all_ranks():
            if processes.is_main:
                _refuse_foreign(out)
                held.enter_context(alone_in(folder))
                _claim(out, folder, facts)
        if not (folder / "finished.json").exists():
            run = Run(encoder, load, training_set, recipe, running, folder, facts, processes, progress)
            run.train()
            finish_folder(run, out, facts, settings)
        finished = _finished(out, folder / "finished.json")
    results = read_results(folder / "results.json") if running.evaluation.benchmarks else []
    return Outcome(out, finished["history"], results)


def _refuse_foreign(out: Path) -> None:
    """Raise where a folder is something else than a run's, before anything is written into it."""
    if out.exists() and not out.is_dir():
        raise DataError(f"{out} is a file; name a new folder for the fine-tuned model")
    if not (out / "training" / "run.json").exists() and any(path.name != "training" for path in out.glob("*")):
        raise DataError(f"{out} is not empty; name a new folder for the fine-tuned model")


def _finished(out: Path, file: Path) -> dict[str, Any]:
    """What a finished run left to say.

    Raises:
        DataError: its model is not there any more.
    """
    finished = read_json(file, out)
    gone = [name for name in finished["files"] if not (out / name).exists()]
    if gone:
        raise DataError(
            f"the run in {out} was finished, and {', '.join(gone)} of its model is gone; put it back, or remove the "
            "folder to train anew"
        )
    return finished


def _read(
    data: str | Path | TrainingSet, recipe: Recipe, processes: Processes, source: Mapping[str, Any]
) -> TrainingSet:
    """The training set; the main process first, so that no two build the same dataset."""
    found: TrainingSet | None = data if isinstance(data, TrainingSet) else None
    for turn in (processes.is_main, not processes.is_main):
        with processes.raise_on_all_ranks():
            if turn and found is None:
                found = read_training_set(
                    str(data),
                    negatives=recipe.negatives if recipe.uses_negatives else (),
                    positives=recipe.positives if recipe.uses_positives else (),
                    seed=recipe.seed,
                    **source,
                )
    assert found is not None
    summary = found.summary()
    for kind, uses in (("negative", recipe.uses_negatives), ("positive", recipe.uses_positives)):
        if uses and not summary[f"with_{kind}"]:
            raise DataError(
                f"none of the {len(found.samples)} captions of {found.reference} has a {kind}, which {recipe.name} "
                f"needs; name kinds to make (--set {kind}s=…), a file of candidates, or the column that has them"
            )
    return found.with_negatives() if recipe.needs_negative else found


def _claim(out: Path, folder: Path, facts: Mapping[str, Any]) -> None:
    """Make the folder this run's, or raise where it is another's that has come somewhere."""
    file = folder / "run.json"
    other: list[str] = []
    if file.exists():
        other = list(_differences(read_json(file, out), json.loads(json.dumps(facts))))
    if other and not (folder / "finished.json").exists() and not any((folder / "checkpoints").glob("step-*")):
        for path in folder.iterdir():
            if path.name != ".lock":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        other = []
    if not file.exists():
        write_text(file, json.dumps(facts, indent=1, sort_keys=True) + "\n")
    if len(other) > _MOST_NAMED:
        other = [*other[:_MOST_NAMED], "more"]
    if other:
        raise DataError(
            f"{out} holds a run with another {' and '.join(other)}, as {file} says; name a new folder, or make the "
            "same call again"
        )


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    """What differs, such as ``recipe.epochs``."""
    for name, value in ours.items():
        known = theirs.get(name) if isinstance(theirs, dict) else None
        if isinstance(known, dict) and isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in _differences(known, value))
        elif known != value:
            yield name
