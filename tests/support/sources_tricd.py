"""Small source files of TRICD, in the layout of its release."""

import json

from noise import write_noise

WIDTH, HEIGHT = 64, 48
PLACES = {"TRICD": (".", "deep/below"), "val2017": ("images/val2017", ".")}
# (group, type, image 0, caption 0, image 1, caption 1); the number 2 is missing, groups 1 and 4 share an image.
GROUPS = (
    ("1", "relation", "11.jpg", "dog on a mat", "12.jpg", "mat on a dog"),
    ("3", "object", "13.jpg", "a bat", "14.jpg", "a racket"),
    ("4", "relation", "11.jpg", "dog near a car", "15.jpg", "dog in a car"),
    ("5", "object", "16.jpg", "a cat", "17.jpg", "a fox"),
)
NOUNS = ("dog", "mat", "car", "bat", "racket", "cat", "fox")


def grounding():
    """The grounding file: per group two true rows, then each image with the other's caption."""
    images = []
    annotations = []
    phrase_id = 0
    for group, kind, image_0, caption_0, image_1, caption_1 in GROUPS:
        pairs = [(image_0, caption_0, 0, True), (image_1, caption_1, 1, True)]
        pairs += [(image_0, caption_1, 0, False), (image_1, caption_0, 1, False)]
        for name, caption, side, positive in pairs:
            entry = {"id": len(images) + 1, "license": 1, "file_name": name, "caption": caption}
            entry |= {"source": "coco_test2017", "positive": positive, "original_id": f"{group}_{side}"}
            entry |= {"coco_type": kind, "phrases": {}, "height": HEIGHT, "width": WIDTH}
            images.append(entry)
            for noun in (noun for noun in NOUNS if noun in caption.split()):
                phrase_id += 1
                start = caption.index(noun)
                entry["phrases"][str(phrase_id)] = [[start, start + len(noun)]]
                if positive:
                    annotations += boxes_of(entry["id"], phrase_id, len(annotations))
    return {
        "categories": [{"id": 1, "name": "object", "supercategory": "object"}],
        "images": images,
        "annotations": annotations,
    }


def boxes_of(image_id, phrase_id, before):
    """One box, or two for an even phrase; that of phrase 1 leaves the image to the right by two pixels."""
    boxes = [[4.0 + phrase_id, 2.0, WIDTH - 3.0 if phrase_id == 1 else 20.0, 30.0]]
    boxes += [[1.0, 1.0, 5.0, 6.5]] * (phrase_id % 2 == 0)
    common = {"image_id": image_id, "phrase_id": phrase_id, "category_id": 1, "area": 307200, "iscrowd": 0}
    return [{"id": before + number + 1, "bbox": box, **common} for number, box in enumerate(boxes)]


def vqa():
    """The file of questions, a row for each of the grounding file."""
    questions, answers = [], []
    for row in grounding()["images"]:
        number = row["id"]
        question = f"is there {row['caption']}"
        entry = {"image_id": number, "question": question, "question_id": number, "file_name": row["file_name"]}
        questions.append(entry)
        answer = {"image_id": number, "source": "coco_test2017", "answer_type": "yes/no", "answer_id": number}
        answers.append(answer | {"answer": int(row["positive"]), "coco_type": row["coco_type"]})
    return {"questions": questions, "annotations": answers}


def make(folder):
    place = folder / "TRICD"
    place.mkdir(parents=True, exist_ok=True)
    (place / "TRICD_grounding_val.json").write_text(json.dumps(grounding()), encoding="utf-8")
    (place / "TRICD_VQA_val.json").write_text(json.dumps(vqa()), encoding="utf-8")
    names = sorted({name for group in GROUPS for name in group[2::2]})
    write_noise([folder / "val2017" / name for name in names], HEIGHT, WIDTH)
    return {"verify": False}
