"""Predictions of any system from a file, evaluated like those of a model: ``precomputed:FILE``.

The system may be X-VLM, MDETR, GLIP, a model behind an API, or people. The file is CSV with a header, JSON lines
(.jsonl), or a JSON list of records. All records have one of these forms:

| columns | for | meaning |
|---|---|---|
| `id`, `scores` | matching, retrieval | scores in JSON, images × captions; for one image also a plain list |
| `id`, `score_0`, `score_1` … | matching, retrieval | the same for one image, a column for each caption |
| `image`, `caption`, `score` | matching, retrieval | a pair: the file name of the image and the text of the caption |
| `id`, `caption`, `score` | matching, retrieval | the same; `image` is the index of the image in the example, from 0 |
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
authors released them. A folder of such files, one for each configuration, is read with the orders of captions in its
subfolders, such as ``precomputed:gpt-4v-results`` (see `release`); records that match no example are then counted.

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

from collections.abc import Mapping
from pathlib import Path

from ...metrics.common.errors import ModelError
from ...metrics.records.predictions import file_hash
from ..engine.plan import ScoringPlan
from ..engine.protocol import LoadOptions, ModelInfo, choose
from ..engine.results import Results
from .reading import Reading, form_of, number, read_records, shown
from .release import combined_results, folder_hash, orders

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
    "score": ("vqa",),
}


class PrecomputedPredictions:
    """A file of predictions as a `PredictionsSource`."""

    def __init__(self, path: Path, form: str, info: ModelInfo, files: Mapping[str, list[Path]] | None = None) -> None:
        self.info = info
        self.task_types: tuple[str, ...] = ("matching",) if files else _TASK_TYPES[form]
        self._path, self._form, self._files = path, form, files

    def results(self, plan: ScoringPlan) -> tuple[Results, dict[str, int]]:
        """The results for everything in a plan, and counts for the metadata.

        Raises:
            ModelError: invalid records, or examples without a prediction; the message names the first few.
        """
        name, settings = self._path.name, self.info.settings
        if self._files is not None:
            return combined_results(self._files, name, self._form, settings, plan)
        return Reading(name, read_records(self._path), self._form, settings, plan).results()


def load(checkpoint: str, options: LoadOptions) -> PrecomputedPredictions:
    """Open a file or folder of predictions; the records after the first are read when results are requested.

    Raises:
        ModelError: no such file, a folder without files, or the first record has none of the forms above.
        UnknownNameError: a setting or value that does not exist.
    """
    settings = choose("precomputed", options, SETTINGS)
    try:
        number(settings["threshold"])
    except ValueError as error:
        raise ModelError(f"the threshold {error}") from None
    path = Path(checkpoint).expanduser()
    if options.revision is not None or options.dtype != LoadOptions.dtype:
        raise ModelError(f"{path.name} is read as it is: leave revision and dtype out")
    files = orders(path) if path.is_dir() else None
    first = next((record for each in _listed(path, files) for record in read_records(each)), None)
    if first is None:
        raise ModelError(f"{path.name} has no records")
    try:
        form = form_of(first.fields)
    except ValueError as error:
        raise ModelError(f"{path.name}: {first.place}: {error}") from None
    name = settings.pop("name") or path.stem
    if not (name.isprintable() and 0 < len(name) <= 200):
        raise ModelError(f"a model's name is 1 to 200 printable characters, not {shown(name)}; set another: name=NAME")
    if files:
        settings["orders"] = ", ".join(files)
    revision = f"sha256:{folder_hash(files) if files else file_hash(path)}"
    info = ModelInfo(name, "precomputed", path.name, revision, dtype="float64", settings=settings)
    return PrecomputedPredictions(path, form, info, files)


def _listed(path: Path, files: Mapping[str, list[Path]] | None) -> list[Path]:
    return [path] if files is None else [each for listed in files.values() for each in listed]
