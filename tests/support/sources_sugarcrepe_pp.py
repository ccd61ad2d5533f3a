"""Small sources in SugarCrepe++'s layout."""

import json

from noise import write_noise

CONFIGS = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
PLACES = {"data": (".",), "val2017": ("images/val2017", ".")}
TEXTS = (
    ("a red cup on a table", "on a table stands a red cup", "a blue cup on a table"),
    ("two dogs run", "a pair of dogs is running", "two dogs sleep"),
    ("a man holds a kite", "a kite is held by a man", "a kite holds a man"),
)


def make(folder):
    (folder / "data").mkdir()
    for config in CONFIGS:
        rows = [
            {"id": 2 * number, "filename": f"{number % 2:012}.jpg", "caption": first, "caption2": second}
            | {"negative_caption": f"{negative} ({config})"}
            for number, (first, second, negative) in enumerate(TEXTS)
        ]
        (folder / "data" / f"{config}.json").write_text(json.dumps(rows), encoding="utf-8")
    write_noise([folder / "val2017" / f"{number:012}.jpg" for number in range(2)], 20, 24)
    return {"verify": False}
