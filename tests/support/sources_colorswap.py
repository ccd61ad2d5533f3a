"""Small sources of ColorSwap, in the layout of the authors' archive, and as Parquet files of the Hub."""

import json

from noise import write_noise
from parquet_sources import write_parquet

PLACES = {"images": ("images/images",)}
# Ids are not contiguous.
IDS = {"test": (9, 11, 20), "train": (0, 1, 3, 10)}


def rows(config):
    """The records of the authors' JSON file of a configuration."""
    return [
        {
            "id": number,
            "caption_1": f"a red cup on a blue box {number}",
            "caption_2": f"a blue cup on a red box {number}",
        }
        | {f"image_{side}": f"images/img_{number}_{side}.png" for side in (1, 2)}
        | {"image_source": "midjourney", "caption_source": "human"}
        for number in IDS[config]
    ]


def make(folder):
    """Lay out the authors' files; the options with which they are built."""
    for config in IDS:
        (folder / f"{config}.json").write_text(json.dumps(rows(config)), encoding="utf-8")
    write_noise(
        [folder / row[name] for config in IDS for row in rows(config) for name in ("image_1", "image_2")], 20, 24
    )
    return {"verify": False}


def make_tables(folder, source):
    """The same rows and images as `make` laid out in `source`, as the Hub has them."""
    for config in IDS:
        stored = [
            row | {name: (source / row[name]).read_bytes() for name in ("image_1", "image_2")} for row in rows(config)
        ]
        write_parquet(folder / "data", config, stored, ["image_1", "image_2"])
