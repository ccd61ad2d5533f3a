"""Small source files of CREPE, in the layout of its release."""

import csv
from pathlib import Path

from noise import write_noise

KINDS = ("atom", "swap", "negate")
COMPLEXITIES = range(4, 13)
TRAINING_SETS = ("cc12m", "yfcc", "laion")
COMPOUNDS = ("seen_compounds", "unseen_compounds")
IMAGES = ("VG_100K/2.jpg", "VG_100K/61.jpg", "VG_100K_2/2400110.jpg")
PLACES = {
    "prod_hard_negatives": ("data/prod_hard_negatives",),
    "prod_hard_negatives/swap": ("swap", "."),
    "syst_hard_negatives": ("data/syst_hard_negatives", "."),
    "VG_100K": ("images/VG_100K", "images", "."),
    "VG_100K_2": ("images/VG_100K_2", "images", "."),
}
WORDS = ["dog", "cat", "ball", "tree", "red", "small", "old", "left", "near", "under", "behind", "above"]
COLUMNS = ("image_id", "caption", "x", "y", "width", "height")


def make(folder):
    for kind in KINDS:
        for complexity in COMPLEXITIES:
            write(productivity_file(folder, kind, complexity), productivity_rows(kind, complexity), "hard_negs")
    for training_set in TRAINING_SETS:
        for compounds in COMPOUNDS:
            write(systematicity_file(folder, compounds, training_set), systematicity_rows(compounds, training_set))
    write_noise([folder / name for name in IMAGES], 40, 60)
    return {}


def productivity_file(folder, kind, complexity):
    return folder / "prod_hard_negatives" / kind / f"prod_vg_hard_negs_{kind}_complexity_{complexity}.csv"


def systematicity_file(folder, compounds, training_set):
    return folder / "syst_hard_negatives" / f"syst_vg_hard_negs_{compounds}_in_{training_set}.csv"


def productivity_rows(kind, complexity):
    """Three rows; the first has five negatives, the next four, the last one three."""
    caption = " ".join(WORDS[:complexity])
    return [
        place(number)
        | {
            "caption": f"{caption} {number}",
            "hard_negs": [f"{kind} of {caption}, {negative}, it's {number}" for negative in range(5 - number)],
        }
        for number in range(3)
    ]


def systematicity_rows(compounds, training_set):
    """Three rows with a list of each kind."""
    atom, comp = [f"{training_set} {compounds} atom {n}" for n in range(3)], [f'a "{training_set}" comp, {compounds}']
    return [
        place(number)
        | {
            "region_id": 370 + number,
            "caption": f"a red brick paved sidewalk {number}",
            "valid_hard_negs_atom": atom[: number + 1],
            "valid_hard_negs_comp": comp,
            "valid_hard_negs_combined": atom[: number + 1] + comp,
        }
        for number in range(3)
    ]


def place(number):
    """The image of a row and the box in it."""
    image = int(Path(IMAGES[number % len(IMAGES)]).stem)
    return {"image_id": image, "x": 3 + number, "y": 2 * number, "width": 20 + number, "height": 15}


def write(path, rows, *lists):
    """Write rows as pandas does: lists as Python prints them, and an index without a name in front."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        columns = list(rows[0]) if rows else [*COLUMNS, *lists]
        writer.writerow(["", *columns])
        writer.writerows([number, *(row[column] for column in columns)] for number, row in enumerate(rows))
