"""Small sources in the layout of the Hard Positives repository."""

import json

from noise import write_noise

# Caption, hard positive, hard negative; an image each, two of them shared.
RELATIONS = [
    ("cat in box", "cat within box", "cat out of box"),
    ("dog behind car", "dog to the rear of car", "dog in front of car"),
    ("man wearing hat", "man in hat", "man hitting hat"),
    ("man riding horse", "man traveling on horse", "man cooking horse"),
    ("cat in box", "cat within box", "cat out of box"),  # with the image of the first: a repetition
    ("chair in front of desk", "chair within front of desk", "chair behind desk"),
]
ATTRIBUTES = [
    ("red glove", "crimson glove", "blue glove"),
    ("small dog", "tiny dog", "huge dog"),
    ("covered bed", "covecrimson bed", "green bed"),
    ("standing man", "upright man", "standing man"),
    ("clear sky", "unclouded sky", "cloudy sky"),
    ("gray cat", "grey cat", "pink cat"),
]
SWAPS = [
    ("the old man and the red hat", "the red hat and the old man", "the red man and the old hat"),
    ("the big dog and the wet road", "the wet road and the big dog", "the wet dog and the big road"),
    ("the red cup and the red car", "the red car and the red cup", "the red cup and the red car"),
    ("the tall tree and the white wall", "the white wall and the tall tree", "the white tree and the tall wall"),
]
IMAGES = 4
_FOLDERS = ("data/VG_100K", "data/VG_100K_2", "data/images")
PLACES = {folder: (*{*_FOLDERS, "VG_100K", "VG_100K_2", "images", "."} - {folder},) for folder in _FOLDERS}


def make(folder):
    write_noise([folder / path_of(number) for number in range(IMAGES)], 40, 48)
    write_noise([folder / "data" / "images" / f"9{number}.jpg" for number in range(IMAGES)], 40, 48)
    write(folder, "vl_checklist_relations.json", [(plain(n), *row) for n, row in enumerate(RELATIONS)])
    write(folder, "vl_checklist_attributes.json", [(plain(n), *row) for n, row in enumerate(ATTRIBUTES)])
    write(folder, "visual_genome_attribution.json", [(boxed(n, row[0]), *row) for n, row in enumerate(SWAPS)])
    return {"verify": False}


def write(folder, name, rows):
    """Write `rows`, (other fields, caption, hard positive, hard negative) each, into both files of that name."""
    for place, chosen in (("data", 1), ("swapped_data", 2)):
        (folder / place).mkdir(parents=True, exist_ok=True)
        records = [{**row[0], "true_caption": row[chosen], "false_caption": row[3]} for row in rows]
        (folder / place / name).write_text(json.dumps(records), encoding="utf-8")


def path_of(number):
    return f"data/VG_100K{'_2' if number % 2 else ''}/{number}.jpg"


def plain(number):
    return {"image_id": str(number % IMAGES), "image_path": path_of(number % IMAGES)}


def boxed(number, caption):
    _, first, _, _, _, second, _ = caption.split()
    return {
        "image_path": f"9{number % IMAGES}.jpg",
        "bbox_x": 4 * number,
        "bbox_y": 2,
        "bbox_w": 20,
        "bbox_h": 30,
        "attributes": [first, second],
    }
