"""Speed of fine-tuning with a ViT-B/32 CLIP of random weights.

    python tests/benchmarks/bench_finetune.py [--batch 32] [--rounds 3] [--steps 4]

Speed: the share of a training step that the bare forward and backward of the model's own `CLIPModel` would take on the
same batch, inputs ready; a step opens and prepares images of 640 × 480 pixels, steps the optimiser and logs. Both take
turns, in rounds of `--steps`, and the median of each counts. Exits with 1 when the goal is missed: a share of 85 %.
"""

from __future__ import annotations

import io
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from bench_runner import make_checkpoint
from harness import check_goals, read_options, workplace
from PIL import Image

from vl_assay.hub_datasets.toy_scenes import tasks
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.finetune.data.samples import ImageOpener
from vl_assay.model_wrappers.finetune.data.training_set import Sample, TrainingSet
from vl_assay.model_wrappers.finetune.train.recipes import RECIPES
from vl_assay.model_wrappers.finetune.train.training import finetune


class Photographs(ImageOpener):
    """JPEG files of 640 × 480 pixels, a different one for each number."""

    def __init__(self, count: int = 64) -> None:
        rng = np.random.default_rng(0)
        self._files = []
        for _ in range(count):
            pixels = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((640, 480))
            file = io.BytesIO()
            pixels.save(file, "JPEG", quality=90)
            self._files.append(file.getvalue())

    def read(self, key: str) -> bytes:
        return self._files[int(key) % len(self._files)]


def make_training_set(count: int) -> TrainingSet:
    """Captions of toy scenes, each of another image."""
    captions = [tasks.task_rows("captions", 0, "train", index)[1][0]["captions"][0] for index in range(count)]
    return TrainingSet("bench", [Sample(str(n), text, id=str(n)) for n, text in enumerate(captions)], Photographs())


def bare_step(model, inputs) -> float:
    """Seconds of a forward and a backward of the model's own loss."""
    start = time.perf_counter()
    model(**inputs, return_loss=True).loss.backward()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    model.zero_grad(set_to_none=True)
    return seconds


def measure_speed(folder: Path, batch: int, rounds: int, steps: int, out: Path) -> tuple[float, float]:
    """Median seconds of a bare step and of a training step."""
    training_set = make_training_set(batch * (steps + 1) * rounds)
    encoder = load_model(str(folder), None)
    device = encoder.device
    model = encoder.module.train()
    samples = training_set.samples[:batch]
    tokens = encoder._tokenizer([s.caption for s in samples], padding=True, return_tensors="pt").to(device)
    pixels = np.stack([encoder.prepare_image(training_set.image(s.image)) for s in samples])
    inputs = {**tokens, "pixel_values": torch.from_numpy(pixels).to(device)}
    bare_step(model, inputs)
    bare, trained, last = [], [], 0.0

    def take_turns(step, values):
        nonlocal last
        if step % (steps + 1) != 1:  # the first step of a round waits for no image
            trained.append(time.perf_counter() - last)
        if step % (steps + 1) == 0:
            time.sleep(2)  # until the next batch is prepared
            bare.extend(bare_step(model, inputs) for _ in range(steps))
        last = time.perf_counter()

    recipe = replace(RECIPES["coco"], epochs=1, batch_size=batch)
    finetune(str(folder), training_set, out / "speed", recipe, on_step=take_turns, progress=False)
    return statistics.median(bare), statistics.median(trained)


def main() -> int:
    """Measure, print, and return the exit status."""
    options = read_options(__doc__, batch=32, rounds=3, steps=4)
    with workplace() as out:
        folder = make_checkpoint([s.caption for s in make_training_set(500).samples], out / "model")
        bare, trained = measure_speed(folder, options.batch, options.rounds, options.steps, out)
    print(f"batch {options.batch}: bare {bare:.2f} s, training step {trained:.2f} s")
    goals = [("bare forward and backward, share of a training step", bare / trained, ">=", 0.85)]
    return check_goals("Fine-tuning", goals)


if __name__ == "__main__":
    sys.exit(main())
