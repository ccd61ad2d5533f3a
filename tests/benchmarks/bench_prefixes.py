"""Captions that begin alike, read as trees of tokens against one by one, as ratios measured in one run.

    python tests/benchmarks/bench_prefixes.py --sugarcrepe DIR [--captions 1024] [--pairs 7511]

`DIR` holds the released annotations (``swap_obj.json`` …). The model is a ViT-B/32 CLIP with random weights, float32.
Tokens are counted over all captions of the release, in batches as in a run and with their padding. Time and embeddings
are compared on neighbouring captions from the middle of the list, and with the forwards of the images that go with as
many captions. Of the rounds, which take turns, the quickest of each counts. With `--pairs` so many pairs, with images
of noise, are decided in both ways. Exits with 1 when a ratio misses its goal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_runner import lay_out, make_checkpoint, read_pairs, texts_of
from harness import check_goals, read_options, seconds_of, workplace
from PIL import Image

from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import load_model, predict
from vl_assay.model_wrappers.loading.prefixes import grow

BATCH, ROUNDS = 32, 2  # the runner's own batch on a CPU
CAPTIONS_OF_AN_IMAGE = 7.6  # of SugarCrepe: 11,844 different ones of 1,560 images


def batches(numbers: Sequence[int]) -> list[Sequence[int]]:
    """The numbers in batches."""
    return [numbers[start : start + BATCH] for start in range(0, len(numbers), BATCH)]


def decisions(model: Any, sugarcrepe: Path, count: int, folder: Path) -> list[list[int]]:
    """The captions that win, with captions as trees and one by one."""
    data = lay_out(read_pairs(sugarcrepe, count), folder / "release")
    found = []
    for way in (True, False):
        model.shares_prefixes = way
        benchmark = {"data_dir": data, "options": {"verify": False}, "cache": False, "progress": False}
        [file] = predict(model, "sugarcrepe", out=folder / str(way), **benchmark)
        found.append([int(np.argmax(row.scores)) for row in read_predictions(file).rows])
    return found


def main() -> int:
    """Measure, print, and return the exit status."""
    options = read_options(__doc__, sugarcrepe=Path, captions=1024, pairs=0)
    texts = list(dict.fromkeys(texts_of(read_pairs(options.sugarcrepe, 10**9))))
    with workplace() as folder:
        make_checkpoint(texts, folder)
        model: Any = load_model(str(folder))
    ids = model.prepare_captions(texts)
    by_length, by_token = (sorted(range(len(ids)), key=key) for key in (lambda i: len(ids[i]), lambda i: ids[i]))
    padded = sum(len(some) * max(len(ids[i]) for i in some) for some in batches(by_length))
    shared = sum(grow([ids[i] for i in some], 0).ids.numel() for some in batches(by_token))
    start = (len(texts) - options.captions) // 2
    chosen = by_token[start : start + options.captions]
    orders = {True: chosen, False: sorted(chosen, key=lambda i: len(ids[i]))}
    rows = {way: np.empty((len(texts), model.module.config.projection_dim)) for way in orders}
    seconds = dict.fromkeys(orders, np.inf)
    for _ in range(ROUNDS):
        for way, order in orders.items():
            model.shares_prefixes = way

            def work(way: bool = way, order: Sequence[int] = order) -> None:
                for some in batches(order):
                    rows[way][some] = model.encode_captions([ids[i] for i in some])

            seconds[way] = min(seconds[way], seconds_of(work))
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (224, 224, 3), dtype=np.uint8))
    pixels = [model.prepare_image(noise)] * BATCH
    images = min(seconds_of(lambda: model.encode_images(pixels)) for _ in range(ROUNDS)) / BATCH
    images *= options.captions / CAPTIONS_OF_AN_IMAGE
    gap = float(np.abs(rows[True][chosen] - rows[False][chosen]).max())
    print(f"{len(texts):,} captions: {shared:,} tokens against {padded:,}; of {options.captions:,} "
          f"{seconds[True]:.1f} s against {seconds[False]:.1f} s, and {images:.1f} s for their images")  # fmt: skip
    goals = []
    if options.pairs:
        with workplace() as folder:
            with_trees, alone = decisions(model, options.sugarcrepe, options.pairs, folder)
        changed = sum(one != other for one, other in zip(with_trees, alone, strict=True))
        goals.append((f"decisions that differ, of {len(alone):,}", changed, "<=", 0))
    return check_goals(
        "captions as trees of tokens",
        [
            *goals,
            ("tokens read, with / without", shared / padded, "<=", 0.7),
            ("time of the captions, with / without", seconds[True] / seconds[False], "<=", 0.85),
            ("time with the images, with / without", (seconds[True] + images) / (seconds[False] + images), "<=", 0.88),
            ("greatest difference of an embedding", gap, "<=", 1e-5),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
