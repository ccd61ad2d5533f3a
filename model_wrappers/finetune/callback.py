"""Benchmarks as validation in the training loop of transformers' `Trainer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ...metrics.common.errors import ModelError
from ..engine.distributed import join
from ..engine.families import load_model
from .train.validation import DEFAULT_EVALUATION, Evaluation


class CompositionalityCallback(TrainerCallback):
    """Measures a dual encoder on benchmarks while a `Trainer` trains it, and logs the scores.

    The scores have the names ``eval_BENCHMARK/TASK/SCORE``, such as ``eval_toy_scenes/itm/accuracy``, and values from 0
    to 1. They go to all trackers of the trainer; without `every` they also count as metrics of its evaluation, so that
    ``metric_for_best_model`` may name one. The predictions are in the folder ``compositionality`` of its output folder.

    Args:
        trainer: the `Trainer`, whose model is measured.
        model: the name of the checkpoint that is trained, which gives tokenizer and image processor; or a loaded model.
        benchmarks: names or parts of benchmarks, or folders that ``vl-assay build`` wrote.
        every: the number of steps between measurements; by default the model is measured when the trainer evaluates.
        data_dir, options: of the benchmarks, as for `predict`.

    Raises:
        ModelError: the checkpoint is no dual encoder of torch, or `every` is below 1.

    Example:
        ``trainer.add_callback(CompositionalityCallback(trainer, "openai/clip-vit-base-patch32", ["sugarcrepe"]))``
    """

    def __init__(
        self,
        trainer: Any,
        model: Any,
        benchmarks: Sequence[str] = DEFAULT_EVALUATION,
        *,
        every: int | None = None,
        data_dir: str | Path | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if every is not None and every < 1:
            raise ModelError(f"the number of steps between measurements is {every}; it must be 1 or more")
        self._encoder: Any = load_model(model) if isinstance(model, str) else model
        if not hasattr(self._encoder, "embed_images"):
            raise ModelError(f"{self._encoder.info.name} is no dual encoder of torch, whose weights could be replaced")
        self._trainer, self._every = trainer, every
        self._evaluation = Evaluation(benchmarks, data_dir, options)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Measure after every `every` steps."""
        if self._every and state.global_step % self._every == 0:
            self._trainer.log(self._measure(args, state))

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **_: Any) -> None:
        """Measure with each evaluation of the trainer."""
        if not self._every:
            scores = self._measure(args, state)
            metrics.update(scores)
            self._trainer.log(scores)

    def _measure(self, args: Any, state: Any) -> dict[str, float]:
        module = self._trainer.accelerator.unwrap_model(self._trainer.model)
        name = f"{self._encoder.info.name}@step-{state.global_step}"
        encoder = self._encoder.holding(module, replace(self._encoder.info, name=name, checkpoint=name))
        out = Path(args.output_dir, "compositionality", f"step-{state.global_step}")
        was_training = module.training
        module.eval()
        try:
            scores, _ = self._evaluation.measure(encoder, out, join(), workers=0)
        finally:
            module.train(was_training)
        return {f"eval_{name}": score for name, score in scores.items()}
