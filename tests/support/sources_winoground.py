"""Small source files of Winoground, in both layouts of its release."""

import json

import parquet_sources
from parquet_sources import noise_files

PLACES = {"data": (".",)}
PAIRS = (
    ("a dog bites a man", "a man bites a dog", "Object", []),
    ("red ball, blue box", "blue ball, red box", "Object", ["Unusual Text"]),
    ("she sits before she eats", "she eats before she sits", "Relation", ["Complex Reasoning", "Unusual Image"]),
    ("the cat is on the mat", "the mat is on the cat", "Object", ["Visually Difficult"]),
    ("fire truck", "truck fire", "Both", ["Non Minimal"]),
)


def make(folder):
    write_texts(folder / "data")
    write_images(folder / "data" / "images")
    write_tags(folder)
    return {"verify": False}


def examples():
    """The lines of ``examples.jsonl``."""
    return [
        {
            "id": number,
            "image_0": f"ex_{number}_img_0",
            "image_1": f"ex_{number}_img_1",
            "caption_0": one,
            "caption_1": other,
            "tag": "Noun",
            "secondary_tag": "Pragmatics" if number == 4 else "",
            "num_main_preds": 1 + number % 2,
            "collapsed_tag": collapsed,
        }
        for number, (one, other, collapsed, _) in enumerate(PAIRS)
    ]


def images():
    """The files by their names: noise, no two alike."""
    names = [f"{example[f'image_{side}']}.png" for example in examples() for side in "01"]
    return dict(zip(names, noise_files(len(names), size=(24, 32)), strict=True))


def write_texts(folder):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(example) for example in examples()]
    (folder / "examples.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_images(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in images().items():
        (folder / name).write_bytes(content)


def write_tags(folder):
    tags = {str(number): pair[3] for number, pair in enumerate(PAIRS)}
    (folder / "new_tag_assignments.json").write_text(json.dumps(tags), encoding="utf-8")


def write_parquet(folder):
    """The other layout: Parquet files with everything."""
    sides, files = ("image_0", "image_1"), images()
    rows = [example | {side: files[f"{example[side]}.png"] for side in sides} for example in examples()]
    parquet_sources.write_parquet(folder, "test", rows, sides, shards=2)
