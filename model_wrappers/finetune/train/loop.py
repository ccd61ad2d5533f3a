"""The training loop: steps, epochs, checkpoints and validation, in one or several processes."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ....metrics.common.errors import TrainingError
from ....metrics.common.storage import write_text
from ...engine.distributed import Processes
from ...engine.progress import Progress
from ...engine.stages import is_out_of_memory
from ..data.batches import BatchLoader, Drawn, TrainingBatch, draw_epoch, split, steps_per_epoch
from ..data.mining import mine
from ..data.training_set import TrainingSet
from .checkpoints import (
    Position,
    checkpoint_folders,
    read_json,
    restore_checkpoint,
    save_checkpoint,
    storage_errors,
    write_files,
)
from .config import PRECISIONS, TrainingConfig
from .gathering import average_gradients, gather_embeddings
from .lora import add_lora, merged
from .losses import BatchEmbeddings, total
from .recipes import Recipe
from .towers import Towers, freeze_unused, parameter_groups
from .validation import Evaluation


class TrainingLoop:
    """A run from its last checkpoint, if there is one, to its end.

    Args:
        encoder: the model to start from, which is changed.
        training_set: captions and images.
        recipe, config, evaluation: the recipe, how it is run, and what is measured.
        folder: of checkpoints, the log and evaluations.
        facts: identifies the run.
        processes: those that share it.
        progress: whether to show progress.
    """

    def __init__(
        self,
        encoder: Any,
        training_set: TrainingSet,
        recipe: Recipe,
        config: TrainingConfig,
        evaluation: Evaluation,
        folder: Path,
        facts: Mapping[str, Any],
        processes: Processes,
        progress: bool,
    ) -> None:
        self.recipe, self.config, self.folder, self.processes = recipe, config, folder, processes
        self.encoder, self.training_set, self.evaluation = encoder, training_set, evaluation
        self.name, self.log = folder.resolve().parent.name, folder / "log.jsonl"
        self.key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
        self.position = Position()
        self.bars = Progress(show=progress and processes.is_main)
        device = next(encoder.module.parameters()).device
        self.accelerator = _accelerator(config, device.type, folder)
        self.loader = BatchLoader(encoder, training_set, config.workers)
        neighbours = self._mine(str(device), progress) if recipe.neighbours else None
        self.draws = partial(
            draw_epoch, training_set, seed=recipe.seed, batch_size=recipe.batch_size, neighbours=neighbours
        )
        self._build()
        shown = {key: value for key, value in facts["recipe"].items() if isinstance(value, int | float | str)}
        self.accelerator.init_trackers(self.name, config=shown)

    def _build(self) -> None:
        """Build towers, optimiser and schedule, which checkpoints restore."""
        from transformers import get_cosine_schedule_with_warmup

        recipe = self.recipe
        torch.manual_seed(recipe.seed)
        # The module with adapters in peft's wrapper.
        self.adapted = add_lora(self.encoder, recipe.lora_rank) if recipe.lora_rank else None
        kinds = {"negatives": recipe.uses_negatives, "positives": recipe.uses_positives}
        towers = Towers(self.encoder, **kinds, trains_norms=recipe.random_start)
        with self.processes.raise_on_all_ranks():
            frozen = freeze_unused(towers, self.loader.load(next(self.draws(epoch=0))[:2]))
        self.trained = sum(p.numel() for p in towers.parameters() if p.requires_grad)
        self.bars.say(f"{self.trained:,} parameters are trained; {frozen:,} that no embedding depends on are frozen")
        optimizer = torch.optim.AdamW(
            parameter_groups(towers, recipe.weight_decay),
            lr=recipe.learning_rate,
            betas=recipe.betas,
            eps=recipe.epsilon,
            fused=next(towers.parameters()).device.type in ("cpu", "cuda"),
        )
        count = len(self.training_set.samples)
        if count < recipe.batch_size:
            self.bars.say(f"a batch has {count:,} captions, not {recipe.batch_size:,}: there are no more")
        self.steps_per_epoch = steps_per_epoch(self.training_set, recipe.batch_size)
        self.steps = recipe.epochs * self.steps_per_epoch
        self.warmup = min(recipe.warmup_steps, self.steps // 2)
        schedule = get_cosine_schedule_with_warmup(optimizer, self.warmup, self.steps)
        self.plain_towers = towers
        # As for evaluation, without DistributedDataParallel: `_step` averages the gradients.
        self.towers = self.accelerator.prepare_model(towers, evaluation_mode=True)
        self.optimizer, self.schedule = self.accelerator.prepare(optimizer, schedule)
        torch.manual_seed(recipe.seed + self.processes.rank)

    def _mine(self, device: str, progress: bool) -> dict[str, tuple[str, ...]]:
        """Return the nearest images by the model before training, which the main process computes once for a run."""
        encoder, file = self.encoder, self.folder / "neighbours.json"

        def embed(images: Sequence[Any]) -> Any:
            embeddings: Any = encoder.encode_images([encoder.prepare_image(image) for image in images])
            return embeddings.cpu().numpy()

        with self.processes.raise_on_all_ranks():
            if self.processes.is_main and not file.exists():
                neighbours = mine(self.training_set, embed, self.recipe.neighbours, device=device, progress=progress)
                write_text(file, json.dumps(neighbours))
        with self.processes.raise_on_all_ranks():
            return {key: tuple(near) for key, near in read_json(file, self.folder.parent).items()}

    def train(self, on_step: Callable[[int, Mapping[str, Any]], None] | None = None) -> None:
        """Train all epochs, from the last checkpoint on; `on_step` is called after each step.

        Raises:
            TrainingError: the loss or a gradient is not finite, or the memory is full.
            DataError, StorageError: an image cannot be read, or a file cannot be written.
        """
        self.position = position = restore_checkpoint(self.accelerator, self.processes)
        if position.step:
            self.bars.say(f"resuming after step {position.step} of {self.steps}")
        with self.processes.raise_on_all_ranks(), storage_errors(self.log):
            if self.processes.is_main and self.log.exists():  # without the steps after the checkpoint
                os.truncate(self.log, min(position.log_bytes, self.log.stat().st_size))
        with closing(self.loader):
            if self.evaluation and not position.history:
                self._evaluate()
            with self.bars.bar("training", self.steps) as advance:
                advance(position.step)
                while position.epoch < self.recipe.epochs:
                    self._train_epoch(advance, on_step)
        for tracker in self.accelerator.trackers:
            tracker.finish()  # `Accelerator.end_training` would end the process group before the model is saved

    def _train_epoch(self, advance: Callable[[int], None], on_step: Callable[..., None] | None) -> None:
        position = self.position
        self.towers.train()
        batches = self.loader.prefetch(self.draws(epoch=position.epoch, start=position.batch), self._share)
        while True:
            started = time.perf_counter()
            with self.processes.raise_on_all_ranks():  # all processes end if one cannot read an image
                next_batch = next(batches, None)
            if next_batch is None:
                break
            drawn, batch = next_batch
            waited = time.perf_counter() - started
            values = {"epoch": position.epoch + 1, **self._step(drawn, batch)}
            position.step += 1
            position.batch += 1
            seconds = time.perf_counter() - started
            values |= {"seconds": round(seconds, 4), "waited": round(waited, 4)}
            values["captions_per_second"] = round(len(drawn) / seconds, 2)
            self._log(values)
            if on_step is not None:
                on_step(position.step, values)
            advance(1)
            if position.step % self.config.save_steps == 0 and position.batch < self.steps_per_epoch:
                save_checkpoint(self.accelerator, position, self.processes)
        position.epoch, position.batch = position.epoch + 1, 0
        if self.evaluation:
            self._evaluate()
        save_checkpoint(self.accelerator, position, self.processes)

    def _log(self, values: Mapping[str, Any]) -> None:
        """Append a line to the log; numbers also go to the trackers."""
        step = self.position.step
        if self.processes.is_main:
            with storage_errors(self.log), self.log.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"step": step, **values}) + "\n")
                self.position.log_bytes = stream.tell()
        scores = {**values.get("losses", {}), **values.get("scores", {})}
        logged = {name: value for name, value in values.items() if isinstance(value, int | float)}
        self.accelerator.log({**logged, **scores}, step=step)

    def _share(self, drawn: list[Drawn]) -> list[Drawn]:
        """Return this process's part of a batch; the parts of all processes, by rank, are the batch."""
        rank, world = self.processes.rank, self.processes.world
        if len(drawn) < world:
            raise TrainingError(f"a batch of {len(drawn)} captions cannot be split over {world} processes; use fewer")
        return drawn[split(len(drawn), world)[rank]]

    def _step(self, drawn: list[Drawn], batch: TrainingBatch) -> dict[str, Any]:
        """Take one optimiser step on a batch, of which this process has a share, and return the values to log."""
        counts = [piece.stop - piece.start for piece in split(len(drawn), self.processes.world)]
        self.optimizer.zero_grad()
        with self.processes.raise_on_all_ranks(), _memory_errors(len(drawn)):
            outputs = self.towers(batch)
        with _memory_errors(len(drawn)):
            scale = outputs.pop("scale")
            embeddings = gather_embeddings(BatchEmbeddings(**outputs), counts)
            loss, parts = total(embeddings, scale, self.recipe.weights)
            if not math.isfinite(loss.item()):
                raise self._not_finite("loss", loss.item(), drawn, embeddings)
            loss.backward()
        average_gradients(self.towers.parameters(), self.processes.world)
        most = self.recipe.max_gradient_norm
        norm = float(self.accelerator.clip_grad_norm_(self.towers.parameters(), math.inf if most is None else most))
        if not math.isfinite(norm):
            raise self._not_finite("norm of the gradient", norm, drawn)
        values = {"loss": loss.item(), "losses": parts, "scale": scale.item(), "gradient_norm": norm}
        values["learning_rate"] = self.schedule.get_last_lr()[0]
        self.optimizer.step()
        self.schedule.step()
        self.plain_towers.clip_scale()
        return values

    def _not_finite(
        self, what: str, value: float, drawn: list[Drawn], embeddings: BatchEmbeddings | None = None
    ) -> TrainingError:
        """Return the error of a step, which names the captions whose embeddings are not finite, or else the batch."""
        suspects: list[Drawn] = []
        if embeddings is not None:
            finite = embeddings.images.isfinite().all(dim=1) & embeddings.captions.isfinite().all(dim=1)
            suspects = [sample for sample, is_finite in zip(drawn, finite.tolist(), strict=True) if not is_finite]
        suspects = suspects or drawn
        names = ", ".join(sample.id for sample in suspects[:8]) + (" …" if len(suspects) > 8 else "")
        folders = checkpoint_folders(self.folder)
        return TrainingError(
            f"the {what} is {value} at step {self.position.step + 1}, in a batch of {len(drawn)} captions. The last "
            f"checkpoint, {folders[-1].name if folders else 'the start'}, is from before it. Check the captions and "
            f"images {names}, or use a lower learning rate, more warm-up steps or float32"
        )

    def _evaluate(self) -> None:
        """Measure the current weights, and append the scores to the history and the log."""
        position = self.position
        name = f"{self.name}@epoch-{position.epoch}"
        info = replace(self.encoder.info, name=name, checkpoint=name, revision=f"{self.key}-{position.step}")
        encoder = self.encoder.holding(self._weights().eval(), info)
        out = self.folder / "evaluations" / f"epoch-{position.epoch}"
        start = time.monotonic()
        scores, _ = self.evaluation.measure(encoder, out, self.processes)
        position.history.append({"epoch": position.epoch, "step": position.step, "scores": scores})
        self._log({"epoch": position.epoch, "scores": scores})
        shown = ", ".join(f"{key} {value:.3f}" for key, value in scores.items())
        self.bars.say(f"epoch {position.epoch}: {shown} (measured in {time.monotonic() - start:.0f} s)")

    def _weights(self) -> Any:
        """Return the module to evaluate and save, with adapters merged. Every process calls it."""
        module: Any = self.encoder.module
        if self.recipe.random_start and self.processes.world > 1:
            from accelerate.utils import broadcast

            broadcast([*module.buffers()])  # batch normalisation has other statistics in each process
        return module if self.adapted is None else merged(self.adapted)

    def save_model(self, folder: Path) -> None:
        """Write the files from which the model is loaded. Every process calls it."""
        model = self.encoder.holding(self._weights(), self.encoder.info)
        with self.processes.raise_on_all_ranks():
            if self.processes.is_main:
                write_files(folder, model.save)


@contextmanager
def _memory_errors(captions: int) -> Iterator[None]:
    """Raise `TrainingError` if the memory is full in a step on a batch of so many captions."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(
            f"the memory is full with a batch of {captions} captions; use a smaller one (--set batch_size=…), "
            "more processes, or precision: bfloat16 in --config"
        ) from error


def _accelerator(config: TrainingConfig, device: str, folder: Path) -> Any:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState
    from accelerate.utils import ProjectConfiguration

    trackers: Any = config.tracker
    AcceleratorState._reset_state()  # an earlier run in this process may have had another precision
    logging.getLogger("accelerate.accelerator").setLevel(logging.ERROR)  # it warns of each checkpoint that it removes
    return Accelerator(
        mixed_precision=PRECISIONS[config.precision],
        cpu=device == "cpu",
        log_with=trackers,
        project_config=ProjectConfiguration(str(folder), automatic_checkpoint_naming=True, total_limit=2),
        step_scheduler_with_optimizer=False,
    )
