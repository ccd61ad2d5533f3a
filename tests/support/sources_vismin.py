"""Small sources in VisMin's layout: the Hub's Parquet conversion, and the authors' file of solutions."""

import csv

from parquet_sources import noise_files, stored_images, write_parquet

from vl_assay.hub_datasets.vismin.builder import RELATIONS, SOLUTIONS, TABLE

PLACES = {"default": ("vismin-bench/default",), "solutions": (".", "vismin-bench/solutions")}
# The category, its own number of the row, both captions, and whether they are exchanged.
ROWS = (
    ("object", 0, "A cat on a bed.", "A dog on a bed.", False),
    ("object", 1, "A red bus.", "A red car.", True),
    ("attribute", 0, "A red cup.", "A blue cup.", False),
    ("relation", 0, "A cup left of a bowl.", "A cup right of a bowl.", True),
    ("counting", 0, "Two apples.", "Three apples.", True),
)


def make(folder):
    first, second = noise_files(5, "JPEG"), noise_files(5, seed=1)
    rows = [
        {"id": number, "image_0": first[n], "text_0": texts[0], "image_1": second[n], "text_1": texts[1]}
        | {"text_question_0": "Which one?", "category": category}
        for n, (category, number, *texts, _) in enumerate(ROWS)
    ]
    write_parquet(folder / "default" / "test", "part", rows, ["image_0", "image_1"], shards=2)
    straight, exchanged = RELATIONS
    (folder / "solutions").mkdir()
    with (folder / "solutions" / SOLUTIONS.name).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["idx", "Text", "Image", "category"])
        table.writerows([number, *(exchanged if other else straight), kind] for kind, number, _, _, other in ROWS)
    return {"verify": False}


def stored(folder):
    return stored_images(folder, TABLE.images)
