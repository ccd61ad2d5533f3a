"""Small sources in the layout of NaturalBench: Parquet files of questions, and the unpacked retrieval set."""

import json

from noise import write_noise
from parquet_sources import noise_files, stored_images, write_parquet

from vl_assay.hub_datasets.naturalbench.builder import TABLE

PLACES = {"data": ("NaturalBench/data", "."), "NaturalBench-Retrieval": (".",)}
# The configuration whose number of rows is known.
VERIFIED = ("vqa",)
KINDS = {"yes_no": ("Yes", "No", ""), "multiple_choice": ("A", "B", " Option: A: red; B: blue;")}


def records(count=5):
    """Rows of questions without images, of both types by turns; answers as in the release."""
    rows = []
    for number in range(count):
        kind = ("yes_no", "multiple_choice")[number % 2]
        first, second, options = KINDS[kind]
        questions = {f"Question_{each}": f"Is cup {number} on image {each}?{options}" for each in "01"}
        answers = {"Image_0_Question_0": first, "Image_1_Question_0": second}
        answers |= {"Image_0_Question_1": second, "Image_1_Question_1": first}
        rows.append({"Index": number, **questions, **answers, "Question_Type": kind, "Source": "DOCCI"})
    return rows


def write_questions(folder, rows):
    files = noise_files(2 * len(rows), "JPEG")
    filled = [row | {"Image_0": files[2 * n], "Image_1": files[2 * n + 1]} for n, row in enumerate(rows)]
    write_parquet(folder / "data", "train", filled, ["Image_0", "Image_1"], shards=2)


def write_pairs(folder, rows):
    place = folder / "NaturalBench-Retrieval" / "metadata.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(rows), encoding="utf-8")


def pairs():
    return [
        {"index": n, "image_0": f"{2 * n}.jpg", "image_1": f"{2 * n + 1}.jpg"}
        | {"caption_0": f"a man with {n} dogs", "caption_1": f"a dog with {n} men"}
        for n in range(3)
    ]


def make(folder):
    write_questions(folder, records())
    write_pairs(folder, pairs())
    write_noise([folder / "NaturalBench-Retrieval" / "images" / f"{n}.jpg" for n in range(6)], 20, 24)
    return {"verify": False}


def stored(folder):
    """The images inside the Parquet files, and those that are files."""
    return [*stored_images(folder, TABLE.images), *sorted(folder.rglob("*.jpg"))]
