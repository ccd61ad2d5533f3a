"""Somebody's answers from a file, so that any system outside transformers can be judged: ``precomputed:FILE``.

X-VLM, MDETR, GLIP, an API's model or people: what they said of the examples stands in a CSV file with a line of column
names, in JSON lines (.jsonl), or in a JSON list of records. Each record has one of these, and nothing of the others:

| columns | for | meaning |
|---|---|---|
| `id`, `scores` | matching, retrieval | scores as JSON, images × captions; of one image also a plain list |
| `id`, `score_0`, `score_1` … | matching, retrieval | the same for one image, a column for each caption |
| `image`, `caption`, `score` | matching, retrieval | a pair: the file's name and the caption's text |
| `id`, `caption`, `score` | matching, retrieval | likewise; `image` numbers the images of one example, from 0 |
| `id`, `answer` | matching | the chosen caption: its number, letter or text; of several images a list, one for each |
| `id`, `answer` | answers | yes or no, true or false, 1 or 0, or a sentence that begins "Yes," |
| `id`, `score` | answers | above the threshold for yes, below for no |
| `id`, `phrase`, `bbox`, `score` | detection | a box of a phrase: x, y, width, height in pixels, as in COCO's results |
| `id`, `phrase`, `boxes`, `scores` | detection | several: x1, y1, x2, y2 |

An `id` is an example's in the dataset; without its configuration (``13`` for ``val/13``) where that is clear, or after
its benchmark (``tricd/val/13``). `image_id` is the same, and goes before `id`, which counts boxes in COCO's files.
Captions are in the order of the dataset, the captions of a retrieval set as they first occur in it. A phrase is its
text, or its number as `phrase_id` (TRICD's) or `category_id`; `phrase_ids` has one for each of the `boxes`. An object
of records by id is read too, with the answers of GPT-4V to SugarCrepe as their authors released them.

Every example must be answered, once, and everything in the file must answer something. Two things are no error and are
counted in the predictions file: an answer that says neither, which is wrong (`no_answer`; a choice of nothing is a tie
of all captions, which is wrong by default), and an example without boxes, since detectors may abstain
(`without_boxes`). A record with an empty list of boxes says so outright. Answers to examples that cannot be scored,
since their image is missing and nothing tells its name, are counted too (`unneeded_answers`).

| setting | default | meaning |
|---|---|---|
| ``name`` | the file's name | what the model is called |
| ``count_from`` | 0 | the number of the first caption in `answer` |
| ``threshold`` | 0 | the `score` between no and yes, such as 0.5 of a probability |
| ``allow_missing`` | false | examples without an answer are counted (`missing_answers`) and wrong |
| ``allow_unknown`` | false | records of no example are counted (`unknown_answers`) and left out |

Images are not needed: without them predictions know images by their files' names.
"""

from __future__ import annotations

from pathlib import Path

from ...metrics.common.errors import ModelError
from ...metrics.records.predictions import file_hash
from ..engine.plan import ScoringPlan
from ..engine.protocol import LoadOptions, ModelInfo, choose
from ..engine.rows import Results
from ._reading import Reading, form_of
from .files import number, read_records, shown

MODEL_TYPES = ()
CHECKPOINTS = ("scores.csv", "answers.jsonl", "boxes.json")
SETTINGS: dict[str, tuple[str, ...]] = {
    "name": ("", "…"),
    "count_from": ("0", "1"),
    "threshold": ("0", "…"),
    "allow_missing": ("false", "true"),
    "allow_unknown": ("false", "true"),
}

# By what a record says, the types of tasks that it answers.
_TASK_TYPES = {
    "boxes": ("detection",),
    "answer": ("matching", "vqa"),
    "scores": ("matching", "retrieval"),
    "pair": ("matching", "retrieval"),
    "score": ("vqa",),
}


class Answers:
    """A file of answers as a model that has said all before."""

    def __init__(self, path: Path, form: str, info: ModelInfo) -> None:
        self.info = info
        self.task_types: tuple[str, ...] = _TASK_TYPES[form]
        self._path, self._form = path, form

    def results(self, work: ScoringPlan) -> tuple[Results, dict[str, int]]:
        """What the file says of everything that a work wants, and how much of it says nothing.

        Raises:
            ModelError: records that cannot be used, examples without an answer; the message names the first few.
        """
        return Reading(self._path, self._form, self.info.settings, work).results()


def load(checkpoint: str, options: LoadOptions) -> Answers:
    """Take a file as a model; it is read when it is asked.

    Raises:
        ModelError: there is no such file, or its first record is none of those above.
        UnknownNameError: an unknown setting.
    """
    settings = choose("precomputed", options, SETTINGS)
    try:
        number(settings["threshold"])
    except ValueError as error:
        raise ModelError(f"the threshold {error}") from None
    path = Path(checkpoint).expanduser()
    if options.revision is not None or options.dtype != LoadOptions.dtype:
        raise ModelError(f"{path.name} is read as it is: leave revision and dtype out")
    first = next(read_records(path), None)
    if first is None:
        raise ModelError(f"{path.name} has no records")
    try:
        form = form_of(first.fields)
    except ValueError as error:
        raise ModelError(f"{path.name}: {first.place}: {error}") from None
    name = settings.pop("name") or path.stem
    if not (name.isprintable() and 0 < len(name) <= 200):
        raise ModelError(f"a model's name is 1 to 200 printable characters, not {shown(name)}; set another: name=NAME")
    revision = f"sha256:{file_hash(path)}"
    return Answers(path, form, ModelInfo(name, "precomputed", path.name, revision, dtype="float64", settings=settings))
