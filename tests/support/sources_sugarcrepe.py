"""Small sources in SugarCrepe's layout."""

CATEGORIES = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
CONFIGS = CATEGORIES
PLACES = {"data": (".",), "val2017": ("images/val2017", ".")}


def make(folder):
    make_sugarcrepe(folder, rows=6, images=6, categories=CATEGORIES)
    return {"verify": False}


def make_sugarcrepe(folder, rows, images, size=(48, 40), categories=("add_att", "swap_obj")):
    """SugarCrepe's file layout with made-up captions and noise for photographs."""
    import json

    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    (folder / "data").mkdir(parents=True)
    (folder / "val2017").mkdir()
    for number in range(images):
        pixels = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize(size).save(folder / "val2017" / f"{number:012d}.jpg")
    nouns, colours = ("cat", "dog", "box", "star", "ring", "man"), ("red", "blue", "green", "pink", "small", "big")
    for category in categories:
        records = {}
        for number in range(rows):
            a, b = rng.choice(nouns, 2, replace=False)
            c, d = rng.choice(colours, 2, replace=False)
            records[str(number + number // 7)] = {
                "filename": f"{number % images:012d}.jpg",
                "caption": f"a {c} {a} left of a {d} {b} number {number}",
                "negative_caption": f"a {d} {a} left of a {c} {b} number {number}",
            }
        (folder / "data" / f"{category}.json").write_text(json.dumps(records), encoding="utf-8")
    return folder
