"""Small source files of Cola, in the layout of its release."""

import json

from noise import write_noise

ANNOTATIONS = "data/COLA_multiobjects_matching_benchmark.json"
PLACES = {"data": (".",), "images": ("vg_gqa_images", "VG_100K", "VG_100K_2", ".")}
SERVER = "https://cs-people.bu.edu/array/data/vg_gqa_images"
# (image 0, caption 0, image 1, caption 1): rows 0 and 2 share both images, row 3 shares one with row 1.
GROUPS = (
    ("11.jpg", "white shirt to the left of blue pants", "12.jpg", "blue shirt to the left of white pants"),
    ("13.jpg", "small dog behind large brown chair", "14.jpg", "brown dog on small chair"),
    ("11.jpg", "blue pants below white shirt", "12.jpg", "white pants below blue shirt"),
    ("14.jpg", "red cup near small chair", "15.jpg", "small cup on red chair"),
    ("16.jpg", "black letters on yellow sign", "17.jpg", "yellow letters on black sign"),
)


def rows(server=SERVER):
    """The annotations, with images that lie at `server`."""
    return [
        [f"{server}/{image_0}", text_0, f"{server}/{image_1}", text_1] for image_0, text_0, image_1, text_1 in GROUPS
    ]


def write_images(folder):
    """Noise under the names of the photographs, no two alike."""
    write_noise([folder / name for name in sorted({name for group in GROUPS for name in group[::2]})], 24, 32)


def make(folder):
    path = folder / ANNOTATIONS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows()), encoding="utf-8")
    write_images(folder / "images")
    return {"verify": False}
