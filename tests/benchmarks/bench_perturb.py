"""Time to perturb as many captions as COCO-Order has, and to make negatives of them, in one process.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_perturb.py

The captions are made up, of the length of COCO's. Exits with 1 when the four perturbations of 25,010 captions take two
minutes or more, which leaves a second core unused.
"""

from __future__ import annotations

import sys

import numpy as np
from harness import seconds_of

from vl_assay.hub_datasets.authoring.text.negatives import NEGATIONS, negations, negclip_negatives
from vl_assay.hub_datasets.authoring.text.perturb import SHUFFLES, TEXT_SHUFFLES, perturb
from vl_assay.hub_datasets.authoring.text.tagging import tag, tagger_name

CAPTIONS, GOAL = 25_010, 120.0
TEMPLATES = (
    "A {a} {n} sitting on top of a {a} {n} next to a {n}.",
    "Two {n}s are standing in the {n} with a very {a} {n}",
    "The {n} is slowly walking past a {n} while a {a} {n} watches.",
    "A {n} of {a}, {a} {n}s that someone's {n} holds.",
)
NOUNS = ("dog", "man", "table", "pizza", "street", "bus", "kitchen", "umbrella", "horse", "frisbee", "half-pipe")
ADJECTIVES = ("red", "large", "old", "wooden", "little", "empty", "parked", "colorful")


def make_captions() -> list[str]:
    rng = np.random.default_rng(0)
    captions = []
    for number in range(CAPTIONS):
        text = TEMPLATES[number % len(TEMPLATES)]
        while "{" in text:
            text = text.replace("{n}", str(rng.choice(NOUNS)), 1).replace("{a}", str(rng.choice(ADJECTIVES)), 1)
        captions.append(f"{text} {number}")
    return captions


def main() -> int:
    captions = make_captions()
    print(f"{CAPTIONS:,} captions of {np.mean([len(text.split()) for text in captions]):.1f} words")
    taggers = dict.fromkeys(tagger_name(name).split()[0] for name in ("textblob", "auto"))
    seconds = 0.0
    for tagger in taggers:
        seconds = seconds_of(lambda tagger=tagger: perturb(captions, SHUFFLES, tagger=tagger))
        print(f"{tagger_name(tagger)}: the four perturbations {seconds:.1f} s; allowed {GOAL:.0f} s")
        if seconds >= GOAL:
            return 1
    for what, work in {
        "tags": lambda: tag(captions, "textblob"),
        "five perturbations": lambda: perturb(captions, TEXT_SHUFFLES, tagger="textblob"),
        "NegCLIP's negatives": lambda: negclip_negatives(captions, tagger="textblob"),
        "CREPE's negations": lambda: [
            negations(tagged, kind) for tagged in tag(captions, "textblob") for kind in NEGATIONS
        ],
    }.items():
        print(f"  {what}: {seconds_of(work):.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
