"""Zero-shot classification of labelled images as a `datasets` builder.

A row is an image with its class. The classes are the names of the column `label`, all of them, also those without an
image; their prompts are their names in each template, the names of the column `templates`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import datasets

from ..core.build import MissingSourceError
from ..sources.builders import SourceBuilder, make_configs
from ..sources.columns import columns
from ..sources.records import Row
from ..sources.source_files import ImagePaths, data_folder, find_images
from .labelled import ZeroShotConfig, by_turns, read_dataset, read_folder
from .labelled_sets import SETS
from .shapes import draw_shapes
from .templates import choose_templates

_SHAPES = "shapes"


class ZeroShot(SourceBuilder):
    """A configuration for each labelled set, one for any other, `folder`, and `shapes`, which is drawn."""

    config: ZeroShotConfig
    BUILDER_CONFIG_CLASS = ZeroShotConfig
    BUILDER_CONFIGS: ClassVar = make_configs(ZeroShotConfig, "Zero-shot classification of", [*SETS, _SHAPES])

    @property
    def _folder(self) -> Any:
        if self.config.name == _SHAPES:
            return None
        kind = SETS[self.config.name]
        remedy = f"{kind.title} is at {kind.url}; or name a dataset of the Hub with the option dataset=OWNER/NAME"
        folder = data_folder(self.config.data_dir, remedy, is_needed=not self.config.dataset)
        if folder is None or self.config.name == "folder":
            return folder
        of_sets = [name for name in SETS if name != "folder" and (folder / name).is_dir()]
        if of_sets and self.config.name not in of_sets:
            raise MissingSourceError(f"{folder} has {', '.join(of_sets)}, and no folder {self.config.name}. {remedy}.")
        return folder / self.config.name if of_sets else folder

    def _columns(self) -> dict[str, Any]:
        # The names of classes and templates follow when the sources are read.
        number = datasets.Value("int64")
        return columns("id image filename caption") | {"label": number, "templates": datasets.Sequence(number)}

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        generators = super()._split_generators(dl_manager)
        features: Any = self.info.features
        features["label"] = datasets.ClassLabel(names=self._labelled.names)
        features["templates"] = datasets.Sequence(datasets.ClassLabel(names=self._templates))
        return generators

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        name, folder = self.config.name, self._folder
        default = name if name == _SHAPES else SETS[name].templates
        self._templates = choose_templates(default, self.config.templates, folder)
        if name == _SHAPES:
            self._labelled = draw_shapes()
        else:
            self._labelled = (read_dataset if self.config.dataset else read_folder)(folder, self.config)
        self._places = {file: number for number, (file, _) in enumerate(self._labelled.images)}
        rows = []
        for number in by_turns(self._labelled.images):
            file, label = self._labelled.images[number]
            row = {"id": f"{name}/{file}", "filename": file, "caption": self._labelled.names[label], "label": label}
            rows.append(row | {"templates": list(range(len(self._templates)))})
        return rows

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        folder = self._labelled.folder
        if folder is None:
            return {file: file for file in self._places}
        return self._require_images(rows, find_images(self._places, [folder]), folder, "Put intact files there")

    def _image_file(self, row: Row, column: str, path: str) -> dict[str, Any]:
        if self._labelled.read is None:
            return super()._image_file(row, column, path)
        return {"path": row["filename"], "bytes": self._labelled.read(self._places[row["filename"]])}
