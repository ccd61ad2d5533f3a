"""Small sources in the layout of Karpathy's test splits; those of ARO's order configurations are made of them too."""

import json

from noise import write_noise

PLACES = {folder: (f"images/{folder}", ".") for folder in ("val2014", "flickr30k-images")}
CAPTIONS = (
    "A small brown dog sits on a red chair.",
    "Two men, in blue shirts, ride horses near a wooden fence",
    " A woman with a half-pipe and the girl's umbrella ",
    "there is a large cat under an old table",
    "The bus stops at a busy street corner by the river",
)
# Path in the file and captions by image, of each file: one with six captions, one with a word alone and one where
# nouns and adjectives have one order.
ENTRIES = {
    "coco_karpathy_test.json": [
        (f"val2014/COCO_val2014_{number:012d}.jpg", [f"{text} {'very ' * number}well" for text in CAPTIONS])
        for number in range(4)
    ]
    + [("val2014/COCO_val2014_000000000042.jpg", [*CAPTIONS[:4], "Zebras", "He is running and jumping very fast."])],
    "flickr30k_test.json": [
        (f"flickr30k-images/{number + 1007129816}.jpg", [f"{text} {number} times" for text in CAPTIONS])
        for number in range(4)
    ],
}
# The validation splits: other images.
for name, test in (
    ("coco_karpathy_val.json", "coco_karpathy_test.json"),
    ("flickr30k_val.json", "flickr30k_test.json"),
):
    ENTRIES[name] = [
        (path.replace("/COCO_val2014_0", "/COCO_val2014_9").replace("/1", "/2"), [f"{text} again" for text in texts])
        for path, texts in ENTRIES[test][:3]
    ]


def make(folder):
    for name, entries in ENTRIES.items():
        write(folder / name, entries)
    write_noise([folder / path for entries in ENTRIES.values() for path, _ in entries], 25, 34)
    return {"verify": False}


def write(path, entries):
    """Write one file; ``image_id`` is a field that no builder knows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [
        {"image": image, "image_id": number, "caption": captions} for number, (image, captions) in enumerate(entries)
    ]
    path.write_text(json.dumps(records), encoding="utf-8")
