"""Small sources in VALSE's layout."""

import json

from noise import write_noise

FOLDERS = {
    "existence": "visual7w/images",
    "plurals": "plurals/test_images",
    "counting-hard": "visual7w/images",
    "counting-small-quant": "visual7w/images",
    "counting-adversarial": "visual7w/images",
    "relations": "relations/test_images",
    "action-replacement": "actions/images_512",
    "actant-swap": "actions/images_512",
    "coreference-standard": "coref/release_too_many_is_this_in_color/images",
    "coreference-hard": "coref/release_v18/test_images",
    "foil-it": "val2014",
}
PLACES = {}


def make(folder):
    """Lay out the files, the last row of each not valid; the options with which they are built."""
    (folder / "data").mkdir()
    for piece, place in FOLDERS.items():
        names = [f"{place.replace('/', '_')}_{number}.jpg" for number in range(2)]
        rows = {
            f"{piece.split('-')[0]}_test_{number}": {
                "dataset": "visual7w",
                "image_file": names[number % 2],
                "caption": f"There are {number + 2} cats ({piece}).",
                "foil": f"There are {number + 5} cats ({piece}).",
                "classes": number if number % 2 else str(number),
                "classes_foil": [str(number)],
                "linguistic_phenomena": piece,
                "mturk": {"foil": number, "caption": 3 - number, "other": 0},
            }
            for number in range(3)
        }
        (folder / "data" / f"{piece}.json").write_text(json.dumps(rows), encoding="utf-8")
        write_noise([folder / "data" / place / name for name in names], 20, 24)
    return {"verify": False}
