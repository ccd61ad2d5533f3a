"""Small sources in the layout of ARO's release, and of the files that its order configurations are made of."""

import json

import sources_retrieval
from noise import write_noise

RELATIONS = ("on", "eating", "to the left of", "next to")
# 26 rows of one pair and 4 of another: the macro average takes pairs of 25 rows and more.
ATTRIBUTES = (("small", "brown"),) * 26 + (("open", "white"),) * 4
IMAGES = 5
PLACES = {"images": (".",), **sources_retrieval.PLACES}


def make(folder):
    write_noise([folder / "images" / f"{number + 2315000}.jpg" for number in range(IMAGES)], 40, 60)
    relations = [relation_row(number, RELATIONS[number % len(RELATIONS)]) for number in range(12)]
    attributes = [attribute_row(number, *pair) for number, pair in enumerate(ATTRIBUTES)]
    write(folder / "visual_genome_relation.json", relations)
    write(folder / "visual_genome_attribution.json", attributes)
    return sources_retrieval.make(folder)


def relation_row(number, relation):
    return place(number) | {
        "true_caption": f"the horse is {relation} the grass",
        "false_caption": f"the grass is {relation} the horse",
        "relation_name": relation,
    }


def attribute_row(number, one, two):
    return place(number) | {
        "true_caption": f"the {one} cat and the {two} door",
        "false_caption": f"the {two} cat and the {one} door",
        "attributes": [one, two],
    }


def place(number):
    """The image and the box of a row; ``image_id`` is a field that the builder does not know."""
    image = number % IMAGES + 2315000
    left, top = number % 7, number % 3
    box = {"bbox_x": left, "bbox_y": top, "bbox_w": 50 - left, "bbox_h": 30 + top}
    return {"image_id": str(image), "image_path": f"{image}.jpg", **box}


def write(path, rows):
    path.write_text(json.dumps(rows), encoding="utf-8")
