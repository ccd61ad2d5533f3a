"""Small sources in SPEC's layout: of each file two rows, of which the last key is true, and the first.

Images are scenes of toy_scenes, so that mocks have known results: image number n of a subset has thing number n, and a
pill whose colour all images of the subset share.
"""

import json

from vl_assay.hub_datasets.spec.subsets import SUBSETS
from vl_assay.hub_datasets.toy_scenes.render import to_png
from vl_assay.hub_datasets.toy_scenes.world import COLOURS, SHAPES, Scene, Thing

_PILLS = ("red", "blue", "green", "yellow", "purple", "pink")
PLACES = {subset: (f"data/{subset}",) for subset in SUBSETS}


def make(folder):
    for (subset, count), pill in zip(SUBSETS.items(), _PILLS, strict=True):
        images, captions = [], []
        (folder / subset / "images").mkdir(parents=True)
        for number in range(count):
            shape, colour = SHAPES[number // 4], COLOURS[number % 4]
            images.append(f"images/{subset}-{number}.png")
            captions.append(f"a {colour} {shape} and a {pill} pill")
            things = (shape, colour, 23), ("pill", pill, 105)
            scene = Scene(tuple(Thing(kind, shade, "small", "plain", x, 64) for kind, shade, x in things))
            (folder / subset / images[-1]).write_bytes(to_png(scene))
        for file, queries, keys in (("image2text", images, captions), ("text2image", captions, images)):
            rows = [{"query": queries[label], "keys": keys, "label": label} for label in (count - 1, 0)]
            (folder / subset / f"{file}.json").write_text(json.dumps(rows), encoding="utf-8")
    return {}
