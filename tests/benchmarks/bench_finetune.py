"""Speed and memory of fine-tuning with a ViT-B/32 CLIP of random weights.

    python tests/benchmarks/bench_finetune.py [--batch 32] [--rounds 3] [--steps 4] [--cpu-time] [--large 1024]

Speed: the share of a training step that the bare forward and backward of the model's own `CLIPModel` would take on the
same batch, inputs ready; a step opens and prepares images of 640 × 480 pixels, steps the optimiser and logs. Both take
turns, in rounds of `--steps`, and the median of each counts. Also captions a second, and with `--peak` (TFLOP/s) the
share of the device's arithmetic that is used (MFU). Memory: the peak of a process that takes one step on a batch of
`--large` captions by cached gradients. Exits with 1 when a goal is missed: a share of 85 %, and 6 GB.
"""

from __future__ import annotations

import io
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from bench_runner import make_checkpoint
from harness import read_options, workplace
from PIL import Image
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode

from vl_assay.hub_datasets.toy_scenes import tasks
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.finetune.data.samples import ImageOpener
from vl_assay.model_wrappers.finetune.data.training_set import Sample, TrainingSet
from vl_assay.model_wrappers.finetune.train.recipes import RECIPES
from vl_assay.model_wrappers.finetune.train.training import TrainingConfig, finetune


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


def bare_step(model, inputs, precision: str, clock: Callable[[], float]) -> float:
    """Seconds of a forward and a backward of the model's own loss."""
    start = clock()
    with torch.autocast(inputs["pixel_values"].device.type, torch.bfloat16, enabled=precision == "bfloat16"):
        loss = model(**inputs, return_loss=True).loss
    loss.backward()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    seconds = clock() - start
    model.zero_grad(set_to_none=True)
    return seconds


def measure_speed(
    folder: Path, batch: int, rounds: int, steps: int, precision: str, clock: Callable[[], float], out: Path
) -> tuple[float, float, int]:
    """Median seconds of a bare step and of a training step, and FLOPs of the former."""
    training_set = make_training_set(batch * (steps + 1) * rounds)
    encoder = load_model(str(folder), None)
    device = encoder.device
    model = encoder.module.train()
    samples = training_set.samples[:batch]
    tokens = encoder._tokenizer([s.caption for s in samples], padding=True, return_tensors="pt").to(device)
    pixels = np.stack([encoder.prepare_image(training_set.image(s.image)) for s in samples])
    inputs = {**tokens, "pixel_values": torch.from_numpy(pixels).to(device)}
    with FlopCounterMode(display=False) as counter:
        bare_step(model, inputs, precision, clock)
    bare, trained, last = [], [], 0.0

    def take_turns(step, values):
        nonlocal last
        if step % (steps + 1) != 1:  # the first step of a round waits for no image
            trained.append(clock() - last)
        if step % (steps + 1) == 0:
            time.sleep(2)  # until the next batch is prepared
            bare.extend(bare_step(model, inputs, precision, clock) for _ in range(steps))
        last = clock()

    recipe = replace(RECIPES["coco"], epochs=1, batch_size=batch)
    config = TrainingConfig(precision=precision, micro_batch=batch)
    how = {"config": config, "on_step": take_turns, "progress": False}
    finetune(str(folder), training_set, out / "speed", recipe, **how)
    return statistics.median(bare), statistics.median(trained), counter.get_total_flops()


def large_step(folder: Path, size: int, out: Path) -> None:
    """One step on a large batch, in a separate process."""
    recipe = replace(RECIPES["coco"], epochs=1, batch_size=size)

    def stop(step, values):  # only the step is measured
        sys.exit(0)

    finetune(str(folder), make_training_set(size), out / "large", recipe, on_step=stop, progress=False)


def measure_memory(folder: Path, size: int, out: Path) -> float:
    """Peak memory of that process, in GB."""
    process = multiprocessing.get_context("spawn").Process(target=large_step, args=(folder, size, out))
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"the large step failed with {process.exitcode}")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9


def main() -> None:
    options = read_options(
        __doc__, batch=32, rounds=3, steps=4, precision="float32", large=1024, peak=0.0, cpu_time=False
    )
    clock = time.process_time if options.cpu_time else time.perf_counter
    console, missed = Console(), False
    with workplace() as out:
        folder = make_checkpoint([s.caption for s in make_training_set(500).samples], out / "model")
        if options.rounds:
            bare, trained, flops = measure_speed(
                folder, options.batch, options.rounds, options.steps, options.precision, clock, out
            )
            share = bare / trained
            speed = flops / trained / 1e12
            console.print(
                f"batch {options.batch}, {options.precision}: bare {bare:.2f} s, training step {trained:.2f} s, share "
                f"{share:.0%} (goal 85 %), {options.batch / trained:,.1f} captions/s, {speed:.3f} TFLOP/s"
            )
            if options.peak:
                console.print(f"MFU {speed / options.peak:.1%}")
            missed |= share < 0.85
        if options.large:
            memory = measure_memory(folder, options.large, out)
            console.print(f"a step on {options.large} captions by cached gradients: {memory:.2f} GB (goal 6)")
            missed |= memory >= 6
    sys.exit(int(missed))


if __name__ == "__main__":
    main()
