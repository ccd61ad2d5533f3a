"""Images a second that the engine feeds to a model, beside a plain `DataLoader` loop with as many workers.

    python tests/benchmarks/bench_feed.py [--images 600] [--rounds 3]

The model computes nothing, so that only reading, decoding, preparing and sending images is timed, start included. The
images are noise: 640 × 480 JPEGs, and as many small ones (64 × 64) as `--small`, where workers should not cost time.
"""

from __future__ import annotations

import io
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import check_goals, least_in_turns, read_options, seconds_of, workplace
from PIL import Image
from transformers import CLIPImageProcessor

from vl_assay.model_wrappers.engine.distributed import Processes
from vl_assay.model_wrappers.engine.loader import Loaded, Loader
from vl_assay.model_wrappers.engine.progress import Progress
from vl_assay.model_wrappers.engine.stages import Item, StageBatch, Stages, Work
from vl_assay.model_wrappers.engine.store import Store, item_key

_BATCH = 256
# By the number of workers, the least share of the plain loop's images a second.
_GOALS = {2: 0.95, 8: 1.0}


def make_images(count: int, size: tuple[int, int]) -> list[bytes]:
    """Return JPEG files of noise."""
    rng, files = np.random.default_rng(0), []
    for _ in range(count):
        small = Image.fromarray(rng.integers(0, 256, (size[1] // 10, size[0] // 10, 3), dtype=np.uint8))
        buffer = io.BytesIO()
        small.resize(size, Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
        files.append(buffer.getvalue())
    return files


class Images(torch.utils.data.Dataset):
    """What a good engineer would write: a dataset that decodes and prepares an image."""

    def __init__(self, files: list[bytes], processor: Any) -> None:
        self._files, self._processor = files, processor

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Any:
        """Return the pixel values of an image, (3, 224, 224)."""
        image = Image.open(io.BytesIO(self._files[index])).convert("RGB")
        return self._processor(image, return_tensors="np")["pixel_values"][0]


def plain_loop(files: list[bytes], processor: Any, workers: int) -> None:
    """Read all images with a `DataLoader`."""
    count = 0
    for batch in torch.utils.data.DataLoader(Images(files, processor), batch_size=_BATCH, num_workers=workers):
        count += len(batch)
    assert count == len(files)


def engine(files: list[bytes], processor: Any, workers: int, folder: Path) -> None:
    """Read all images as a stage of a run does."""
    dataset = Images(files, processor)

    def load(item: Item) -> Loaded:
        return Loaded(dataset[int(item[0])], (0, 0))

    def compute(batch: StageBatch) -> np.ndarray:
        return np.zeros((len(batch.images), 4))

    stages = Stages("nothing", Store(folder), Processes(), Progress(show=False), Loader(workers), _BATCH)
    stages.run(Work("images", [item_key(str(number)) for number in range(len(files))], compute, load=load))


def measure(title: str, files: list[bytes], workers: list[int], rounds: int, folder: Path) -> dict[str, float]:
    """Return the least seconds of each way and number of workers, and print images a second."""
    processor, runs = CLIPImageProcessor(), iter(range(10**6))
    ways = {f"plain, {count} workers": partial(plain_loop, files, processor, count) for count in workers if count}
    ways |= {
        f"ours, {count} workers": lambda count=count: engine(files, processor, count, folder / f"{title}-{next(runs)}")
        for count in workers
    }
    seconds = least_in_turns({name: partial(seconds_of, way) for name, way in ways.items()}, rounds)
    for name, each in seconds.items():
        print(f"{title}: {name}: {len(files) / each:.0f} images/s ({each:.2f} s)")
    return seconds


def main() -> int:
    """Measure and compare with the goals."""
    options = read_options(__doc__, images=600, small=2000, rounds=3)
    with workplace() as folder:
        large = measure("640 × 480", make_images(options.images, (640, 480)), [*_GOALS], options.rounds, folder)
        small = measure("64 × 64", make_images(options.small, (64, 64)), [0, *_GOALS], options.rounds, folder)
    goals = []
    for count, goal in _GOALS.items():
        share = large[f"plain, {count} workers"] / large[f"ours, {count} workers"]
        goals.append((f"images/s of the plain loop, {count} workers", share, ">=", goal))
        share = small[f"plain, {count} workers"] / small[f"ours, {count} workers"]
        goals.append((f"small images: images/s of the plain loop, {count} workers", share, ">=", goal))
    return check_goals(f"{options.images} images, {torch.get_num_threads()} threads", goals)


if __name__ == "__main__":
    sys.exit(main())
