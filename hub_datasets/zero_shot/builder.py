"""Zero-shot classification of labelled images as a `datasets` builder.

A row is an image with its class. The classes are the names of the column `label`, all of them, also those without an
image; their prompts are their names in each template, the names of the column `templates`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import datasets
import numpy as np

from ..core.columns import columns
from ..core.source_files import (
    ImagePaths,
    Row,
    SourceBuilder,
    SourceConfig,
    data_folder,
    find_images,
    make_configs,
    read_bytes,
)
from ..toy_scenes.render import to_png
from ..toy_scenes.world import CANVAS, COLOURS, RADIUS, SHAPES, SIZES, TEXTURES, Scene, Thing
from .labelled import Labelled, by_turns, read_dataset, read_folder
from .labelled_sets import SETS, templates_of

_SHAPES = "shapes"


@dataclass
class ZeroShotConfig(SourceConfig):
    """One labelled set.

    Args:
        templates: a name of ``labelled_sets.TEMPLATES``, or templates separated by ``|``; empty for those of the set.
        dataset: ``hf://datasets/owner/name[@revision][/config]``, in place of a folder of images.
        subset: the configuration, if `data_dir` is a dataset repository with several.
        split: the split or its folder; empty for test, or else validation.
    """

    templates: str = ""
    dataset: str = ""
    subset: str = ""
    split: str = ""


class ZeroShot(SourceBuilder):
    """A configuration for each labelled set, one for any other, `folder`, and `shapes`, which is drawn."""

    config: ZeroShotConfig
    BUILDER_CONFIG_CLASS = ZeroShotConfig
    BUILDER_CONFIGS: ClassVar = make_configs(ZeroShotConfig, "Zero-shot classification of", [*SETS, _SHAPES])

    @property
    def _folder(self) -> Any:
        kind = SETS[self.config.name]
        remedy = f"{kind.title} is at {kind.url}; or name a dataset of the Hub, dataset=hf://datasets/OWNER/NAME"
        return data_folder(self.config.data_dir, remedy, is_needed=not self.config.dataset)

    def _columns(self) -> dict[str, Any]:
        templates = datasets.ClassLabel(names=list(templates_of(self.config.name, self.config.templates)))
        # The names of the classes follow when the sources are read.
        label = {"label": datasets.Value("int64"), "templates": datasets.Sequence(templates)}
        return columns("id image filename caption") | label

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        generators = super()._split_generators(dl_manager)
        self.info.features["label"] = datasets.ClassLabel(names=self._labelled.names)
        return generators

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        chosen, name = self.config, self.config.name
        self._scenes: dict[str, Scene] = {}
        if name == _SHAPES:
            self._labelled, self._scenes = _draw()
        elif chosen.dataset:
            self._labelled = read_dataset(chosen.dataset, SETS[name], chosen.split, self._folder)
        else:
            self._labelled = read_folder(self._folder, name, SETS[name], chosen.split, chosen.subset)
        templates = list(range(len(templates_of(name, chosen.templates))))
        return [
            {
                "id": f"{name}/{file}",
                "filename": file,
                "caption": self._labelled.names[label],
                "label": label,
                "templates": templates,
            }
            for file, label in by_turns(self._labelled.images)
        ]

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        names = [name for name, _ in self._labelled.images]
        if self._labelled.folder is None:
            return {name: str(place) for place, name in enumerate(names)}
        images = find_images(names, [self._labelled.folder])
        return self._require_images(rows, images, self._labelled.folder, "Put intact files there")

    def _image_file(self, row: Row, column: str, path: str) -> dict[str, Any]:
        name = row["filename"]
        if name in self._scenes:
            return {"path": name, "bytes": to_png(self._scenes[name])}
        if self._labelled.rows is None:
            return super()._image_file(row, column, path)
        picture = self._labelled.rows[int(path)][self._labelled.column]
        content = picture["bytes"] if picture["bytes"] is not None else read_bytes(picture["path"])
        return {"path": name, "bytes": content}


def _draw() -> tuple[Labelled, dict[str, Scene]]:
    """An object of each shape, colour, size and texture, alone in a scene of toy_scenes; a class is colour and shape."""
    names = [f"{colour} {shape}" for colour, shape in itertools.product(COLOURS, SHAPES)]
    rng = np.random.default_rng(0)
    images, scenes = [], {}
    for label, (colour, shape) in enumerate(itertools.product(COLOURS, SHAPES)):
        for size, texture in itertools.product(SIZES, TEXTURES):
            reach = RADIUS[size] + 3
            x, y = rng.integers(reach, CANVAS - reach, 2).tolist()
            file = f"{colour}-{shape}-{size}-{texture}.png"
            images.append((file, label))
            scenes[file] = Scene((Thing(shape, colour, size, texture, x, y),))
    return Labelled(names, images), scenes
