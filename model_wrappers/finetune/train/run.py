"""One run of the trainer: steps, epochs, checkpoints and evaluations, in one or several processes."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ....metrics.common.errors import ModelError, TrainingError
from ....metrics.common.storage import write_text
from ...engine.distributed import Processes
from ...engine.progress import Progress
from ..data.batches import Preparation
from ..data.data import Drawn, TrainingSet, epoch, steps
from ..data.mining import mine
from .cached_step import cached_backward
from .checkpoints import Checkpoints, Position, read_json, write_folder
from .gathering import gather_embeddings
from .logging import Log
from .losses import Embeddings, total
from .recipes import Recipe
from .towers import Batch, Towers, Trainable, add_lora, freeze_unused, merged, parameter_groups, use_checkpointing
from .validation import evaluate, named

if TYPE_CHECKING:
    from .training import TrainingConfig

# On a CPU larger parts leave the cache and are slower.
_MICRO_BATCHES = {"cpu": 32, "mps": 32, "cuda": 256}
PRECISIONS = {"float32": "no", "bfloat16": "bf16"}


class Run:
    """A run from its last checkpoint, if there is one, to its end.

    Args:
        encoder: the model to start from, which is changed.
        load: what loads it again.
        training_set: captions and images.
        recipe, running: what is done, and how.
        folder: of checkpoints, the log and evaluations.
        facts: what the run is, for the trackers and to tell runs apart.
        processes: those that share it.
        progress: whether to show progress.
    """

    def __init__(
        self,
        encoder: Trainable,
        load: Callable[[], Trainable],
        training_set: TrainingSet,
        recipe: Recipe,
        running: TrainingConfig,
        folder: Path,
        facts: Mapping[str, Any],
        processes: Processes,
        progress: bool,
    ) -> None:
        self.recipe, self.running, self.folder, self.processes = recipe, running, folder, processes
        self.encoder, self.load, self.training_set = encoder, load, training_set
        self.key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
        self.position = Position()
        self.bars = Progress(show=progress and processes.is_main)
        device = next(self.encoder.module.parameters()).device
        self.micro_batch = running.micro_batch or _MICRO_BATCHES.get(device.type, 32)
        self.accelerator = _accelerator(running, device.type, folder)
        self.is_sharded = self.accelerator.distributed_type == "FSDP"
        self.preparation = Preparation(self.encoder, training_set, running.workers)
        self.neighbours = self._mine(progress) if recipe.neighbours else None
        self._build()
        self.checkpoints = Checkpoints(folder / "checkpoints", self.accelerator, processes)
        self.log = Log(folder / "log.jsonl", self.accelerator, folder.resolve().parent.name, facts["recipe"])

    def _build(self) -> None:
        """Towers, optimiser, schedule and moving average, all that a checkpoint restores."""
        from transformers import get_cosine_schedule_with_warmup

        recipe, module = self.recipe, self.encoder.module
        if self.is_sharded and (recipe.lora_rank or recipe.ema_decay or self.running.evaluation):
            raise ModelError(
                "with FSDP there is neither LoRA, a moving average nor evaluation while training: leave them out, and "
                "score the folder afterwards"
            )
        torch.manual_seed(recipe.seed)
        self.adapted = add_lora(self.encoder, recipe.lora_rank) if recipe.lora_rank else None
        groups = {"groups": 1} if self.is_sharded else {}
        towers = Towers(self.encoder, negatives=recipe.uses_negatives, positives=recipe.uses_positives, **groups)
        if self.is_sharded:
            towers.widen_scale()
        with self.processes.raise_on_all_ranks():
            frozen = freeze_unused(towers.train(), self.preparation.now(next(self._draws(0, 0))[:2]))
        if self.running.gradient_checkpointing:
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
        self.steps_per_epoch = steps(self.training_set, recipe.batch_size)
        self.steps = recipe.epochs * self.steps_per_epoch
        self.warmup = min(recipe.warmup_steps, self.steps // 2)
        self.schedule = get_cosine_schedule_with_warmup(optimizer, self.warmup, self.steps)
        self.plain_towers = towers
        self.towers, self.optimizer = self.accelerator.prepare(towers, optimizer)
        self.average: AveragedModel | None = None
        if recipe.ema_decay is not None:
            root = module if self.adapted is None else self.adapted
            self.average = AveragedModel(root, multi_avg_fn=get_ema_multi_avg_fn(recipe.ema_decay))
        kept = [self.position, self.schedule, *([] if self.average is None else [self.average])]
        self.accelerator.register_for_checkpointing(*kept)
        torch.manual_seed(recipe.seed + self.processes.rank)

    def _mine(self, progress: bool) -> dict[str, tuple[str, ...]]:
        """The nearest images by the model as it is before training: found by the main process, once for a run."""
        encoder: Any = self.encoder
        file = self.folder / "neighbours.json"
        with self.processes.raise_on_all_ranks():
            if self.processes.is_main and not file.exists():
                found = mine(
                    self.training_set,
                    lambda images: encoder.encode_images([encoder.prepare_image(image) for image in images]),
                    self.recipe.neighbours,
                    device=str(next(encoder.module.parameters()).device),
                    progress=progress,
                )
                write_text(file, json.dumps(found))
        with self.processes.raise_on_all_ranks():
            return {key: tuple(near) for key, near in read_json(file, self.folder.parent).items()}

    def train(self) -> None:
        """Go on to the end: all epochs, or an early stop.

        Raises:
            TrainingError: the loss or a gradient is no number any more.
            DataError, StorageError: an image cannot be read, or a file not be written.
        """
        position, recipe = self.position, self.recipe
        goes_on = self.checkpoints.restore()
        if goes_on:
            self.bars.say(f"going on after step {position.step} of {self.steps}")
        self.log.cut(position.step if goes_on else -1)
        with closing(self.preparation), closing(self.log):
            if self.running.evaluation and not position.history:
                self._evaluate()
            with self.bars.bar("training", self.steps) as advance:
                advance(position.step)
                while position.epoch < recipe.epochs and not self._is_stopped():
                    self._epoch(advance)

    def _is_stopped(self) -> bool:
        return self.running.stopping.says_stop(self.position.history[1:])

    def _epoch(self, advance: Callable[[int], None]) -> None:
        position = self.position
        self.towers.train()
        batches = self.preparation.ahead(self._draws(position.epoch, position.batch), self._share)
        while True:
            started = time.perf_counter()
            with self.processes.raise_on_all_ranks():  # an image that one of them cannot read ends all, with its name
                found = next(batches, None)
            if found is None:
                break
            drawn, batch = found
            waited = time.perf_counter() - started
            values = self._step(drawn, batch)
            position.step += 1
            position.batch += 1
            seconds = time.perf_counter() - started
            speed = {"seconds": round(seconds, 4), "waited": round(waited, 4)}
            speed["captions_per_second"] = round(len(drawn) / seconds, 2)
            self.log.write(position.step, {"epoch": position.epoch + 1, **values, **speed})
            advance(1)
            if position.step % self.running.save_steps == 0 and position.batch < self.steps_per_epoch:
                self.checkpoints.save(position.step)
        position.epoch, position.batch = position.epoch + 1, 0
        if self.running.evaluation:
            self._evaluate()
            if self.running.stopping.score and self.is_best():
                self.save_model(self.folder / "best")
        self.checkpoints.save(position.step)

    def _draws(self, number: int, start: int) -> Iterator[list[Drawn]]:
        recipe = self.recipe
        return epoch(
            self.training_set,
            epoch=number,
            seed=recipe.seed,
            batch_size=recipe.batch_size,
            neighbours=self.neighbours,
            start=start,
        )

    def _share(self, drawn: list[Drawn]) -> list[Drawn]:
        """This process's part of a batch: those of all processes, in the order of ranks, are the whole."""
        rank, world = self.processes.rank, self.processes.world
        if len(drawn) < world:
            raise TrainingError(f"a batch of {len(drawn)} captions cannot be shared by {world} processes; take fewer")
        return drawn[len(drawn) * rank // world : len(drawn) * (rank + 1) // world]

    def _step(self, drawn: list[Drawn], batch: Batch) -> dict[str, Any]:
        """One step of the optimiser on a whole batch, of which this process has a share; what to log of it."""
        recipe, values = self.recipe, {}

        def loss(outputs: dict[str, Tensor]) -> Tensor:
            scale = outputs.pop("scale")
            whole = gather_embeddings(Embeddings(**outputs))
            value, parts = total(whole, scale, recipe.weights)
            values.update(loss=value.item(), losses=parts, scale=scale.item())
            if not math.isfinite(values["loss"]):
                raise self._not_finite("loss", values["loss"], drawn, whole)
            return value

        # As many parts in every process: each one's averaging waits for the others'.
        world = self.processes.world
        count = min(math.ceil(math.ceil(len(drawn) / world) / self.micro_batch), len(drawn) // world)
        self.optimizer.zero_grad()
        cached_backward(self.towers, batch.chunks(count), loss, no_sync=lambda: self.accelerator.no_sync(self.towers))
        norm = self._gradient_norm()
        if not math.isfinite(norm):
            raise self._not_finite("norm of the gradient", norm, drawn)
        values |= {"gradient_norm": norm, "learning_rate": self.schedule.get_last_lr()[0]}
        self.optimizer.step()
        self.schedule.step()
        self.plain_towers.clip_scale()
        if self.average is not None:
            self.average.update_parameters(self.encoder.module if self.adapted is None else self.adapted)
        return values

    def _gradient_norm(self) -> float:
        """The norm of the gradients, which are scaled down where it is larger than the recipe's."""
        most, parameters = self.recipe.max_gradient_norm, self.towers.parameters()
        if most is not None or self.is_sharded:
            return float(self.accelerator.clip_grad_norm_(parameters, math.inf if most is None else most))
        return torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]).item()

    def _not_finite(
        self, what: str, value: float, drawn: list[Drawn], embeddings: Embeddings | None = None
    ) -> TrainingError:
        """The error of a step, with its batch named; all of the batch goes to a file."""
        position, file = self.position, self.folder / "not-finite.json"
        culprits: list[str] = []
        if embeddings is not None:
            sound = embeddings.images.isfinite().all(dim=1) & embeddings.captions.isfinite().all(dim=1)
            culprits = [each.id for each, is_sound in zip(drawn, sound.tolist(), strict=True) if not is_sound]
        if self.processes.is_main:
            batch = [each._asdict() for each in drawn]
            write_text(file, json.dumps({"what": what, "step": position.step + 1, "batch": batch}, indent=1))
        some = ", ".join(each.id for each in drawn[:8]) + (" …" if len(drawn) > 8 else "")
        text = f"the {what} is {value} at step {position.step + 1}, on the batch of {len(drawn)} captions {some}"
        if 0 < len(culprits) < len(drawn):
            text += f"; not finite are the embeddings of {', '.join(culprits[:8])}"
        found = self.checkpoints.found()
        kept = f"The last checkpoint, {found[-1].name}, is from before it" if found else "There is no checkpoint yet"
        return TrainingError(
            f"{text}. {kept}; {file} has the whole batch. Look at these captions and images, or take a lower learning "
            "rate, more warm-up steps or float32"
        )

    def _evaluate(self) -> None:
        position = self.position
        name = f"{self.folder.resolve().parent.name}@epoch-{position.epoch}"
        encoder = named(self.encoder, self._weights(), name, f"{self.key}-{position.step}")
        out = self.folder / "evaluations" / f"epoch-{position.epoch}"
        scores, _ = evaluate(encoder, self.running.evaluation, out, self.processes)
        position.history.append({"epoch": position.epoch, "step": position.step, "scores": scores})
        self.running.stopping.best(position.history)  # an unknown score is told before any training
        self.log.write(position.step, {"epoch": position.epoch, "scores": scores})
        shown = ", ".join(f"{key} {value:.3f}" for key, value in scores.items())
        self.bars.say(f"epoch {position.epoch}: {shown}")

    def is_best(self) -> bool:
        """Whether the last evaluation after an epoch is the best of them."""
        trained = self.position.history[1:]
        return self.running.stopping.best(trained) == len(trained) - 1

    def _weights(self) -> Any:
        """The module to evaluate and save: the average where there is one, adapters merged. Every process calls it."""
        if self.is_sharded:
            state = self.accelerator.get_state_dict(self.towers)
            module = self.load().module
            if self.processes.is_main:
                shapes = {name: tensor.shape for name, tensor in module.state_dict().items()}
                found = {name.removeprefix("model."): tensor for name, tensor in state.items()}
                module.load_state_dict({name: found[name].reshape(shape) for name, shape in shapes.items()})
            return module
        if self.adapted is not None:
            return merged(self.adapted if self.average is None else self.average.module)
        return self.encoder.module if self.average is None else self.average.module

    def save_model(self, folder: Path) -> None:
        """Write the model as a folder to load it from. Every process calls it."""
        weights = self._weights()
        with self.processes.raise_on_all_ranks():
            if self.processes.is_main:
                write_folder(folder, self.encoder.holding(weights, self.encoder.info).save)


def _accelerator(running: TrainingConfig, device: str, folder: Path) -> Any:
    from accelerate import Accelerator, DistributedDataParallelKwargs
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state()  # an earlier run in this process may have had another precision
    return Accelerator(
        mixed_precision=PRECISIONS[running.precision],
        cpu=device == "cpu",
        log_with=list(running.trackers) or None,
        project_dir=folder,
        # Buffers are constants here; to send them with each part of a batch would only wait.
        kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False)],
    )
