"""Read labelled images: a folder for each label, a table of files and labels, or a dataset with a column of labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from datasets.exceptions import DatasetNotFoundError
from huggingface_hub import constants

from ...metrics.common.errors import DataError
from ...metrics.common.user_files import list_files
from ..core.build import MissingSourceError
from ..sources.builders import SourceConfig
from ..sources.downloads import DownloadError
from ..sources.records import parse_records, with_remedy
from ..sources.source_files import first_file, is_inner_path, read_bytes
from .class_names import class_names, in_order
from .labelled_sets import SETS

TABLE = "metadata.csv"
SPLITS = ("test", "validation", "val", "valid")
_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
_HUB = "hf://datasets/"


@dataclass(frozen=True)
class Labelled:
    """Labelled images.

    Args:
        names: the names of all classes for prompts, by class index.
        images: the name of each image, and the index of its class.
        folder: the folder of these files; None if `read` gives their content.
        read: the bytes of an image, by its index in `images`.
    """

    names: list[str]
    images: list[tuple[str, int]]
    folder: Path | None = None
    read: Callable[[int], bytes] | None = None


@dataclass
class ZeroShotConfig(SourceConfig):
    """The options of one labelled set.

    Args:
        templates: a name of ``templates.TEMPLATES``, or templates separated by ``|``; empty for the set's default.
        dataset: ``owner/name[@revision][/config]`` on the Hub, in place of a folder of images.
        split: the split or its folder; empty for test, or else validation.
        image_column, label_column: of a dataset; empty for the first column of images, and of class labels.
    """

    templates: str = ""
    dataset: str = ""
    split: str = ""
    image_column: str = ""
    label_column: str = ""


def read_folder(folder: Path, config: ZeroShotConfig) -> Labelled:
    """Read the labelled images of a user's own copy, in its folder of the set's name or in itself.

    Raises:
        MissingSourceError: no labelled images, or no such split.
        DataError: a malformed file, or classes without usable names.
    """
    kind = SETS[config.name]
    root = folder / config.name if (folder / config.name).is_dir() else folder
    if list_files(root, "*.parquet") or list_files(root, "*/*.parquet"):
        return _read_columns(str(root), root, config)
    wanted = (config.split,) if config.split else SPLITS
    place = next((root / subfolder for subfolder in wanted if (root / subfolder).is_dir()), root)
    if config.split and place == root:
        raise MissingSourceError(f"{root} has no folder {config.split!r}, the split that was asked for.")
    files = _table(place / TABLE) if first_file([place / TABLE]) else _label_folders(place)
    if not files:
        raise MissingSourceError(
            f"{place} has neither {TABLE} (file_name, label) nor folders of images, one for each label. "
            f"{kind.title} is at {kind.url}; pass its folder as data_dir."
        )
    named = class_names(in_order({label for _, label in files}), [place, root, folder], kind, str(place))
    number = {label: index for index, label in enumerate(named)}
    return Labelled(list(named.values()), [(file, number[label]) for file, label in files], place)


def read_dataset(folder: Path | None, config: ZeroShotConfig) -> Labelled:
    """Read the labelled images of a dataset of the Hub, whose name may follow ``hf://datasets/``.

    `folder` may have names of its classes.

    Raises:
        DataError: another form of the reference, no such columns or split, or no labels that are shown.
        DownloadError: it could not be downloaded.
    """
    match = re.fullmatch(r"([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.+))?", config.dataset.removeprefix(_HUB))
    if not match:
        raise DataError(
            f"dataset is {config.dataset!r}. Expected OWNER/NAME, OWNER/NAME/CONFIG or OWNER/NAME@REVISION."
        )
    repository, revision, part = match.groups()
    try:
        return _read_columns(repository, folder, config, part, revision)
    except (OSError, DatasetNotFoundError) as error:
        kind = SETS[config.name]
        remedy = f"sign in if it is gated, or pass data_dir, your own copy; {kind.title} is at {kind.url}"
        raise DownloadError(f"{constants.ENDPOINT}/datasets/{repository}", error, remedy) from error


def _read_columns(
    place: str, folder: Path | None, config: ZeroShotConfig, part: str | None = None, revision: str | None = None
) -> Labelled:
    """Read the split asked for, or the first of test, validation and others that shows its labels."""
    try:
        builder = datasets.load_dataset_builder(place, part, revision=revision)
        split_names = builder.config.data_files or datasets.get_dataset_split_names(place, part, revision=revision)
        splits = list(map(str, split_names))
    except ValueError as error:  # several configurations
        raise DataError(
            f"{place} cannot be opened: {error}. Name a configuration of it, or the folder of one."
        ) from None
    if config.split and config.split not in splits:
        raise DataError(f"{place} has no split {config.split!r}; it has {', '.join(splits)}.")
    by_rank = sorted(splits, key=lambda name: SPLITS.index(name) if name in SPLITS else len(SPLITS))
    for split in [config.split] if config.split else by_rank:
        rows = _load_split(builder, split)
        image = _column(rows.features, place, "image_column", config.image_column, datasets.Image)
        if not isinstance(rows.features[image], datasets.Image):
            raise DataError(
                f"{place}: the column {image} has no images but {rows.features[image]}. Name another image_column."
            )
        labels, numbers = _labels(
            rows, _column(rows.features, place, "label_column", config.label_column, datasets.ClassLabel)
        )
        if numbers and min(numbers) >= 0:
            break
    else:
        raise DataError(
            f"{place} shows the labels of no split ({', '.join(splits)}); zero-shot classification needs them."
        )
    named = class_names(labels, [] if folder is None else [folder], SETS[config.name], place)
    number = {label: index for index, label in enumerate(named)}
    images = [(f"{split}-{row:06d}", number[labels[label_number]]) for row, label_number in enumerate(numbers)]
    files = rows.cast_column(image, datasets.Image(decode=False)).select_columns([image])
    return Labelled(list(named.values()), images, read=lambda row: _content(files[row][image], f"{place}, row {row}"))


def _load_split(builder: Any, split: str) -> Any:
    """Load one split; of Parquet files, which most datasets of the Hub are, no other one is downloaded."""
    files = builder.config.data_files
    if files and all(str(path).endswith(".parquet") for path in files[split]):
        data_files = {split: [str(path) for path in files[split]]}
        return datasets.load_dataset("parquet", data_files=data_files, features=builder.info.features, split=split)
    builder.download_and_prepare()
    return builder.as_dataset(split=split)


def _column(features: Any, place: str, option: str, named: str, kind: Any) -> str:
    """Return the column that an option names, or the first of a type."""
    name = named or next((key for key, feature in features.items() if isinstance(feature, kind)), "")
    if name not in features:
        content = "images" if option == "image_column" else "class labels"
        raise DataError(
            f"{place} has the columns {', '.join(features)}, and {name or f'none of {content}'} is not among "
            f"them. Name the column of {content} with the option {option}."
        )
    return name


def _labels(rows: Any, column: str) -> tuple[list[str], list[int]]:
    """Return a column's labels, in order if they are not declared, and the index of each row's label; -1 if hidden."""
    values = rows.with_format(None)[column][:]
    if isinstance(rows.features[column], datasets.ClassLabel):
        return list(rows.features[column].names), [-1 if value is None else int(value) for value in values]
    labels = in_order({str(value) for value in values if value is not None})
    index = {label: number for number, label in enumerate(labels)}
    return labels, [-1 if value is None else index[str(value)] for value in values]


def _content(picture: Any, place: str) -> bytes:
    """Return the file in a cell of a column of images."""
    if picture is None:
        raise DataError(f"{place} of the split has no image. Remove the row, or choose another split.")
    return picture["bytes"] if picture["bytes"] is not None else read_bytes(picture["path"])


def _label_folders(place: Path) -> list[tuple[str, str]]:
    """Return the images of folders of labels, each with its label."""
    files = (file for file in list_files(place, "*/*") if file.suffix.lower() in _SUFFIXES)
    return [(f"{file.parent.name}/{file.name}", file.parent.name) for file in files]


def _table(path: Path) -> list[tuple[str, str]]:
    """Return the rows of a table of files and labels, as `datasets` reads it from an image folder."""
    with with_remedy("Expected a CSV file with the columns file_name and label, and a row for each image"):
        rows = [row for _, _, row in parse_records(read_bytes(path), str(path))]
        for number, row in enumerate(rows):
            if not row.get("label") or not is_inner_path(row.get("file_name") or ""):
                raise DataError(f"{path} has no label, or no path in its folder as file_name, in row {number}.")
        names = [row["file_name"] for row in rows]
        if len(set(names)) < len(names):
            raise DataError(f"{path} has more than one label of {max(names, key=names.count)}.")
    return [(row["file_name"], row["label"]) for row in rows]


def by_turns(images: Sequence[tuple[str, int]]) -> list[int]:
    """Return indices of images with their classes, cycling through classes, so that the first images cover many.

    >>> by_turns([("a", 0), ("b", 0), ("c", 1)])
    [0, 2, 1]
    """
    counts: Counter[int] = Counter()
    turns = []
    for _, number in images:
        turns.append(counts[number])
        counts[number] += 1
    return sorted(range(len(images)), key=lambda place: (turns[place], images[place][1]))
