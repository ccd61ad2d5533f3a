"""Speed of captions that continue from an image's keys and values, as ratios measured in one run.

    python tests/benchmarks/bench_generative.py [--images 8] [--captions 10] [--layers 4] [--width 256]

The model is a LLaVA with random weights whose images have 144 tokens; each image has ten captions, scored in one batch.
Compared are the forward passes of `vqascore` with the tokens that an image's prompts begin with computed once, and with
the vision tower's output alone shared, as before. Of the rounds, which take turns, the quickest of each counts; the
scores must agree. Exits with 1 when a ratio misses its goal.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from harness import check_goals, read_options, seconds_of, workplace
from PIL import Image

from vl_assay.model_wrappers import load_model

ROUNDS = 3


def main() -> int:
    """Measure, print, and return the exit status."""
    options = read_options(__doc__, images=8, captions=10, layers=4, width=256)
    with workplace() as folder:
        from tiny_models.generative import tiny_llava

        width = {
            "hidden_size": options.width,
            "intermediate_size": 4 * options.width,
            "num_hidden_layers": options.layers,
        }
        tiny_llava(folder, side=96, **width, num_attention_heads=8, num_key_value_heads=8)
        model: Any = load_model(str(folder))
    rng = np.random.default_rng(0)
    noise = [Image.fromarray(rng.integers(0, 256, (96, 96, 3), dtype=np.uint8)) for _ in range(options.images)]
    words = ("red", "big", "cat", "dogs", "near", "two")
    texts = [" ".join(rng.choice(words, rng.integers(6, 14))) for _ in range(options.images * options.captions)]
    seen = model.encode_images([model.prepare_image(image) for image in noise])
    captions, places = model.prepare_captions(texts), np.repeat(np.arange(options.images), options.captions)
    tokens, scores, seconds = {}, {}, {True: np.inf, False: np.inf}
    count: list[int] = []
    model.module.model.language_model.layers[0].register_forward_hook(
        lambda _, given, __: count.append(given[0].shape[0] * given[0].shape[1])
    )
    way = model._forward.way
    if not way.continues:
        sys.exit("this model's captions do not continue: nothing to compare")
    for _ in range(ROUNDS):
        for continues in (True, False):
            model._forward.way = way._replace(continues=continues)
            count.clear()

            def work(continues: bool = continues) -> None:
                scores[continues] = model.match(seen, places.tolist(), captions)

            seconds[continues] = min(seconds[continues], seconds_of(work))
            tokens[continues] = sum(count)
    gap = float(np.abs(scores[True] - scores[False]).max())
    print(f"{len(texts)} captions: {tokens[True]:,} tokens against {tokens[False]:,}, "
          f"{seconds[True]:.2f} s against {seconds[False]:.2f} s")  # fmt: skip
    return check_goals(
        "captions that continue from their image",
        [
            ("tokens through the language model, without / with", tokens[False] / tokens[True], ">=", 3),
            ("time, without / with", seconds[False] / seconds[True], ">=", 2),
            ("greatest difference of a score, of log-odds in float32", gap, "<=", 1e-4),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
