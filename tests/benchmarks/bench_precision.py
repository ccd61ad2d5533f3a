"""``--dtype auto`` against float32, as ratios measured in one run.

    python tests/benchmarks/bench_precision.py --sugarcrepe DIR [--pairs 7511] [--model demo-clip] [--rounds 2]

`DIR` holds the released annotations (``swap_obj.json`` …). The pairs are the first ones by image, the images are noise
(640 × 480), and the model is a ViT-B/32 CLIP with random weights, or `--model`. Times are of the scores, without
loading; of the rounds, in which both take turns, the quickest of each counts. Exits with 1 when a decision differs, or
the ratio misses its goal.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from bench_runner import lay_out, make_checkpoint, read_pairs, texts_of
from harness import check_goals, read_options, workplace

from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict


def main() -> int:
    """Measure, print, and return the exit status."""
    options = read_options(__doc__, sugarcrepe=Path, pairs=7511, model="", rounds=2)
    with workplace() as folder:
        pairs = read_pairs(options.sugarcrepe, options.pairs)
        data = lay_out(pairs, folder / "release")
        name = options.model
        if not name:
            make_checkpoint(texts_of(pairs), folder / "model")
            name = str(folder / "model")
        found, seconds = {}, defaultdict(list)
        for dtype in ("auto", "float32") * options.rounds:
            out = folder / f"{dtype}-{len(seconds[dtype])}"
            benchmark = {"data_dir": data, "options": {"verify": False}, "cache": False}
            files = predict(name, "sugarcrepe", out=out, dtype=dtype, progress=False, **benchmark)
            found[dtype] = read_predictions(files[0])
            seconds[dtype].append(found[dtype].metadata["run"]["seconds"]["scores"])
    facts = found["auto"].metadata["run"]
    chosen = [[int(np.argmax(row.scores)) for row in found[dtype].rows] for dtype in found]
    changed = sum(one != other for one, other in zip(*chosen, strict=True))
    print({key: value for key, value in facts.items() if "16" in key or "float32" in key or "sample" in key})
    print(f"{len(chosen[0]):,} pairs, seconds: {dict(seconds)}")
    return check_goals(
        "dtype auto",
        [
            ("time of float32 / auto", min(seconds["float32"]) / min(seconds["auto"]), ">=", 1.4),
            ("decisions that differ", changed, "<=", 0),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
