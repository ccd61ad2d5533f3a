"""Predictions of any system from a file, evaluated like a model: ``precomputed:FILE``.

The system may be GLIP, a model behind an API, or people. A file has one record for each example, as JSON lines
(``.jsonl``), CSV with a header (``.csv``) or Parquet (``.parquet``); other columns are ignored. ``vl-assay
precomputed --template tricd/val`` writes a file to fill in.

| columns | for | meaning |
|---|---|---|
| `id`, `scores` | matching | a list of numbers, one for each caption; for several images a list for each |
| | retrieval | a list of numbers, one for each caption of the set, in the order of first use |
| | text_similarity | a list of numbers, one for each pair of captions: 0 and 1, 0 and 2, …, 1 and 2, … |
| | vqa | a number above 0 for yes, below 0 for no |
| `id`, `answer` | matching | an index from 0, or a reply with its letter or text; a list for several images |
| | vqa | yes or no, true or false, 1 or 0, or a reply that says so |
| `id`, `boxes`, `scores` | detection | for each phrase a list of boxes x1, y1, x2, y2 in pixels, and a list of scores |

An `id` is that of an example in the dataset, such as ``swap_obj/13``, or has its benchmark before it
(``sugarcrepe/swap_obj/13``), or is its last part if no other example has that. In CSV a list is written in JSON.

Files of other tools are read as they are: logs of inspect_ai (``.eval``, which may need ``pip install zipfile-zstd``,
or ``.json``) and samples of lm-eval and lmms-eval (``samples_*.jsonl``) about what ``vl-assay export`` wrote; and the
answers of GPT-4V to SugarCrepe as their authors released them, a file such as ``gpt4v-swap_obj.json``, the folder of
an order of the captions, or the folder of both orders. The scores of both are means over the orders, in which an
answer that chooses no caption counts as the wrong one: an example is right if the answers to all orders are, and with
``--ties half`` the accuracy is the mean of the orders' accuracies.

Every example needs exactly one record, and every record an example. Two cases are not errors, and are counted in the
metadata: an answer that is neither yes nor no, or chooses no caption, which is wrong (`no_answer`; for matching a tie
of all captions, wrong by default), and an example without boxes, since detectors may abstain (`without_boxes`).
Predictions for examples that cannot be scored, because their image is missing and its file name unknown, are counted
too (`unneeded_answers`).

| setting | default | meaning |
|---|---|---|
| ``name`` | the file's name | name of the model |
| ``allow_missing`` | false | count examples without a prediction (`missing_answers`): wrong under every tie policy |
| ``allow_unknown`` | false | count records that match no example (`unknown_answers`), and ignore them |

Images are not needed: without them predictions identify images by their file names.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from ...metrics.common.errors import ModelError
from ...metrics.common.storage import with_home
from ...metrics.common.user_files import list_files
from ...metrics.records.predictions import file_hash
from ..engine.plan import ScoringPlan
from ..engine.protocol import LoadOptions, ModelInfo, choose
from ..engine.results import Results
from .matching import COLUMNS, column_of, match_records
from .other_tools import orders_of
from .records import RIGHT_LINE, allowed_files, read_records, shown

MODEL_TYPES = ()
CHECKPOINTS = ("scores.csv", "answers.jsonl", "boxes.parquet")
SETTINGS: dict[str, tuple[str, ...]] = {
    "name": ("", "…"),
    "allow_missing": ("false", "true"),
    "allow_unknown": ("false", "true"),
}


class PrecomputedPredictions:
    """A file or folder of predictions as a `PredictionsSource`."""

    def __init__(self, path: Path, task_types: tuple[str, ...], info: ModelInfo) -> None:
        self.info, self.task_types = info, task_types
        self._path = path

    def results(self, plan: ScoringPlan) -> tuple[Results, dict[str, int]]:
        """Return the results for everything in a plan, and counts for the metadata.

        Raises:
            ModelError: invalid records, or examples without a prediction; the message names the first few.
        """
        orders = orders_of(self._path)
        readings = [match_records(order, self.info.settings, plan) for order in orders]
        results, facts = readings[0]
        if len(orders) > 1:
            results = replace(results, pairs=np.mean([reading.pairs for reading, _ in readings], axis=0))
            names = {name for _, counts in readings for name in counts}
            facts = {name: sum(counts.get(name, 0) for _, counts in readings) for name in names}
        return results, facts | ({"orders": len(orders)} if self._path.is_dir() else {})


def load(checkpoint: str, options: LoadOptions) -> PrecomputedPredictions:
    """Open a file of predictions; the records after the first are read when results are requested.

    Raises:
        ModelError: no such file, or its first record has no prediction.
        UnknownNameError: a setting or value that does not exist.
    """
    settings = choose("precomputed", options, SETTINGS)
    path = with_home(checkpoint)
    if options.revision is not None or options.dtype != LoadOptions.dtype:
        raise ModelError(f"{path.name} is read as it is: leave revision and dtype out")
    first = next(read_records(orders_of(path)[0]), None)
    if first is None:
        raise ModelError(f"{path.name} has no records; {allowed_files()}")
    try:
        column = column_of(first.fields)
    except ValueError as error:
        raise ModelError(f"{path.name}: {first.place}: {error}; a right record: {RIGHT_LINE}") from None
    name = settings.pop("name") or path.stem
    if not (name.isprintable() and 0 < len(name) <= 200):
        raise ModelError(f"a model's name is 1 to 200 printable characters, not {shown(name)}; set another: name=NAME")
    revision = f"sha256:{_hash(path)}"
    info = ModelInfo(name, "precomputed", path.name, revision, dtype="float64", settings=settings)
    return PrecomputedPredictions(path, COLUMNS[column], info)


def _hash(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and hashes of a folder's files."""
    if path.is_file():
        return file_hash(path)
    files = [file for file in list_files(path, "**/*") if file.is_file()]
    return sha256("".join(f"{file.relative_to(path)} {file_hash(file)}\n" for file in files).encode()).hexdigest()
