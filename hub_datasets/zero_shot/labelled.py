"""Read labelled images: a folder for each label, a table of files and labels, or a dataset with a column of labels."""

from __future__ import annotations

import csv
import importlib
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets

from ..core.source_files import read_bytes
from .labelled_sets import LabelledSet

TABLE, NAMES, SYNSETS = "metadata.csv", "classnames.txt", "LOC_synset_mapping.txt"
_SPLITS = ("test", "validation", "val", "valid")
_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
_SYNSET = re.compile(r"n\d{8}")
_HUB = "hf://datasets/"


@dataclass(frozen=True)
class Labelled:
    """Labelled images.

    Args:
        names: the names of all classes, by number, as they are put into prompts.
        images: the name of each image, and the number of its class.
        folder: where the files of these names are; None if they are in `rows`.
        rows: a dataset whose row number i has image number i in the column `column`, as a file.
    """

    names: list[str]
    images: list[tuple[str, int]]
    folder: Path | None = None
    rows: Any = None
    column: str = ""


def read_folder(folder: Path, name: str, kind: LabelledSet, split: str, subset: str) -> Labelled:
    """The labelled images of a user's own copy, in its folder of the set's name or in itself.

    Raises:
        FileNotFoundError: no labelled images.
        ValueError: a malformed file, or classes without usable names.
    """
    root = folder / name if (folder / name).is_dir() else folder
    if any(root.glob("*.parquet")) or any(root.glob("*/*.parquet")):
        return _of_dataset(datasets.load_dataset(str(root), subset or None), str(root), root, kind, split)
    found = [root / each for each in ((split,) if split else _SPLITS) if (root / each).is_dir()]
    if split and not found:
        raise FileNotFoundError(f"{root} has no folder {split}, the split that was asked for.")
    place = found[0] if found else root
    files = _table(place / TABLE) if (place / TABLE).is_file() else _folders(place)
    if not files:
        raise FileNotFoundError(
            f"{place} has neither {TABLE} (file_name, label) nor folders of images, one for each label. "
            f"{kind.title} is at {kind.url}; pass its folder as data_dir."
        )
    labels = sorted({label for _, label in files})
    keys, names = _given_names([place, root, folder], labels)
    number = {key: index for index, key in enumerate(keys)}
    strange = [label for label in labels if label not in number]
    if strange:
        raise ValueError(f"{place} has images of the label {strange[0]!r}, which its list of classes does not have.")
    named = _checked(names or [kind.names.get(label, label) for label in labels], str(place), kind)
    return Labelled(named, [(file, number[label]) for file, label in files], place)


def read_dataset(reference: str, kind: LabelledSet, split: str, folder: Path | None) -> Labelled:
    """The labelled images of a dataset of the Hub, ``hf://datasets/owner/name[@revision][/config]``.

    Raises:
        ValueError: another form of the reference, no columns of images and labels, or no labels that are shown.
        ConnectionError: it could not be downloaded.
    """
    match = re.fullmatch(rf"{_HUB}([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.+))?", reference)
    if not match:
        raise ValueError(f"dataset is {reference!r}. Expected {_HUB}OWNER/NAME or {_HUB}OWNER/NAME@REVISION/CONFIG.")
    repository, revision, config = match.groups()
    try:
        found = datasets.load_dataset(repository, config, **({"revision": revision} if revision else {}))
    except (OSError, datasets.exceptions.DatasetNotFoundError) as error:
        raise ConnectionError(
            f"{reference} could not be loaded ({error}). Connect, sign in if it is gated, or pass data_dir, your own "
            f"copy; {kind.title} is at {kind.url}"
        ) from error
    return _of_dataset(found, reference, folder, kind, split)


def _of_dataset(found: Any, origin: str, folder: Path | None, kind: LabelledSet, split: str) -> Labelled:
    """One split of a dataset: the one asked for, or the first of test, validation and others that shows its labels."""
    features = next(iter(found.values())).features
    label = next((key for key, each in features.items() if isinstance(each, datasets.ClassLabel)), None)
    image = next((key for key, each in features.items() if isinstance(each, datasets.Image)), None)
    if label is None or image is None:
        raise ValueError(f"{origin} has the columns {', '.join(features)}: no image, or no class label.")
    if split and split not in found:
        raise ValueError(f"{origin} has no split {split!r}; it has {', '.join(found)}.")
    ordered = sorted(found, key=lambda name: _SPLITS.index(name) if name in _SPLITS else len(_SPLITS))
    for name in [split] if split else ordered:
        numbers = [-1 if number is None else int(number) for number in found[name].with_format(None)[label][:]]
        if numbers and min(numbers) >= 0:  # hidden labels are -1
            labels = list(features[label].names)
            keys, given = _given_names([] if folder is None else [folder], labels)
            by_label = dict(zip(keys, given, strict=True)) if given else kind.names
            names = _checked([by_label.get(each, each) for each in labels], origin, kind)
            rows = found[name].cast_column(image, datasets.Image(decode=False)).select_columns([image])
            return Labelled(names, [(f"{name}-{n:06d}", each) for n, each in enumerate(numbers)], None, rows, image)
    raise ValueError(
        f"{origin} shows the labels of no split ({', '.join(found)}); zero-shot classification needs them."
    )


def _folders(place: Path) -> list[tuple[str, str]]:
    """The images of folders of labels, each with its label."""
    return [
        (f"{label.name}/{file.name}", label.name)
        for label in sorted(place.iterdir())
        if label.is_dir() and not label.name.startswith(".")
        for file in sorted(label.iterdir())
        if file.suffix.lower() in _SUFFIXES
    ]


def _table(path: Path) -> list[tuple[str, str]]:
    """The rows of a table of files and labels, as `datasets` reads it of an image folder."""
    expected = "Expected a CSV file with the columns file_name and label, and a row for each image."
    try:
        rows = list(csv.DictReader(io.StringIO(read_bytes(path).decode("utf-8")), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a table ({error}). {expected}") from error
    bad = next((number for number, row in enumerate(rows) if not row.get("file_name") or not row.get("label")), None)
    if not rows or bad is not None:
        raise ValueError(
            f"{path} has {'no rows' if bad is None else f'no file_name or label in row {bad}'}. {expected}"
        )
    names = [row["file_name"] for row in rows]
    if len(set(names)) < len(names):
        raise ValueError(f"{path} has more than one label of {max(names, key=names.count)}. {expected}")
    return [(row["file_name"], row["label"]) for row in rows]


def _given_names(folders: Sequence[Path], labels: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The labels of all classes and their names, from a list in one of some folders; or the labels alone.

    `NAMES` has a line for each class: its name, in the order of the sorted labels; or its label, a tab and its name.
    `SYNSETS` is ImageNet's list: a synset, a blank, and synonyms of which the first is taken if no other class has it.
    """
    for path in (folder / file for file in (NAMES, SYNSETS) for folder in folders):
        if path.is_file():
            try:
                lines = [line.strip("\r") for line in read_bytes(path).decode("utf-8").split("\n") if line.strip()]
            except UnicodeDecodeError as error:
                raise ValueError(f"{path} is not a text in UTF-8: {error}.") from error
            separator = "\t" if path.name == NAMES else " "
            pairs = [line.partition(separator)[::2] for line in lines]
            if all(label and name for label, name in pairs) and pairs:
                by_label = {label.strip(): name.strip() for label, name in sorted(pairs)}
                return list(by_label), _short(list(by_label.values())) if separator == " " else list(by_label.values())
            if len(lines) != len(labels) or separator == " ":
                raise ValueError(
                    f"{path} has {len(lines)} lines, and there are {len(labels)} labels. Expected the name of each "
                    "class in the order of the sorted labels, or a label, a tab and its name in each line."
                )
            return list(labels), [line.strip() for line in lines]
    if labels and all(_SYNSET.fullmatch(label) for label in labels):
        return list(labels), _open_clip_names(labels)
    return list(labels), _short(labels) if any("," in label for label in labels) else None


def _open_clip_names(labels: Sequence[str]) -> list[str]:
    """The names of ImageNet's synsets in CLIP's evaluation, as the package open_clip has them in their order."""
    remedy = (
        f"Put {SYNSETS} of ImageNet (https://www.kaggle.com/c/imagenet-object-localization-challenge/data) or "
        f"{NAMES} with a synset, a tab and its name in each line into data_dir"
    )
    try:
        names = list(importlib.import_module("open_clip").IMAGENET_CLASSNAMES)
    except (ImportError, AttributeError):
        raise FileNotFoundError(
            f"the labels are synsets such as {labels[0]}, whose names are not here. {remedy}, or install open_clip_torch."
        ) from None
    if len(names) != len(labels):
        raise FileNotFoundError(
            f"the labels are {len(labels)} synsets, and open_clip has names of {len(names)}. {remedy}."
        )
    return names


def _short(names: Sequence[str]) -> list[str]:
    """The first of each class's synonyms, or all of them where another class has the first one too."""
    first = [name.partition(",")[0].strip() for name in names]
    often = Counter(first)
    return [short if often[short] == 1 else name for short, name in zip(first, names, strict=True)]


def _checked(names: Sequence[str], origin: str, kind: LabelledSet) -> list[str]:
    """Names as they are put into prompts; a ValueError unless there are two, all different and not mere numbers."""
    clean = [" ".join(name.replace("_", " ").split()) for name in names]
    if len(clean) < 2:
        raise ValueError(f"{origin} has images of {len(clean)} class; zero-shot classification needs two.")
    twice = next((name for name, count in Counter(clean).items() if count > 1), None)
    remedy = f"Give names in {NAMES} in data_dir: a label, a tab and its name in each line."
    if twice is not None:
        raise ValueError(f"{origin} has two classes of the name {twice!r}, which no prompt can tell apart. {remedy}")
    if not kind.are_numbers and all(re.fullmatch(r"[\d.\-]+", name) for name in clean):
        shown = ", ".join(clean[:3])
        raise ValueError(f"the classes of {origin} are numbers ({shown}), which say nothing in a prompt. {remedy}")
    return clean


def by_turns(images: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Images with their classes, one of each class after the other, so that the first few are of many classes.

    >>> by_turns([("a", 0), ("b", 0), ("c", 1)])
    [('a', 0), ('c', 1), ('b', 0)]
    """
    seen: dict[int, int] = {}
    turns = [seen.setdefault(number, 0) for _, number in images]
    for place, (_, number) in enumerate(images):
        turns[place], seen[number] = seen[number], seen[number] + 1
    order = sorted(range(len(images)), key=lambda place: (turns[place], images[place][1]))
    return [images[place] for place in order]
