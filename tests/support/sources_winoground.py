"""Small source files of Winoground, in both layouts of its release."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

PLACES = {"data": (".",)}
PAIRS = (
    ("a dog bites a man", "a man bites a dog", "Object", []),
    ("red ball, blue box", "blue ball, red box", "Object", ["Unusual Text"]),
    ("she sits before she eats", "she eats before she sits", "Relation", ["Complex Reasoning", "Unusual Image"]),
    ("the cat is on the mat", "the mat is on the cat", "Object", ["Visually Difficult"]),
    ("fire truck", "truck fire", "Both", ["Non Minimal"]),
)


def make(folder: Path) -> dict[str, Any]:
    """Write a user's own copy into `folder`; return the builder's options that it needs."""
    write_texts(folder / "data")
    write_images(folder / "data" / "images")
    write_tags(folder)
    return {"verify": False}


def examples() -> list[dict[str, Any]]:
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


def images() -> dict[str, bytes]:
    """The files by their names: noise, no two alike."""
    rng = np.random.default_rng(0)
    files = {}
    for example in examples():
        for side in "01":
            buffer = io.BytesIO()
            Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)).save(buffer, "PNG")
            files[f"{example[f'image_{side}']}.png"] = buffer.getvalue()
    return files


def write_texts(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(example) for example in examples()]
    (folder / "examples.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_images(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in images().items():
        (folder / name).write_bytes(content)


def write_tags(folder: Path) -> None:
    tags = {str(number): pair[3] for number, pair in enumerate(PAIRS)}
    (folder / "new_tag_assignments.json").write_text(json.dumps(tags), encoding="utf-8")


def write_parquet(folder: Path, shards: int = 2) -> None:
    """The other layout: Parquet files with everything, the numbers of 32 bits as the Hub declares them."""
    folder.mkdir(parents=True, exist_ok=True)
    files, records = images(), examples()
    for example in records:
        for side in "01":
            name = f"{example[f'image_{side}']}.png"
            example[f"image_{side}"] = {"bytes": files[name], "path": name}
    table = pa.Table.from_pylist(records)
    for name in ("id", "num_main_preds"):
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(pa.int32()))
    size = -(-len(records) // shards)
    for shard in range(shards):
        part = table.slice(shard * size, size)
        pq.write_table(part, folder / f"test-{shard:05d}-of-{shards:05d}.parquet", row_group_size=2)
