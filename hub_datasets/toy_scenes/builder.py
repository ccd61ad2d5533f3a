"""The dataset script of toy_scenes: rendered scenes with exact labels for every task of the papers.

Needs nothing but its siblings in this folder, Pillow and NumPy: it runs as an imported class with any version of
`datasets` and as a script (``trust_remote_code=True``) with those up to 3.6.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import datasets

# A script is copied together with the siblings that it names itself, so all are named here.
from .episodes import Row
from .language import SYNONYMS as SYNONYMS
from .render import to_png
from .retrieval import POOL
from .sets import COMPLEXITIES as COMPLEXITIES
from .tasks import TASKS, task_rows
from .world import Scene

VERSION = "1.1.0"
SIZES = {"validation": 500, "test": 1000}
# One pool each: a caption of retrieval is true of no other scene of its pool.
RETRIEVAL_SIZES = {"validation": POOL, "test": POOL}
# Nothing is usually trained on these: they have a train split only where one is asked for.
_TO_TEST = ("retrieval", "sets", "vqa")
_ENDLESS = -1
_TEXT = datasets.Value("string")
_IMAGE = datasets.Image()
_NUMBER = datasets.Value("int32")
_FLAG = datasets.Value("bool")
_PICTURE = {"image": _IMAGE, "filename": _TEXT}
_PHRASE = {
    "text": _TEXT,
    "start": _NUMBER,
    "end": _NUMBER,
    "phrase_id": _NUMBER,
    "boxes": [[datasets.Value("float64")]],
}
# Order of columns within each task; every row starts with its id.
_COLUMNS: dict[str, dict[str, Any]] = {
    "itm": {"category": _TEXT, **_PICTURE, "caption": _TEXT, "negative_caption": _TEXT},
    "hard_positives": {
        "category": _TEXT, **_PICTURE, "caption": _TEXT, "positive_caption": _TEXT, "negative_caption": _TEXT,
    },
    "order": {**_PICTURE, "caption": _TEXT, "negative_captions": [_TEXT], "perturbations": [_TEXT]},
    "detection": {
        **_PICTURE, "caption": _TEXT, "phrases": [_PHRASE], "positive": _FLAG, "pair_id": _TEXT, "type": _TEXT,
        "width": _NUMBER, "height": _NUMBER, "overruns": _FLAG,
    },
    "groups": {
        "tag": _TEXT,
        "image_0": _IMAGE, "filename_0": _TEXT, "caption_0": _TEXT,
        "image_1": _IMAGE, "filename_1": _TEXT, "caption_1": _TEXT,
    },
    "captions": {**_PICTURE, "captions": [_TEXT]},
    "retrieval": {**_PICTURE, "captions": [_TEXT], "condition": _TEXT},
    "sets": {"category": _TEXT, **_PICTURE, "caption": _TEXT, "hard_negatives": [_TEXT], "complexity": _NUMBER},
    "vqa": {**_PICTURE, "question": _TEXT, "answer": _FLAG, "pair_id": _TEXT, "type": _TEXT},
}  # fmt: skip


@dataclass
class ToyScenesConfig(datasets.BuilderConfig):
    """One task of the toy world.

    Args:
        seed: which world; validation and test of seed 0 are the published ones.
        train_scenes: how many scenes the train split has; 0 leaves it out, -1 makes it endless (streaming only).
    """

    seed: int = 0
    # Endless is not None: `datasets` takes None for an option that was not given.
    train_scenes: int = 2000


class ToyScenes(datasets.GeneratorBasedBuilder):
    """Scenes of two to four things on a plain ground; see the card for the columns of each configuration."""

    config: ToyScenesConfig
    BUILDER_CONFIG_CLASS = ToyScenesConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        ToyScenesConfig(name=task, version=datasets.Version(VERSION), train_scenes=0 if task in _TO_TEST else 2000)
        for task in TASKS
    ]
    DEFAULT_CONFIG_NAME = "itm"

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(features=datasets.Features({"id": _TEXT, **_COLUMNS[self.config.name]}))

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        train = self.config.train_scenes
        if not isinstance(train, int) or train < _ENDLESS:
            raise ValueError(f"train_scenes is {train!r}; give a number of scenes, 0 for none or -1 for endless")
        if train == _ENDLESS and not dl_manager.is_streaming:
            raise ValueError(
                "train_scenes=-1 makes the train split endless, which only as_streaming_dataset() can serve; "
                "give a number to write it to disk"
            )
        sizes = RETRIEVAL_SIZES if self.config.name == "retrieval" else SIZES
        counts: dict[str, int] = dict(sizes) if train == 0 else {"train": train, **sizes}
        return [
            datasets.SplitGenerator(name=split, gen_kwargs={"split": split, "count": count})
            for split, count in counts.items()
        ]

    def _generate_examples(self, split: str, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
        columns = _COLUMNS[self.config.name]
        for index in itertools.count() if count == _ENDLESS else range(count):
            name = f"{split}-{index:06d}"
            pictures: dict[Scene, dict[str, Any]] = {}
            episode, rows = task_rows(self.config.name, self.config.seed, split, index)
            for row in rows:
                for key, value in row.items():
                    if isinstance(value, Scene):
                        suffix = "" if value == episode.scene else "-distractor"
                        if value not in pictures:
                            pictures[value] = {"path": f"{name}{suffix}.png", "bytes": to_png(value)}
                        row[key] = pictures[value]
                row_id = "/".join((name, *_kind(row)))
                row |= {"id": row_id, "pair_id": name}
                for column in columns:
                    if column.startswith("filename"):
                        row[column] = row[column.replace("filename", "image")]["path"]
                yield row_id, {key: row[key] for key in ("id", *columns)}


def _kind(row: Row) -> tuple[str, ...]:
    """What tells the rows of one scene apart."""
    if "category" in row:
        return (row["category"],)
    for truth in ("positive", "answer"):
        if truth in row:
            return ("positive" if row[truth] else "distractor",)
    return ()
