"""The training loop: steps, epochs, checkpoints and validation, in one or several processes."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ....metrics.common.errors import ModelError, TrainingError
from ....metrics.common.storage import write_text
from ...engine.distributed import Processes
from ...engine.progress import Progress
from ..data.batches import Batch, BatchLoader, Drawn, draw_epoch, steps_per_epoch
from ..data.mining import mine
from ..data.training_set import TrainingSet
from .cached_step import cached_backward
from .checkpoints import Checkpoints, Position, checkpoint_folders, read_json, write_folder
from .config import PRECISIONS, TrainingConfig
from .gathering import gather_embeddings
from .log import Log
from .lora import add_lora, merged, save_adapters
from .losses import Embeddings, total
from .recipes import Recipe
from .towers import Towers, Trainable, freeze_unused, parameter_groups, use_checkpointing

# On a CPU larger chunks leave the cache and are slower.
_MICRO_BATCHES = {"cpu": 32, "mps": 32, "cuda": 256}


class TrainingLoop:
    """A run from its last checkpoint, if there is one, to its end.

    Args:
        encoder: the model to start from, which is changed.
        load: loads it again.
        training_set: captions and images.
        recipe, config: the recipe, and how it is run.
        folder: of checkpoints, the log and evaluations.
        facts: identifies the run.
        processes: those that share it.
        progress: whether to show progress.
    """

    def __init__(
        self,
        encoder: Trainable,
        load: Callable[[], Trainable],
        training_set: TrainingSet,
        recipe: Recipe,
        config: TrainingConfig,
        folder: Path,
        facts: Mapping[str, Any],
        processes: Processes,
        progress: bool,
    ) -> None:
        self.recipe, self.config, self.folder, self.processes = recipe, config, folder, processes
        self.encoder, self.load, self.training_set = encoder, load, training_set
        self.name = folder.resolve().parent.name
        self.key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
        self.position = Position()
        self.bars = Progress(show=progress and processes.is_main)
        device = next(encoder.module.parameters()).device
        self.micro_batch = config.micro_batch or _MICRO_BATCHES.get(device.type, 32)
        self.accelerator = _accelerator(config, device.type, folder)
        self.is_sharded = self.accelerator.distributed_type == "FSDP"
        self.loader = BatchLoader(encoder, training_set, config.workers)
        neighbours = self._mine(str(device), progress) if recipe.neighbours else None
        self.draws = partial(
            draw_epoch, training_set, seed=recipe.seed, batch_size=recipe.batch_size, neighbours=neighbours
        )
        self._build()
        self.checkpoints = Checkpoints(folder / "checkpoints", self.accelerator, processes)
        self.log = Log(folder / "log.jsonl", self.accelerator, self.name, facts["recipe"])

    def _build(self) -> None:
        """Build towers, optimiser, schedule and moving average, all that a checkpoint restores."""
        from transformers import get_cosine_schedule_with_warmup

        recipe, module = self.recipe, self.encoder.module
        if self.is_sharded and (recipe.lora_rank or recipe.ema_decay or self.config.evaluation):
            raise ModelError(
                "with FSDP there is neither LoRA, a moving average nor evaluation while training: leave them out, and "
                "score the folder afterwards"
            )
        torch.manual_seed(recipe.seed)
        self.adapted = add_lora(self.encoder, recipe.lora_rank, recipe.lora) if recipe.lora_rank else None
        # The module with the trained weights: the model, or peft's around it.
        self.root = module if self.adapted is None else self.adapted
        kinds = {"negatives": recipe.uses_negatives, "positives": recipe.uses_positives}
        towers = Towers(self.encoder, **kinds, trains_norms=recipe.random_start, is_sharded=self.is_sharded)
        with self.processes.raise_on_all_ranks():
            frozen = freeze_unused(towers, self.loader.load(next(self.draws(epoch=0))[:2]))
        if self.config.gradient_checkpointing:
            use_checkpointing(module, self.encoder.info.name)
        self.trained = sum(p.numel() for p in towers.parameters() if p.requires_grad)
        self.bars.say(f"{self.trained:,} parameters are trained; {frozen:,} that no embedding depends on are frozen")
        optimizer = torch.optim.AdamW(
            parameter_groups(towers, recipe.weight_decay),
            lr=recipe.learning_rate,
            betas=recipe.betas,
            eps=recipe.epsilon,
            fused=not self.is_sharded and next(towers.parameters()).device.type in ("cpu", "cuda"),
        )
        count = len(self.training_set.samples)
        if count < recipe.batch_size:
            self.bars.say(f"a batch has {count:,} captions, not {recipe.batch_size:,}: there are no more")
        self.steps_per_epoch = steps_per_epoch(self.training_set, recipe.batch_size)
        self.steps = recipe.epochs * self.steps_per_epoch
        self.warmup = min(recipe.warmup_steps, self.steps // 2)
        self.schedule = get_cosine_schedule_with_warmup(optimizer, self.warmup, self.steps)
        self.plain_towers = towers
        self.towers, self.optimizer = self.accelerator.prepare(towers, optimizer)
        self.average: AveragedModel | None = None
        if recipe.ema_decay is not None:
            self.average = AveragedModel(self.root, multi_avg_fn=get_ema_multi_avg_fn(recipe.ema_decay))
        kept = [self.position, self.schedule, *([] if self.average is None else [self.average])]
        self.accelerator.register_for_checkpointing(*kept)
        torch.manual_seed(recipe.seed + self.processes.rank)

    def _mine(self, device: str, progress: bool) -> dict[str, tuple[str, ...]]:
        """The nearest images by the model before training, computed by the main process once for a run."""
        encoder = self.encoder
        file = self.folder / "neighbours.json"
        with self.processes.raise_on_all_ranks():
            if self.processes.is_main and not file.exists():
                found = mine(
                    self.training_set,
                    lambda images: encoder.encode_images([encoder.prepare_image(image) for image in images]),
                    self.recipe.neighbours,
                    device=device,
                    progress=progress,
                )
                write_text(file, json.dumps(found))
        with self.processes.raise_on_all_ranks():
            return {key: tuple(near) for key, near in read_json(file, self.folder.parent).items()}

    def train(self) -> None:
        """Train to the end: all epochs, or early stopping.

        Raises:
            TrainingError: the loss or a gradient is not finite.
            DataError, StorageError: an image cannot be read, or a file cannot be written.
        """
        position = self.position
        resumed = self.checkpoints.restore()
        if resumed:
            self.bars.say(f"resuming after step {position.step} of {self.steps}")
        self.log.truncate(position.step if resumed else -1)
        with closing(self.loader), closing(self.log):
            if self.config.evaluation and not position.history:
                self._evaluate()
            with self.bars.bar("training", self.steps) as advance:
                advance(position.step)
                stopping = self.config.stopping
                while position.epoch < self.recipe.epochs and not stopping.should_stop(position.history[1:]):
                    self._train_epoch(advance)

    def _train_epoch(self, advance: Callable[[int], None]) -> None:
        position, config = self.position, self.config
        self.towers.train()
        batches = self.loader.prefetch(self.draws(epoch=position.epoch, start=position.batch), self._share)
        while True:
            started = time.perf_counter()
            with self.processes.raise_on_all_ranks():  # all processes end if one cannot read an image
                found = next(batches, None)
            if found is None:
                break
            drawn, batch = found
            waited = time.perf_counter() - started
            values = {"epoch": position.epoch + 1, **self._step(drawn, batch)}
            position.step += 1
            position.batch += 1
            seconds = time.perf_counter() - started
            values |= {"seconds": round(seconds, 4), "waited": round(waited, 4)}
            values["captions_per_second"] = round(len(drawn) / seconds, 2)
            self.log.write(position.step, values)
            if config.on_step is not None:
                config.on_step(position.step, values)
            advance(1)
            if position.step % config.save_steps == 0 and position.batch < self.steps_per_epoch:
                self.checkpoints.save(position.step)
        position.epoch, position.batch = position.epoch + 1, 0
        if config.evaluation:
            self._evaluate()
            trained = position.history[1:]
            if config.stopping.score and config.stopping.best(trained) == len(trained) - 1:
                self.save_model(self.folder / "best")
        self.checkpoints.save(position.step)

    def _share(self, drawn: list[Drawn]) -> list[Drawn]:
        """This process's part of a batch; the parts of all processes, by rank, are the batch."""
        rank, world = self.processes.rank, self.processes.world
        if len(drawn) < world:
            raise TrainingError(f"a batch of {len(drawn)} captions cannot be split over {world} processes; use fewer")
        return drawn[len(drawn) * rank // world : len(drawn) * (rank + 1) // world]

    def _step(self, drawn: list[Drawn], batch: Batch) -> dict[str, Any]:
        """One optimiser step on a batch, of which this process has a share; returns the values to log."""
        recipe, values = self.recipe, {}

        def loss(outputs: dict[str, Tensor]) -> Tensor:
            scale = outputs.pop("scale")
            whole = gather_embeddings(Embeddings(**outputs))
            value, parts = total(whole, scale, recipe.weights)
            values.update(loss=value.item(), losses=parts, scale=scale.item())
            if not math.isfinite(values["loss"]):
                raise self._not_finite("loss", values["loss"], drawn, whole)
            return value

        # Equally many chunks in every process, as their backward passes wait for each other.
        world = self.processes.world
        count = min(math.ceil(math.ceil(len(drawn) / world) / self.micro_batch), len(drawn) // world)
        self.optimizer.zero_grad()
        cached_backward(self.towers, batch.chunks(count), loss, no_sync=lambda: self.accelerator.no_sync(self.towers))
        norm = self._clip_gradients()
        if not math.isfinite(norm):
            raise self._not_finite("norm of the gradient", norm, drawn)
        values |= {"gradient_norm": norm, "learning_rate": self.schedule.get_last_lr()[0]}
        self.optimizer.step()
        self.schedule.step()
        self.plain_towers.clip_scale()
        if self.average is not None:
            self.average.update_parameters(self.root)
        return values

    def _clip_gradients(self) -> float:
        """Scale the gradients down to the recipe's norm; returns their norm before."""
        most, parameters = self.recipe.max_gradient_norm, self.towers.parameters()
        if most is not None or self.is_sharded:
            return float(self.accelerator.clip_grad_norm_(parameters, math.inf if most is None else most))
        return torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]).item()

    def _not_finite(
        self, what: str, value: float, drawn: list[Drawn], embeddings: Embeddings | None = None
    ) -> TrainingError:
        """The error of a step; the batch is written to a file."""
        step, file = self.position.step + 1, self.folder / "not-finite.json"
        if self.processes.is_main:
            batch = [each._asdict() for each in drawn]
            write_text(file, json.dumps({"what": what, "step": step, "batch": batch}, indent=1))
        some = ", ".join(each.id for each in drawn[:8]) + (" …" if len(drawn) > 8 else "")
        text = f"the {what} is {value} at step {step}, on the batch of {len(drawn)} captions {some}"
        if embeddings is not None:
            finite = embeddings.images.isfinite().all(dim=1) & embeddings.captions.isfinite().all(dim=1)
            culprits = [each.id for each, is_finite in zip(drawn, finite.tolist(), strict=True) if not is_finite]
            if 0 < len(culprits) < len(drawn):
                text += f"; the embeddings of {', '.join(culprits[:8])} are not finite"
        folders = checkpoint_folders(self.folder / "checkpoints")
        kept = f"The last checkpoint, {folders[-1].name}, is from before it" if folders else "There is no checkpoint"
        return TrainingError(
            f"{text}. {kept}; {file} has the whole batch. Check these captions and images, or use a lower learning "
            "rate, more warm-up steps or float32"
        )

    def _evaluate(self) -> None:
        """Measure the current weights, and append the scores to the history and the log."""
        position, config = self.position, self.config
        name = f"{self.name}@epoch-{position.epoch}"
        info = replace(self.encoder.info, name=name, checkpoint=name, revision=f"{self.key}-{position.step}")
        encoder = self.encoder.holding(self._weights().eval(), info)
        out = self.folder / "evaluations" / f"epoch-{position.epoch}"
        start = time.monotonic()
        scores, _ = config.evaluation.measure(encoder, out, self.processes)
        position.history.append({"epoch": position.epoch, "step": position.step, "scores": scores})
        config.stopping.best(position.history)  # raises for an unknown score, before any training
        self.log.write(position.step, {"epoch": position.epoch, "scores": scores})
        shown = ", ".join(f"{key} {value:.3f}" for key, value in scores.items())
        self.bars.say(f"epoch {position.epoch}: {shown} (measured in {time.monotonic() - start:.0f} s)")

    def _weights(self) -> Any:
        """The module to evaluate and save: the average if there is one, adapters merged. Every process calls it."""
        if self.is_sharded:
            state = self.accelerator.get_state_dict(self.towers)
            module = self.load().module
            if self.processes.is_main:
                shapes = {name: tensor.shape for name, tensor in module.state_dict().items()}
                found = {name.removeprefix("model."): tensor for name, tensor in state.items()}
                module.load_state_dict({name: found[name].reshape(shape) for name, shape in shapes.items()})
            return module
        module: Any = self.root if self.average is None else self.average.module
        if self.recipe.random_start and self.processes.world > 1:
            from accelerate.utils import broadcast

            broadcast([*module.buffers()])  # batch normalisation has other statistics in each process
        return module if self.adapted is None else merged(module)

    def save_model(self, folder: Path) -> None:
        """Write the model as a folder to load it from. Every process calls it."""
        weights = self._weights()
        with self.processes.raise_on_all_ranks():
            if self.processes.is_main:
                write_folder(folder, partial(self._save, weights))

    def _save(self, weights: Any, folder: Path) -> None:
        """Write the model and, of LoRA as in SVLC, its adapters."""
        self.encoder.holding(weights, self.encoder.info).save(folder)
        if self.recipe.lora_rank:
            save_adapters(self.root if self.average is None else self.average.module, folder)


def _accelerator(config: TrainingConfig, device: str, folder: Path) -> Any:
    from accelerate import Accelerator, DistributedDataParallelKwargs
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state()  # an earlier run in this process may have had another precision
    return Accelerator(
        mixed_precision=PRECISIONS[config.precision],
        cpu=device == "cpu",
        log_with=list(config.trackers) or None,
        project_dir=folder,
        # Buffers are constants here, or do not change the training: sending them with each chunk would only wait.
        kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False)],
    )
