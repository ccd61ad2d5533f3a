"""A template of predictions in JSON lines: a record for each example, with null where a prediction belongs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...metrics.common.errors import DataError
from ...metrics.common.storage import write_text
from ..core.examples import MISSING, Example, TaskData, load_examples

_EXPLANATIONS = {
    "matching": "scores: for each caption a number, higher for a better match; of several images a list for each.",
    "retrieval": "scores: a number for each of the captions below, higher for a better match.",
    "text_similarity": "scores: how alike the captions 0 and 1, 0 and 2, …, 1 and 2, … are.",
    "vqa": "scores: above 0 for yes, below 0 for no; or instead of it answer: yes or no.",
    "detection": "boxes: for each phrase a list of [x1, y1, x2, y2] in pixels; scores: for each phrase a list.",
}


def template(reference: str, tasks: Sequence[TaskData]) -> Iterator[str]:
    """Yield the lines of a template of a benchmark's or task's predictions; comments begin with #.

    Args:
        reference: the name of the benchmark or task.
        tasks: what `load_examples` returns for it; images are not needed.
    """
    yield f"# Predictions for {reference}: replace each null, then vl-assay run precomputed:FILE.jsonl {reference}"
    for task_type in dict.fromkeys(task.task.task_type for task in tasks):
        yield f"# {_EXPLANATIONS[task_type]}"
    for task in tasks:
        if task.task.task_type == "retrieval":
            yield f"# Captions of {task.benchmark}/{task.task.name}, in the order of the scores:"
            captions = retrieval_captions(task)
            yield from (f"# {index}: {json.dumps(text, ensure_ascii=False)}" for index, text in enumerate(captions))
    for task in tasks:
        for example in task.examples:
            yield json.dumps(_shown(task, example) | blank(task, example), ensure_ascii=False)


def write_template(reference: str, out: Path, *, data_dir: Path | None, options: Mapping[str, Any]) -> int:
    """Write a template and return the number of its records.

    Raises:
        DataError: the file exists, and may be filled in.
        DataError, UnknownNameError: as `load_examples`.
    """
    if out.exists():
        raise DataError(f"{out} exists, and may be filled in; name another file: --out FILE")
    lines = list(template(reference, load_examples(reference, data_dir=data_dir, options=options, needs_images=False)))
    write_text(out, "".join(f"{line}\n" for line in lines))
    return sum(not line.startswith("#") for line in lines)


def blank(task: TaskData, example: Example) -> dict[str, Any]:
    """Return the fields of an example's predictions, with null for each number."""
    task_type = task.task.task_type
    if task_type == "detection":
        return {"boxes": None, "scores": None}
    if task_type in ("retrieval", "vqa"):
        return {"scores": None}
    if task_type == "text_similarity":
        return {"scores": [None] * math.comb(len(example.captions), 2)}
    row = [None] * len(example.captions)
    return {"scores": row if len(example.images) == 1 else [row] * len(example.images)}


def retrieval_captions(task: TaskData) -> list[str]:
    """Return the distinct captions of a retrieval set, in the order of its scores."""
    scored = (example for example in task.examples if MISSING not in example.images)
    return list(task.candidates or dict.fromkeys(caption for example in scored for caption in example.captions))


def _shown(task: TaskData, example: Example) -> dict[str, Any]:
    """Return what identifies an example, for its author: the id, the images, and the captions, question or phrases."""
    images = [task.image_names[image] for image in example.images]
    shown: dict[str, Any] = {"id": f"{task.benchmark}/{example.id}", "images": images}
    if task.task.task_type == "vqa":
        return shown | {"question": example.captions[0]}
    if task.task.task_type == "detection":
        return shown | {"caption": example.captions[0], "phrases": [phrase.text for phrase in example.phrases]}
    return shown if task.task.task_type == "retrieval" else shown | {"captions": list(example.captions)}
