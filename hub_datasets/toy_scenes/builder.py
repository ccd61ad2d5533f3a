"""The dataset builder of toy_scenes: rendered scenes with exact labels for every task of the papers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import datasets

from ...metrics.common.errors import DataError
from ..sources.columns import DETECTION, GROUP, columns
from .render import to_png
from .retrieval import POOL
from .tasks import TASKS, task_rows
from .world import Scene

VERSION = "1.1.0"
SIZES = {"validation": 500, "test": 1000}
# One retrieval set each: a caption is true of no other scene of its set.
RETRIEVAL_SIZES = {"validation": POOL, "test": POOL}
# Rarely used for training: they have a train split only on request.
_TO_TEST = ("retrieval", "sets", "vqa")
_ENDLESS = -1
# Order of columns within each task; every row starts with its id.
_COLUMNS = {
    "itm": "category image filename caption negative_caption",
    "hard_positives": "category image filename caption positive_caption negative_caption",
    "order": "image filename caption negative_captions perturbations",
    "detection": DETECTION,
    "groups": f"tag {GROUP}",
    "captions": "image filename captions",
    "retrieval": "image filename captions condition",
    "sets": "category image filename caption hard_negatives complexity",
    "vqa": "image filename question answer pair_id type",
}


@dataclass
class ToyScenesConfig(datasets.BuilderConfig):
    """One task of the toy world.

    Args:
        seed: which world; validation and test of seed 0 are the published ones.
        train_scenes: how many scenes the train split has; 0 leaves it out, -1 makes it endless (streaming only).
    """

    seed: int = 0
    # Endless is -1, as `datasets` takes None for an option that was not given.
    train_scenes: int = 2000


class ToyScenes(datasets.GeneratorBasedBuilder):
    """Scenes of two to four objects on a plain background; the card has the columns of each configuration."""

    config: ToyScenesConfig
    BUILDER_CONFIG_CLASS = ToyScenesConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        ToyScenesConfig(name=task, version=datasets.Version(VERSION), train_scenes=0 if task in _TO_TEST else 2000)
        for task in TASKS
    ]
    DEFAULT_CONFIG_NAME = "itm"

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(features=datasets.Features(columns(f"id {_COLUMNS[self.config.name]}")))

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        train = self.config.train_scenes
        if not isinstance(train, int) or train < _ENDLESS:
            raise DataError(f"train_scenes is {train!r}; give a number of scenes, 0 for none or -1 for endless")
        if train == _ENDLESS and not dl_manager.is_streaming:
            raise DataError(
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
        names = ["id", *_COLUMNS[self.config.name].split()]
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
                # The columns that distinguish the rows of one scene.
                truth = next((row[column] for column in ("positive", "answer") if column in row), None)
                kind = row.get("category") or ("" if truth is None else "positive" if truth else "distractor")
                row_id = f"{name}/{kind}" if kind else name
                row |= {"id": row_id, "pair_id": name}
                for column in names:
                    if column.startswith("filename"):
                        row[column] = row[column.replace("filename", "image")]["path"]
                yield row_id, {key: row[key] for key in names}
