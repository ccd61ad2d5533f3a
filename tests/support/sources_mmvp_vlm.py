"""Small sources in MMVP-VLM's layout."""

import csv

from noise import write_noise

PLACES = {"MLLM_VLM Images": ("MMVP_VLM_Images", ".")}
ROWS = (
    (1, "Orientation", "a dog facing left"),
    (2, "Orientation", "a dog facing right"),
    (3, "Camera Perspective", "a cup, seen from above"),
    (4, "Camera Perspective", 'a cup, "seen" from the side'),
    (5, "Color", "a red kite"),
    (6, "Color", "a blue kite"),
)


def write_questions(folder, rows=ROWS, header=("Question ID", "Type", "Statement")):
    with (folder / "Questions.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def make(folder):
    write_questions(folder)
    write_noise([folder / "MLLM_VLM Images" / kind / f"{number}.jpg" for number, kind, _ in ROWS], 20, 24)
    return {"verify": False}
