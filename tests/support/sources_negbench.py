"""Small sources in NegBench's layout."""

import csv

from noise import write_noise

PLACES = {"val2017": ("images/val2017", "."), "VOC2007": ("VOCdevkit/VOC2007",)}
COLUMNS = ["image_path", *(f"caption_{n}" for n in range(4)), "correct_answer", "correct_answer_template"]
VERIFIED = ("coco", "voc2007")
SETS = {
    "COCO_val_retrieval": ["a cat on a mat", "A cat's nap.", 'the "cat"'],
    "COCO_val_negated_retrieval_llama3.1_rephrased_affneg_true": ["a cat, but no dog", "There is no dog. A cat naps."],
}
FILES = {"COCO_val": "val2017", "VOC2007": "VOC2007/JPEGImages"}


def make(folder):
    """Lay out the files; the options with which they are built. Of each set one answer is not the first option."""
    for stem, images in FILES.items():
        with (folder / f"{stem}_mcq_llama3.1_rephrased.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(COLUMNS)
            for number, template in enumerate(("positive", "negative", "hybrid")):
                captions = [f"{stem} {number}, a cat{', but no' * option} dog" for option in range(4)]
                answer = 2 if template == "hybrid" else 0
                table.writerow([f"data/{images}/{stem}{number % 2}.jpg", *captions, answer, template])
    for stem, captions in SETS.items():
        with (folder / f"{stem}.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["filepath", "captions"])
            for number in range(2):
                own = [f"{number}: {caption}" for caption in captions]
                table.writerow([f"data/val2017/COCO_val{number}.jpg", str(own)])
    for stem, images in FILES.items():
        write_noise([folder / images / f"{stem}{number}.jpg" for number in range(2)], 20, 24)
    return {"verify": False}
