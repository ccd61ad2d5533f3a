"""Small sources in the layout of COCO-Counterfactuals."""

import json

from noise import write_noise

PLACES = {"data": (".",), "data/images": ("images", ".")}
# An id may be a number.
PAIRS = (("236308_0", "dog", "cat"), ("236308_1", "dog", "horse"), (71, "kite", "balloon"))


def records():
    """The lines of ``examples.jsonl``."""
    return [
        {"id": key, "image_0": f"{key}_img_0", "image_1": f"{key}_img_1"}
        | {f"caption_{side}": f"A {noun} in a park." for side, noun in enumerate(nouns)}
        for key, *nouns in PAIRS
    ]


def make(folder):
    (folder / "data").mkdir(exist_ok=True)
    lines = "".join(f"{json.dumps(row)}\n" for row in records())
    (folder / "data" / "examples.jsonl").write_text(lines, encoding="utf-8")
    names = [row[f"image_{side}"] for row in records() for side in "01"]
    write_noise([folder / "data" / "images" / f"{name}.jpg" for name in names], 20, 24)
    return {}
