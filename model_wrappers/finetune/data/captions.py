"""Where training data come from: the toy world, datasets of images, tables that name files of images.

A source gives rows of text and opens an image only when it is asked for it.
"""

from __future__ import annotations

import ast
import io
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ....hub_datasets.authoring.data.tables import (
    HUB,
    check_fields,
    choose_columns,
    column_names,
    find_table,
    hub_name,
    read_rows,
)
from ....hub_datasets.core.benchmarks import benchmark_names, get_benchmark, option_names
from ....hub_datasets.core.build import BUILD_FILE, data_errors, read_build
from ....hub_datasets.core.examples import cache_folder, cached_build
from ....hub_datasets.core.image_keys import MISSING, image_keys
from ....metrics.common.errors import DataError, UnknownNameError

if TYPE_CHECKING:
    from ....hub_datasets.toy_scenes.world import Scene

TOY = "toy_scenes"
# Its parts whose captions are all true of one image.
_TOY_PARTS = ("captions", "itm", "hard_positives", "order", "sets")
# The first of these names that a table has is taken; `title` and the like are those of NegCLIP's released files.
_GUESSES = {
    "caption": ("caption", "captions", "text", "positive", "true_caption", "sentence", "title"),
    "image": ("image", "file_name", "filename", "image_path", "filepath"),
    "negatives": (
        "negatives",
        "negative",
        "negative_caption",
        "negative_captions",
        "hard_negatives",
        "neg_caption",
    ),
    "positives": ("positives", "positive_caption", "positive_captions", "hard_positives"),
    "id": ("id",),
}


class Row(NamedTuple):
    """A caption that is true of an image, and the negatives and positives that came with it."""

    id: str
    image: str
    caption: str
    negatives: tuple[str, ...] = ()
    positives: tuple[str, ...] = ()


class Images(ABC):
    """Opens images by their keys."""

    @abstractmethod
    def read(self, key: str) -> bytes:
        """The file of an image.

        Raises:
            DataError: it cannot be read.
        """

    def scene(self, key: str) -> Scene | None:
        """What an image shows, if it is one of toy_scenes."""
        from PIL import Image

        from ....hub_datasets.toy_scenes.render import read_scene

        try:
            with Image.open(io.BytesIO(self.read(key))) as image:
                return read_scene(image)
        except OSError as error:
            raise DataError(f"the image {key} cannot be decoded: {error}") from error


class FileImages(Images):
    """Files, known by their paths from a folder."""

    def __init__(self, folder: Path = Path()) -> None:
        self._folder = folder

    def read(self, key: str) -> bytes:
        """The image's bytes."""
        try:
            return (self._folder / key).read_bytes()
        except OSError as error:
            raise DataError(f"the image {key} cannot be read: {error.strerror or error}") from error


class DatasetImages(Images):
    """Images in the memory-mapped files of a `datasets.Dataset`, or beside them, known by `_picture_keys`."""

    def __init__(self, dataset: Any, column: str, places: Mapping[str, int]) -> None:
        self._dataset, self._column, self._places = dataset, column, places

    def read(self, key: str) -> bytes:
        """The image's bytes."""
        picture = self._dataset[self._places[key]][self._column]
        return FileImages().read(picture["path"]) if picture["bytes"] is None else picture["bytes"]


class SceneImages(Images):
    """Pictures of scenes, drawn each time that they are asked for."""

    def __init__(self, scenes: Mapping[str, Scene]) -> None:
        self._scenes = scenes

    def read(self, key: str) -> bytes:
        """The scene, rendered as PNG."""
        from ....hub_datasets.toy_scenes.render import to_png

        return to_png(self._scenes[key])

    def scene(self, key: str) -> Scene:
        """The scene of a key."""
        return self._scenes[key]


def read_source(
    reference: str,
    columns: Mapping[str, str],
    split: str,
    limit: int | None,
    data_dir: str | Path | None,
    options: Mapping[str, Any],
) -> tuple[list[Row], Images]:
    """The rows of a source, one for each caption of an image, and its images; see `data.read_training_set`."""
    check_fields("training data", columns, _GUESSES)
    name, _, part = reference.partition("/")
    path = Path(reference).expanduser()
    if options and name not in benchmark_names():
        raise DataError(f"{reference} is not built, so {', '.join(options)} mean nothing to it; leave the options out")
    if name == TOY:
        rows, images = _toy_rows(part or "captions", columns, split, limit, options)
    elif name in benchmark_names():
        rows, images = _benchmark_rows(name, part, columns, split, data_dir, options)
    elif reference.startswith(HUB):
        rows, images = _dataset_rows(*hub_name(reference), reference, columns, split)
    elif (path / BUILD_FILE).is_file():
        rows, images = _built_rows(path, read_build(path)["configs"], columns, split)
    else:
        rows, images = _file_rows(path, columns, split), FileImages(path if path.is_dir() else path.parent)
    return _merge(rows, limit), images


def _merge(rows: Iterable[Row], limit: int | None) -> list[Row]:
    """One row for each caption of an image, with what all its rows have; the first ones only."""
    merged: dict[tuple[str, str], Row] = {}
    for row in rows:
        key = (row.image, row.caption)
        if key in merged:
            first = merged[key]
            row = first._replace(negatives=first.negatives + row.negatives, positives=first.positives + row.positives)
        elif limit is not None and len(merged) >= limit:
            continue
        merged[key] = row
    return list(merged.values())


def _toy_rows(
    part: str, columns: Mapping[str, str], split: str, limit: int | None, options: Mapping[str, Any]
) -> tuple[Iterator[Row], Images]:
    from ....hub_datasets.toy_scenes.builder import SIZES, ToyScenesConfig

    for kind, given, known in (
        (f"part of {TOY} to train on", [part], _TOY_PARTS),
        (f"split of {TOY}", [split], ("train", *SIZES)),
        (f"option of {TOY}", options, option_names(TOY)),
    ):
        for each in given:
            if each not in known:
                raise UnknownNameError(kind, each, known)
    count: int | None = SIZES.get(split)
    if split == "train":
        wanted = options.get("train_scenes", ToyScenesConfig.train_scenes if limit is None else -1)
        if not isinstance(wanted, int) or wanted < -1 or (wanted == -1 and limit is None):
            raise DataError(
                f"train_scenes is {wanted!r}; give a number of scenes, or a limit to the captions and -1 for as many "
                "scenes as these need"
            )
        count = None if wanted == -1 else wanted
    scenes: dict[str, Scene] = {}
    seed = options.get("seed", 0)
    if not isinstance(seed, int) or seed < 0:
        raise DataError(f"the option seed of {TOY} is {seed!r}; give a whole number, 0 or more")
    rows = _scene_rows(part, columns, split, seed, count, limit, scenes)
    return rows, SceneImages(scenes)


def _scene_rows(
    part: str,
    columns: Mapping[str, str],
    split: str,
    seed: int,
    count: int | None,
    limit: int | None,
    scenes: dict[str, Scene],
) -> Iterator[Row]:
    from ....hub_datasets.toy_scenes.tasks import task_rows

    seen: set[tuple[str, str]] = set()
    for index in itertools.count() if count is None else range(count):
        if limit is not None and len(seen) >= limit:
            return
        episode, rows = task_rows(part, seed, split, index)
        key = f"{split}-{index:06d}.png"
        scenes[key] = episode.scene
        chosen = _choose(TOY, list(rows[0]), columns) if rows else {}
        for row in rows:
            for found in _rows(TOY, key.removesuffix(".png"), row, chosen, key):
                seen.add((key, found.caption))
                yield found


def _benchmark_rows(
    name: str,
    part: str,
    columns: Mapping[str, str],
    split: str,
    data_dir: str | Path | None,
    options: Mapping[str, Any],
) -> tuple[Iterator[Row], Images]:
    benchmark = get_benchmark(name)
    chosen = benchmark.select(name, part or None, ("matching", "retrieval"))
    usable = [
        (config, task)
        for task, configs in chosen
        for config in configs
        if task.kind in ("matching", "retrieval") and len(task.images) == 1
    ]
    if not usable:
        raise DataError(f"{name}{'/' * bool(part)}{part} has no captions that are each true of one image")
    if len(usable) > 1:
        parts = ", ".join(f"{name}/{config}" for config, _ in usable)
        raise DataError(f"{name} has several parts with captions; name one of {parts}")
    [(config, _)] = usable
    folder = cached_build(name, config, data_dir, {**benchmark.scoring_options, **options})
    return _built_rows(folder, read_build(folder)["configs"], columns, split)


def _built_rows(
    folder: Path, configs: Mapping[str, Mapping[str, Any]], columns: Mapping[str, str], split: str
) -> tuple[Iterator[Row], Images]:
    if len(configs) != 1:
        raise DataError(
            f"{folder} holds {', '.join(configs) or 'nothing'}; to train on it, build one configuration with captions"
        )
    [(config, splits)] = configs.items()
    if split not in splits:
        raise DataError(
            f"{config} has no split {split!r}; it has {', '.join(splits)}. A benchmark is made to be tested with: name "
            "another split only for a model that is not"
        )
    return _dataset_rows(str(folder), config, config, columns, split)


def _dataset_rows(
    path: str, config: str | None, reference: str, columns: Mapping[str, str], split: str
) -> tuple[Iterator[Row], Images]:
    import datasets

    with data_errors(reference):
        dataset: Any = datasets.load_dataset(path, config, split=split)
    chosen = _choose(reference, dataset.column_names, columns)
    column = chosen["image"]
    if not isinstance(dataset.features[column], datasets.Image):
        raise DataError(f"{reference}: the column {column!r} holds no images; name another with --column image=NAME")
    pictures = dataset.select_columns([column]).cast_column(column, datasets.Image(decode=False))
    keys = _picture_keys(pictures, column)
    if "" in keys:
        raise DataError(f"{reference}: row {keys.index('')} has no image; mend the dataset, or build it with them")
    places: dict[str, int] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, place)
    texts = dataset.select_columns(list(dict.fromkeys(name for field, name in chosen.items() if field != "image")))
    rows = (
        found
        for number, (key, row) in enumerate(zip(keys, texts.to_list(), strict=True))
        for found in _rows(reference, str(number), row, chosen, key)
    )
    return rows, DatasetImages(pictures, column, places)


def _picture_keys(pictures: Any, column: str) -> list[str]:
    """What the images of a dataset are known by: their content, their path where they are files beside it, or ""."""
    files = [Path(file["filename"]) for file in pictures.cache_files]
    identity = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    found = image_keys(pictures, [column], cache_folder() / "image-keys", identity)
    return [
        key if key != MISSING else (pictures[place][column] or {}).get("path") or ""
        for place, [(key, _)] in enumerate(found)
    ]


def _file_rows(path: Path, columns: Mapping[str, str], split: str) -> Iterator[Row]:
    if split != "train":
        raise DataError(f"{path} is a table, which has no split {split!r}; leave the split out, or name another table")
    path = find_table(path)
    table = read_rows(path)
    chosen = _choose(str(path), column_names(table), columns)
    known: set[str] = set()
    for key, row in table:
        name = row.get(chosen["image"]) or ""
        if not isinstance(name, str):
            raise DataError(
                f"{path}: row {key} has in {chosen['image']!r} {str(name)[:40]!r} …, a {type(name).__name__} that is "
                "no name of an image's file; say which column has them, as in --column image=file_name"
            )
        if name not in known:
            file = path.parent / name
            if not name or not _is_file(file):
                raise DataError(
                    f"{path}: row {key} names the image {name[:200]!r}, and there is no such file in {path.parent}; "
                    "paths are relative to the table's folder"
                )
            known.add(name)
        yield from _rows(str(path), key, row, chosen, name)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long
        return False


def _choose(source: str, found: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Which column of a source is each of our fields; a caption and an image there must be."""
    chosen = choose_columns(source, found, columns, _GUESSES, ["caption"])
    if "image" not in chosen:
        raise DataError(
            f"{source} has the columns {', '.join(found)}, and none is known to be the image; say which it is, as in "
            f"--column image={found[0]}"
        )
    return chosen


def _rows(source: str, key: str, row: Mapping[str, Any], chosen: Mapping[str, str], image: str) -> Iterator[Row]:
    """A row for each caption in a row of a table; they share its negatives and positives."""

    def texts(field: str) -> tuple[str, ...]:
        return _texts(f"{source}: row {key}", row.get(chosen[field])) if field in chosen else ()

    captions, negatives, positives = texts("caption"), texts("negatives"), texts("positives")
    if not captions:
        raise DataError(f"{source}: row {key} has no caption in {chosen['caption']!r}; mend or remove it")
    id = str(row[chosen["id"]]) if "id" in chosen else key
    for number, caption in enumerate(captions):
        yield Row(f"{id}#{number}" if len(captions) > 1 else id, image, caption, negatives, positives)


def _texts(place: str, value: Any) -> tuple[str, ...]:
    """The texts of a cell: one, a list, a list written out as in NegCLIP's files, or none, which may be a NaN."""
    if isinstance(value, str) and value[:1] == "[" and value[-1:] == "]":
        try:
            read = ast.literal_eval(value)
        except (ValueError, SyntaxError) as error:
            if value[1:2] in ("'", '"'):
                raise DataError(f"{place} has a list that cannot be read, {value[:60]!r}; mend or remove it") from error
            read = value
        value = read
    values: Sequence[Any] = value if isinstance(value, list) else [value]
    values = [each for each in values if each is not None and each == each]
    odd = [each for each in values if not isinstance(each, str)]
    if odd:
        raise DataError(f"{place} has {odd[0]!r} where a caption belongs; mend or remove it")
    return tuple(each for each in values if each and each.strip())
