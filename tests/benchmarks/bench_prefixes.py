"""Captions that begin alike, read as trees of tokens against one by one, as ratios measured in one run.

    python tests/benchmarks/bench_prefixes.py --sugarcrepe DIR [--captions 1024] [--pairs 300]

`DIR` holds the released annotations (``swap_obj.json`` …). The model is a ViT-B/32 CLIP with random weights, float32.
Tokens are counted over all captions of the release, in batches as in a run and with their padding. Time and embeddings
are compared on neighbouring captions from the middle of the list, and with the forwards of the images that go with as
many captions. Of the rounds, which take turns, the quickest of each counts. So many pairs, with images of noise, are
decided in both ways. Exits with 1 when a ratio misses its goal, or a decision differs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_runner import lay_out, make_checkpoint, read_pairs, texts_of
from harness import check_goals, least_in_turns, read_options, seconds_of, workplace
from PIL import Image

from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import load_model, predict
from vl_assay.model_wrappers.loading.prefixes import grow

BATCH, ROUNDS = 32, 4  # the runner's own batch on a CPU
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
    options = read_options(__doc__, sugarcrepe=Path, captions=1024, pairs=300)
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
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8))
    pixels = [model.prepare_image(noise)] * BATCH

    def read(way: bool) -> None:
        model.shares_prefixes = way
        for some in batches(orders[way]):
            rows[way][some] = model.encode_captions([ids[i] for i in some]).cpu().numpy()

    ways = {
        "trees": lambda: seconds_of(lambda: read(True)),
        "alone": lambda: seconds_of(lambda: read(False)),
        "images": lambda: seconds_of(lambda: model.encode_images(pixels).cpu()),
    }
    trees, alone, images = least_in_turns(ways, ROUNDS).values()
    images *= options.captions / CAPTIONS_OF_AN_IMAGE / BATCH
    gap = float(np.abs(rows[True][chosen] - rows[False][chosen]).max())
    print(f"{len(texts):,} captions: {shared:,} tokens against {padded:,}; of {options.captions:,} "
          f"{trees:.1f} s against {alone:.1f} s, and {images:.1f} s for their images")  # fmt: skip
    with workplace() as folder:
        decided = [*zip(*decisions(model, options.sugarcrepe, options.pairs, folder), strict=True)]
    changed = sum(one != other for one, other in decided)
    return check_goals(
        "captions as trees of tokens",
        [
            (f"decisions that differ, of {len(decided):,}", changed, "<=", 0),
            ("tokens read, with / without", shared / padded, "<=", 0.7),
            ("time of the captions, with / without", trees / alone, "<=", 0.85),
            ("time with the images, with / without", (trees + images) / (alone + images), "<=", 0.88),
            ("greatest difference of an embedding", gap, "<=", 1e-5),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
