"""Small sources in SVO-Probes's layout."""

import csv

from noise import write_noise

PLACES = {"images": (".",)}
_PAIRS = ("triplet", "url", "image_id")
NAMES = [
    "sentence",
    *(f"{side}_{name}" for name in _PAIRS for side in ("pos", "neg")),
    "subj_neg",
    "verb_neg",
    "obj_neg",
]
# The sentence, its triplet and the other, the numbers of their images, and which flags are set.
ROWS = (
    ("A child crosses the street.", "child,cross,street", "man,cross,street", 1, 2, (True, False, False)),
    ("A dog lies on grass.", "dog,lie,grass", "dog,run,grass", 3, 4, (False, True, False)),
    ("A girl eats a cake.", "girl,eat,cake", "girl,eat,apple", 5, 6, (False, False, True)),
    ("A man jumps over a fence.", "man,jump,fence", "dog,climb,fence", 2, 3, (True, True, False)),
)


def make(folder):
    with (folder / "svo_probes.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(NAMES)
        for sentence, triplet, other, positive, negative, flags in ROWS:
            urls = [f"https://example.org/{number}.jpg" for number in (positive, negative)]
            table.writerow([sentence, triplet, other, *urls, positive, negative, *flags])
    write_noise([folder / "images" / f"{number}.jpg" for number in range(1, 7)], 20, 24)
    return {}
