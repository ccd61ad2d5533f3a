"""A template of a file of predictions: a record for each thing to predict, with null where the prediction belongs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...hub_datasets.core.examples import Example, TaskData, load_examples
from ...metrics.common.errors import DataError
from ...metrics.common.storage import write_text
from ..engine.plan import ScoringPlan
from .reading import tasks_of

_FORMS = {"matching": "scores", "retrieval": "scores", "vqa": "score", "detection": "boxes"}
_EXPLANATIONS = {
    "scores": (
        "scores: a number for each caption, higher for a better match; for several images a list for each of them, in "
        "the order of the images.",
    ),
    "score": ("score: above 0 for yes, below 0 for no; 1 and -1 of a system that only answers.",),
    "boxes": (
        "boxes: a list of [x1, y1, x2, y2] in pixels of the image; scores: one for each box. [] and [] for none.",
        "A record is a phrase of a caption; phrase_id is its number there.",
    ),
}


def write_template(reference: str, out: Path, *, data_dir: Path | None, options: Mapping[str, Any]) -> int:
    """Write the template of a benchmark's or task's predictions in JSON lines; returns the number of records.

    Args:
        reference, data_dir, options: as for `load_examples`; images are not needed.
        out: the file, which must not exist: it could be filled in.

    Raises:
        DataError: the file exists, or the tasks need records of several forms; or as `load_examples`.
    """
    if out.exists():
        raise DataError(f"{out} exists, and may be filled in; name another file: --out FILE")
    tasks = load_examples(reference, data_dir=data_dir, options=options, needs_images=False)
    forms = {_FORMS[task.task.task_type]: None for task in tasks}
    if len(forms) != 1:
        named = ", ".join(f"{task.benchmark}/{task.task.name} ({_FORMS[task.task.task_type]})" for task in tasks)
        raise DataError(f"a file has records of one form, but {reference} has {named}; name one of them")
    [form] = forms
    lines = [
        f"Predictions for {reference}: replace each null, then vl-assay run precomputed:{out.name} {reference}",
        *_EXPLANATIONS[form],
        "Lines that begin with # are ignored, and so are other columns; all forms: docs/guide.md.",
    ]
    records: list[str] = []
    for task, examples, texts in tasks_of(ScoringPlan(tasks)):
        if texts is not None:
            lines.append(f"Captions of {task.benchmark}/{task.task.name}, in the order of the scores:")
            lines += [f"{number}: {json.dumps(text, ensure_ascii=False)}" for number, text in enumerate(texts)]
        for example in examples:
            records += [json.dumps(each, ensure_ascii=False) for each in _records(task, example, texts)]
    write_text(out, "".join([*(f"# {line}\n" for line in lines), *(f"{record}\n" for record in records)]))
    return len(records)


def _records(task: TaskData, example: Example, texts: Collection[str] | None) -> Iterator[dict[str, Any]]:
    """The records of an example."""
    known = {"id": f"{task.benchmark}/{example.id}", "images": [task.image_names[image] for image in example.images]}
    if task.task.task_type == "detection":
        for place, phrase in enumerate(example.phrases):
            number = place if phrase.number is None else phrase.number
            named = {"caption": example.captions[0], "text": phrase.text, "phrase_id": number}
            yield known | named | {"boxes": None, "scores": None}
    elif task.task.task_type == "vqa":
        yield known | {"question": example.captions[0], "score": None}
    else:
        yield known | ({} if texts is not None else {"captions": list(example.captions)}) | {"scores": None}
