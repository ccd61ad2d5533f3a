"""Small sources in the layout of BiVLC on the Hub: Parquet files with images inside."""

from parquet_sources import noise_files, stored_images, write_parquet

from vl_assay.hub_datasets.bivlc.builder import TABLE

PLACES = {"data": ("BiVLC/data", ".")}
KINDS = (("replace", "obj"), ("replace", "rel"), ("add", "att"), ("swap", "obj"), ("add", "att"))


def make(folder):
    positives, negatives = noise_files(5, "JPEG"), noise_files(5, "PNG", (32, 32), seed=1)
    rows = [
        {"image": positives[n], "caption": f"a red cup {n}", "negative_caption": f"a blue cup {n}"}
        | {"negative_image": negatives[n], "type": kind, "subtype": subtype}
        for n, (kind, subtype) in enumerate(KINDS)
    ]
    write_parquet(folder / "data", "test", rows, ["image", "negative_image"], shards=2)
    return {"verify": False}


def stored(folder):
    return stored_images(folder, TABLE.images)
