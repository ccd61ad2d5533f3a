"""Small sources in SPEC's layout: of each file two rows, of which the last key is true, and the first."""

from __future__ import annotations

import json

from noise import write_noise

from vl_assay.hub_datasets.spec.subsets import SUBSETS

PLACES = {subset: (f"data/{subset}",) for subset in SUBSETS}


def make(folder):
    """Lay out the files; the options with which they are built."""
    for subset, count in SUBSETS.items():
        images = [f"images/{subset}-{number}.jpg" for number in range(count)]
        captions = [f"{subset}: {number} of a kind." for number in range(count)]
        write_noise([folder / subset / image for image in images], 20, 24)
        for file, queries, keys in (("image2text", images, captions), ("text2image", captions, images)):
            rows = [{"query": queries[label], "keys": keys, "label": label} for label in (count - 1, 0)]
            (folder / subset / f"{file}.json").write_text(json.dumps(rows), encoding="utf-8")
    return {}
