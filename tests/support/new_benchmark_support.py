"""What the tests of new benchmarks share: a folder of images with captions, and settings that are quickly done."""

import numpy as np
from language_model_stand_in import COLOURS, NOUNS
from PIL import Image

from vl_assay.hub_datasets.authoring.pipeline.settings import Settings


def photos(folder, number=80):
    """A folder of images with captions that the stand-in of a language model understands."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    rows = ["file_name,caption"]
    for k in range(number):
        Image.fromarray(rng.integers(0, 255, (4, 4, 3), np.uint8)).save(folder / f"{k}.png")
        (one, other), (first, second) = rng.permutation(NOUNS)[:2], rng.permutation(COLOURS)[:2]
        rows.append(f"{k}.png,a {first} {one} near a {second} {other}")
    (folder / "metadata.csv").write_text("\n".join(rows), encoding="utf-8")
    return str(folder)


def quick(source, work, **changes):
    """Swapped attributes, unseen by people, one round of refinement and a lenient audit."""
    options = {"rules": True, "review": False, "kinds": ("swap_att",), "learned": 1, "max_blind_accuracy": 0.7}
    return Settings(**{"name": "swapped", "source": source, "work": work, **options, **changes})
