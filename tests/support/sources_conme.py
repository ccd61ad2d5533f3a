"""Small sources in ConMe's layout."""

import csv

from noise import write_noise

CONFIGS = ("replace_att", "replace_obj", "replace_rel")
PLACES = {"images": (".",)}
HEADER = ("id", "image", "question", "text_options", "correct")
ROWS = (
    (4, "images/000000000001.jpg", "What is it?", "['a red cup', \"a cup that isn't red\"]", "A"),
    (9, "images/000000000002.jpg", "Who runs?", "['a cat, running', 'a dog']", "B"),
)


def write_rows(folder, config, rows=ROWS, header=HEADER):
    path = folder / f"{config.replace('_', '-')}_HUMAN_FILTER.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def make(folder):
    for config in CONFIGS:
        write_rows(folder, config)
    write_noise([folder / row[1] for row in ROWS], 20, 24)
    return {}
