"""Pairs of images with boxes in the files of TRICD's release: grounding, questions, and images.

`area` is the box's own, where the release has 307200 throughout; `source` is the benchmark's name. All else, such as
the order of a group's four rows, is as in TRICD_grounding_val.json and TRICD_VQA_val.json.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError
from ....metrics.common.storage import write_text
from ..review.construction import ImagePair
from ..review.pictures import Pictures
from ..text.questions import caption_question

GROUNDING_FILE, VQA_FILE, IMAGES_FOLDER = "TRICD_grounding_val.json", "TRICD_VQA_val.json", "val2017"
# The rows of a group, in the order of the release, as (index of the image, index of the caption).
_ROWS = ((0, 0), (1, 1), (0, 1), (1, 0))


def write_tricd(
    pairs: Sequence[ImagePair],
    phrases: Mapping[str, Sequence[Mapping[str, Any]]],
    pictures: Pictures,
    folder: Path,
    name: str,
) -> dict[str, int]:
    """Write pairs of images in TRICD's layout, as groups of four rows.

    Args:
        pairs: the pairs; their phrases are the captions.
        phrases: of the captions, by ``PAIR#0`` and ``PAIR#1``: `text`, `start`, `end` and `boxes` (x, y,
            width, height). Phrases without boxes cannot be grounded and are left out, and so are groups of which a
            caption has no other.
        pictures: the images.
        folder: gets the two files and the images in ``val2017``.
        name: the `source` of the rows.

    Returns:
        The numbers of groups, of groups left out, and of boxes.

    Raises:
        DataError: no group has boxes for both captions; or an image is missing.
    """
    images, boxes, questions, answers = [], list[dict[str, Any]](), [], []
    (folder / IMAGES_FOLDER).mkdir(parents=True, exist_ok=True)
    number, phrase_id = 0, 0
    for pair in pairs:
        drawn = [[phrase for phrase in phrases.get(f"{pair.id}#{side}", ()) if phrase["boxes"]] for side in (0, 1)]
        if not all(drawn):
            continue
        number += 1
        names, captions = (pair.image, pair.second_image), (pair.phrase, pair.second_phrase)
        for image, caption in _ROWS:
            width, height = pictures.size(names[image])
            file = Path(names[image]).name
            row: dict[str, Any] = {
                "id": len(images) + 1,
                "license": 1,
                "file_name": file,
                "caption": captions[caption],
                "source": name,
                "positive": image == caption,
                "original_id": f"{number}_{image}",
                "coco_type": pair.kind,
                "phrases": {},
                "height": height,
                "width": width,
            }
            for phrase in drawn[caption]:
                phrase_id += 1
                row["phrases"][str(phrase_id)] = [[phrase["start"], phrase["end"]]]
                for box in phrase["boxes"] if row["positive"] else ():
                    ids = {"id": len(boxes) + 1, "image_id": row["id"], "phrase_id": phrase_id, "category_id": 1}
                    size = {"bbox": [float(value) for value in box], "area": box[2] * box[3], "iscrowd": 0}
                    boxes.append(ids | size)
            images.append(row)
            common = {"image_id": row["id"], "coco_type": pair.kind, "source": name}
            text = caption_question(captions[caption])
            questions.append({"image_id": row["id"], "question": text, "question_id": row["id"], "file_name": file})
            answer = {"answer_type": "yes/no", "answer": int(row["positive"]), "answer_id": row["id"]}
            answers.append(common | answer)
            shutil.copyfile(pictures.path(names[image]), folder / IMAGES_FOLDER / file)
    if not images:
        raise DataError("no group has boxes for both of its captions; draw more, or give more pairs")
    categories = [{"id": 1, "name": "object", "supercategory": "object"}]
    grounding = {"categories": categories, "images": images, "annotations": boxes}
    for file, content in ((GROUNDING_FILE, grounding), (VQA_FILE, {"questions": questions, "annotations": answers})):
        write_text(folder / file, json.dumps(content, ensure_ascii=False) + "\n")
    return {"groups": number, "left_out": len(pairs) - number, "boxes": len(boxes)}
