"""Predictions of any system from a file or folder, evaluated like those of a model: ``precomputed:FILE``.

The system may be X-VLM, MDETR, GLIP, a model behind an API, or people. The file is CSV with a header, JSON lines
(.jsonl), or a JSON list of records; ``vl-assay precomputed --template tricd/val`` writes one to fill in. All records
have one of these forms:

| columns | for | meaning |
|---|---|---|
| `id`, `scores` | matching, retrieval | scores in JSON, images × captions; for one image also a plain list |
| `id`, `score_0`, `score_1` … | matching, retrieval | the same for one image, a column for each caption |
| `image`, `caption`, `score` | matching, retrieval | a pair: the file name of the image and the text of the caption |
| `id`, `caption`, `score` | matching, retrieval | the same; `image` is the index of the image in the example, from 0 |
| `id`, `similarities` | text_similarity | in JSON, one for each pair of captions: 0 and 1, 0 and 2, …, 1 and 2, … |
| `id`, `answer` | matching | the chosen caption: its number, letter or text; for several images a list |
| `id`, `answer` | vqa | yes or no, true or false, 1 or 0, or a sentence that begins "Yes," |
| `id`, `score` | vqa | above the threshold for yes, below for no |
| `id`, `phrase`, `bbox`, `score` | detection | a box of a phrase: x, y, width, height in pixels, as in COCO's results |
| `id`, `phrase`, `boxes`, `scores` | detection | several boxes: x1, y1, x2, y2 |

An `id` is that of an example in the dataset; its configuration may be left out (``13`` for ``val/13``) where this is
unambiguous, or its benchmark added (``tricd/val/13``). `image_id` is a synonym, which takes precedence over `id`, the
number of the box in COCO's files. Captions are in the order of the dataset, those of a retrieval set in the order of
first use. A phrase is given by its text, or by its number as `phrase_id` (TRICD) or `category_id`; `phrase_ids` has one
for each of the `boxes`. An object of records by id is also read, with the answers of GPT-4V to SugarCrepe as their
authors released them.

Logs of what ``vl-assay export`` wrote are read as they are, for matching and vqa: those of inspect_ai (``.eval``, which
may need ``pip install zipfile-zstd``, or ``.json``), and the samples of lm-eval and lmms-eval (``samples_*.jsonl``).

A folder has such a file for each configuration, named after it: ``gpt4v-swap_obj.json``, whose id ``13`` means
``swap_obj/13``. A folder with folders in it has the answers to the same questions with the captions in several orders,
as ``positive-first`` and ``negative-first`` of GPT-4V: the scores are means over the orders, in which an answer that
chooses no caption counts as the wrong one. An example is then right if the answers to all orders are; with
``--ties half`` the accuracy is the mean of the orders' accuracies.

Every example needs exactly one prediction, and every record an example. Two cases are not errors, and are counted in
the metadata: an answer that is neither yes nor no, or chooses no caption, which is wrong (`no_answer`; for matching a
tie of all captions, wrong by default), and an example without boxes, since detectors may abstain (`without_boxes`). A
record with an empty list of boxes abstains explicitly. Predictions for examples that cannot be scored, because their
image is missing and its file name unknown, are counted too (`unneeded_answers`).

| setting | default | meaning |
|---|---|---|
| ``name`` | the file's name | name of the model |
| ``count_from`` | 0 | number of the first caption in `answer` |
| ``threshold`` | 0 | the `score` between no and yes, such as 0.5 for a probability |
| ``allow_missing`` | false | count examples without a prediction (`missing_answers`), which are wrong |
| ``allow_unknown`` | false | count records that match no example (`unknown_answers`), and ignore them |

Images are not needed: without them predictions identify images by their file names.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from ...metrics.common.errors import ModelError
from ...metrics.records.predictions import file_hash
from ..engine.plan import ScoringPlan
from ..engine.protocol import LoadOptions, ModelInfo, choose
from ..engine.results import Results
from .reading import Reading, form_of, number, orders_of, read_records, shown

MODEL_TYPES = ()
CHECKPOINTS = ("scores.csv", "answers.jsonl", "boxes.json")
SETTINGS: dict[str, tuple[str, ...]] = {
    "name": ("", "…"),
    "count_from": ("0", "1"),
    "threshold": ("0", "…"),
    "allow_missing": ("false", "true"),
    "allow_unknown": ("false", "true"),
}

# The types of tasks, by the form of the records.
_TASK_TYPES = {
    "boxes": ("detection",),
    "answer": ("matching", "vqa"),
    "scores": ("matching", "retrieval"),
    "pair": ("matching", "retrieval"),
    "similarities": ("text_similarity",),
    "score": ("vqa",),
}


class PrecomputedPredictions:
    """A file or folder of predictions as a `PredictionsSource`."""

    def __init__(self, path: Path, form: str, info: ModelInfo) -> None:
        self.info = info
        self.task_types: tuple[str, ...] = _TASK_TYPES[form]
        self._path, self._form = path, form

    def results(self, plan: ScoringPlan) -> tuple[Results, dict[str, int]]:
        """The results for everything in a plan, and counts for the metadata.

        Raises:
            ModelError: invalid records, or examples without a prediction; the message names the first few.
        """
        orders = orders_of(self._path)
        readings = [
            Reading(order, self._form, self.info.settings, plan, is_order=len(orders) > 1).results() for order in orders
        ]
        results, facts = readings[0]
        if len(orders) > 1:
            results = replace(results, pairs=np.mean([each.pairs for each, _ in readings], axis=0))
            facts = {name: sum(each.get(name, 0) for _, each in readings) for _, each in readings for name in each}
        return results, facts | ({"orders": len(orders)} if self._path.is_dir() else {})


def load(checkpoint: str, options: LoadOptions) -> PrecomputedPredictions:
    """Open a file of predictions; the records after the first are read when results are requested.

    Raises:
        ModelError: no such file, or the first record has none of the forms above.
        UnknownNameError: a setting or value that does not exist.
    """
    settings = choose("precomputed", options, SETTINGS)
    try:
        number(settings["threshold"])
    except ValueError as error:
        raise ModelError(f"the threshold {error}") from None
    path = Path(checkpoint).expanduser()
    orders = orders_of(path)
    if options.revision is not None or options.dtype != LoadOptions.dtype:
        raise ModelError(f"{path.name} is read as it is: leave revision and dtype out")
    first = next(read_records(orders[0]), None)
    if first is None:
        raise ModelError(f"{path.name} has no records")
    try:
        form = form_of(first.fields)
    except ValueError as error:
        raise ModelError(f"{path.name}: {first.place}: {error}") from None
    if len(orders) > 1 and form != "answer":
        raise ModelError(
            f"{path} has {len(orders)} folders, of answers to several orders of the captions, but records with {form}; "
            f"name one of the folders: {', '.join(order.name for order in orders)}"
        )
    name = settings.pop("name") or path.stem
    if not (name.isprintable() and 0 < len(name) <= 200):
        raise ModelError(f"a model's name is 1 to 200 printable characters, not {shown(name)}; set another: name=NAME")
    revision = f"sha256:{_hash(path)}"
    info = ModelInfo(name, "precomputed", path.name, revision, dtype="float64", settings=settings)
    return PrecomputedPredictions(path, form, info)


def _hash(path: Path) -> str:
    """SHA-256 of a file, or of the names and hashes of a folder's files."""
    if path.is_file():
        return file_hash(path)
    files = sorted(each for each in path.rglob("*") if each.is_file())
    return sha256("".join(f"{each.relative_to(path)} {file_hash(each)}\n" for each in files).encode()).hexdigest()
