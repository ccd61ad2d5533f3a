"""Small sources in EqBen's layout: the subset, with images in place of the frames that are arrays."""

import json

from noise import write_noise

SUBSETS = ("eqbenag", "eqbenyoucook2", "eqbengebc", "eqbenkubric_loc", "eqbenkubric_attr", "eqbenkubric_cnt", "eqbensd")
PLACES = {"image_subset": ("images", "image", ".")}
SUBSET, FULL = "eqben_subset_10percent_final.json", "private_info_global.json"


def groups(subsets=SUBSETS, suffix="png"):
    """Two groups of each subset, in turns, as the released file is shuffled."""
    return [
        {"image0": f"{subset}/{number}/0_{subset}_{number}.{suffix}", "caption0": f"he sits on chair {number}"}
        | {"image1": f"{subset}/{number}/1_{subset}_{number}.{suffix}", "caption1": f"he stands on chair {number}"}
        for number in range(2)
        for subset in subsets
    ]


def make(folder):
    (folder / SUBSET).write_text(json.dumps(groups()), encoding="utf-8")
    write_noise([folder / "image_subset" / group[f"image{side}"] for group in groups() for side in "01"], 20, 24)
    return {}
