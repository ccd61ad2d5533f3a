"""Captions and images from their sources: toy_scenes, built datasets, COCO, tables of image files.

A source gives rows of text, and opens an image only when it is needed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....hub_datasets.authoring.data.tables import HUB, SourceTable, choose_columns, hub_name, read_tables
from ....hub_datasets.core.benchmarks import benchmark_names, option_names
from ....hub_datasets.core.build import data_errors
from ....hub_datasets.core.image_keys import MISSING, image_keys
from ....hub_datasets.core.repository import BUILD_FILE, cache_folder, read_build
from ....hub_datasets.toy_scenes import render
from ....hub_datasets.toy_scenes.tasks import task_rows
from ....hub_datasets.toy_scenes.world import Scene
from ....metrics.common.errors import DataError, check_known
from ....metrics.common.storage import with_home
from .coco import coco_rows, open_coco
from .samples import FileImages, ImageOpener, Sample

TOY = "toy_scenes"
# Its parts whose captions are all true of one image.
_TOY_PARTS = ("captions", "itm", "hard_positives", "order", "sets")
_FIELDS = ("caption", "image", "negatives", "positives", "id")
_REQUIRED = ("caption", "image")


@dataclass(frozen=True)
class DatasetImages(ImageOpener):
    """Images of a column of a `datasets.Dataset`, not decoded, by `_picture_keys`; `indices` has their rows."""

    dataset: Any
    column: str
    indices: Mapping[str, int]

    def read(self, key: str) -> bytes:
        """The encoded image."""
        picture = self.dataset[self.indices[key]][self.column]
        return FileImages().read(picture["path"]) if picture["bytes"] is None else picture["bytes"]


@dataclass(frozen=True)
class SceneImages(ImageOpener):
    """Scenes of toy_scenes, rendered as PNG on demand."""

    scenes: Mapping[str, Scene]

    def read(self, key: str) -> bytes:
        """The encoded image."""
        return render.to_png(self.scenes[key])

    def scene(self, key: str) -> Scene:
        """The scene of a key."""
        return self.scenes[key]


def read_source(
    reference: str,
    columns: Mapping[str, str],
    split: str,
    limit: int | None,
    data_dir: str | Path | None,
    options: Mapping[str, Any],
) -> tuple[list[Sample], ImageOpener]:
    """The samples of a source, one for each caption of an image, and its images; see `read_training_set`."""
    name, _, config = reference.partition("/")
    path = with_home(reference)
    if options and name != TOY:
        raise DataError(f"{reference} is read as it is and has no options; leave out {', '.join(options)}")
    if name in benchmark_names() and name != TOY:
        raise DataError(f"{reference} is a benchmark; build it (vl-assay build {name} --out FOLDER), name the folder")
    if name == TOY:
        rows, images = _toy_rows(config or "captions", columns, split, limit, options)
    elif reference.startswith(HUB):
        rows, images = _dataset_rows(*hub_name(reference), reference, columns, split)
    elif (path / BUILD_FILE).is_file():
        rows, images = _built_rows(path, columns, split)
    elif (content := open_coco(path)) is not None:
        rows, images = coco_rows(path, content, split, data_dir)
    else:
        rows, images = _file_rows(path, columns, split), FileImages(path if path.is_dir() else path.parent)
    return _merge(rows, limit), images


def _merge(rows: Iterable[Sample], limit: int | None) -> list[Sample]:
    """One sample for each caption of an image, at most `limit`, with the negatives and positives of all rows."""
    merged: dict[tuple[str, str], Sample] = {}
    for row in rows:
        if limit is None or len(merged) < limit or row[:2] in merged:
            first = merged.setdefault(row[:2], row._replace(negatives=(), positives=()))
            texts = {"negatives": first.negatives + row.negatives, "positives": first.positives + row.positives}
            merged[row[:2]] = first._replace(**texts)
    return list(merged.values())


def _captions(table: SourceTable, key: str, row: Mapping[str, Any], image: str) -> Iterator[Sample]:
    """A sample for each caption in a row of a table; they share its negatives and positives."""
    captions = table.texts(key, row, "caption", parse_lists=True)
    negatives, positives = (
        table.texts(key, row, field, required=False, parse_lists=True) for field in ("negatives", "positives")
    )
    id = table.id(key, row) or key
    for number, caption in enumerate(captions):
        yield Sample(image, caption, negatives, positives, f"{id}#{number}" if len(captions) > 1 else id)


def _toy_rows(
    config: str, columns: Mapping[str, str], split: str, limit: int | None, options: Mapping[str, Any]
) -> tuple[list[Sample], ImageOpener]:
    from ....hub_datasets.toy_scenes.builder import SIZES, ToyScenesConfig

    check_known(f"part of {TOY} to train on", [config], _TOY_PARTS)
    check_known(f"split of {TOY}", [split], ("train", *SIZES))
    check_known(f"option of {TOY}", options, option_names(TOY))
    values = {"seed": 0, "train_scenes": ToyScenesConfig.train_scenes, **options}
    for name, value in values.items():
        if not isinstance(value, int) or value < 0:
            raise DataError(f"the option {name} of {TOY} is {value!r}; give a whole number, 0 or more")
    is_open = split == "train" and limit is not None and "train_scenes" not in options
    count: int | None = None if is_open else SIZES.get(split, values["train_scenes"])
    scenes: dict[str, Scene] = {}
    known: set[tuple[str, ...]] = set()
    samples: list[Sample] = []
    table: SourceTable | None = None
    for index in itertools.count() if count is None else range(count):
        if limit is not None and len(known) >= limit:
            break
        episode, rows = task_rows(config, values["seed"], split, index)
        stem = f"{split}-{index:06d}"
        scenes[f"{stem}.png"] = episode.scene
        for row in rows:
            if table is None:
                table = SourceTable(TOY, config, (), choose_columns(TOY, list(row), _FIELDS, _REQUIRED, columns))
            for caption in _captions(table, stem, row, f"{stem}.png"):
                known.add(caption[:2])
                samples.append(caption)
    return samples, SceneImages(scenes)


def _built_rows(folder: Path, columns: Mapping[str, str], split: str) -> tuple[Iterator[Sample], ImageOpener]:
    configs = read_build(folder)["configs"]
    if len(configs) != 1:
        raise DataError(
            f"{folder} has the configurations {', '.join(configs) or 'none'}; to train on it, build one with captions"
        )
    [(config, splits)] = configs.items()
    if split not in splits:
        raise DataError(
            f"{config} has no split {split!r}; it has {', '.join(splits)}. Benchmarks are for testing: name another "
            "split only for a model that is not tested on it"
        )
    return _dataset_rows(str(folder), config, config, columns, split)


def _dataset_rows(
    path: str, config: str | None, reference: str, columns: Mapping[str, str], split: str
) -> tuple[Iterator[Sample], ImageOpener]:
    import datasets

    with data_errors(reference):
        dataset: Any = datasets.load_dataset(path, config, split=split)
    of_images = {name for name, feature in dataset.features.items() if isinstance(feature, datasets.Image)}
    captions_column = choose_columns(
        reference, dataset.column_names, _FIELDS, _REQUIRED, columns, pictures=of_images, pictures_first=True
    )
    column = captions_column["image"]
    if column not in of_images:
        raise DataError(f"{reference}: the column {column!r} holds no images; name another with --column image=NAME")
    pictures = dataset.select_columns([column]).cast_column(column, datasets.Image(decode=False))
    keys = _picture_keys(pictures, column)
    if "" in keys:
        raise DataError(f"{reference}: row {keys.index('')} has no image; correct the dataset, or build it with images")
    indices: dict[str, int] = {}
    for index, key in enumerate(keys):
        indices.setdefault(key, index)
    other_columns = dict.fromkeys(name for field, name in captions_column.items() if field != "image")
    texts = dataset.select_columns([*other_columns])
    table = SourceTable(reference, config or reference, (), captions_column)
    rows = (
        caption
        for number, (key, row) in enumerate(zip(keys, texts.to_list(), strict=True))
        for caption in _captions(table, str(number), row, key)
    )
    return rows, DatasetImages(pictures, column, indices)


def _picture_keys(pictures: Any, column: str) -> list[str]:
    """The keys of the images of a dataset: of their content, or their path where they are files, or ""."""
    files = [Path(file["filename"]) for file in pictures.cache_files]
    identity = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    keys = image_keys(pictures, [column], cache_folder() / "image-keys", identity)
    return [
        key if key != MISSING else (pictures[index][column] or {}).get("path") or ""
        for index, [(key, _)] in enumerate(keys)
    ]


def _file_rows(path: Path, columns: Mapping[str, str], split: str) -> Iterator[Sample]:
    if split != "train":
        raise DataError(f"{path} is a table, which has no split {split!r}; leave the split out, or name another table")
    known: set[Path] = set()
    for table in read_tables(str(path), _FIELDS, _REQUIRED, columns):
        for key, row in table.rows:
            value = table.value(row, "image")
            if not isinstance(value, str):
                raise DataError(
                    f"{table.source}: row {key} has {str(value)[:40]!r} in {table.columns['image']!r}, where the name "
                    "of an image's file belongs; name its column, as in --column image=file_name"
                )
            file = Path(table.folder or "", value)
            if file not in known and not (value and os.path.isfile(file)):  # noqa: PTH113, no error for a long name
                raise DataError(
                    f"{table.source}: row {key} names the image {value[:200]!r}, and there is no such file in "
                    f"{table.folder}; paths are relative to the table's folder"
                )
            known.add(file)
            yield from _captions(table, key, row, value)
