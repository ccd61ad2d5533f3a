"""The names of classes for prompts, from labels such as ImageNet's synsets or names of folders."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...metrics.common.errors import DataError
from ..core.build import MissingSourceError
from ..sources.source_files import first_file, read_lines
from .labelled_sets import LabelledSet

NAMES, SYNSETS = "classnames.txt", "LOC_synset_mapping.txt"
_SYNSET = re.compile(r"n\d{8}")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def in_order(labels: Iterable[str]) -> list[str]:
    """Return labels in the order of their classes: numbers by value, as ImageNetV2's 0 to 999, and others as text.

    >>> in_order(["10", "9", "0"]), in_order(["b2", "b10"])
    (['0', '9', '10'], ['b10', 'b2'])
    """
    labels = sorted(labels)
    return sorted(labels, key=float) if all(map(_NUMBER.fullmatch, labels)) else labels


def class_names(labels: Sequence[str], folders: Sequence[Path], kind: LabelledSet, origin: str) -> dict[str, str]:
    """Return the names of all classes by their labels, in the order of the classes.

    Names come from the first of these sources that exists: the user's `NAMES` in one of the folders, which may also
    name classes without an image; ImageNet's `SYNSETS`; the labels. ``_`` becomes a space. If a name is a list of
    synonyms, separated by commas, the first is taken unless another class has it; names in `NAMES` keep their commas.

    Raises:
        DataError: a malformed list, a label that is not in it, fewer than two classes, equal names, or numbers that
            are meaningless in a prompt.
        MissingSourceError: synsets without names.
    """
    names = _user_names(labels, folders)
    if names is None:
        names = _listed_synsets(folders)
        if names is None:
            if labels and all(map(_SYNSET.fullmatch, labels)):
                raise MissingSourceError(
                    f"the labels are {len(labels)} synsets such as {labels[0]}, whose names are not there. Put {NAMES} "
                    "into data_dir, a name in each line in the order of the sorted synsets (open_clip_torch has CLIP's:"
                    " python -c \"from open_clip import IMAGENET_CLASSNAMES as names; print(*names, sep='\\n')\"), or "
                    f"ImageNet's own list, {SYNSETS} "
                    "(https://www.kaggle.com/c/imagenet-object-localization-challenge/data)."
                )
            names = {label: kind.names.get(label, label) for label in labels}
        first = {label: name.partition(",")[0].strip() for label, name in names.items()}
        often = Counter(first.values())
        names = {label: first[label] if often[first[label]] == 1 else name for label, name in names.items()}
    strange = next((label for label in labels if label not in names), None)
    if strange is not None:
        raise DataError(f"{origin} has images of the label {strange!r}, which its list of classes does not have.")
    names = {label: " ".join(name.replace("_", " ").split()) for label, name in names.items()}
    _check(list(names.values()), kind, origin)
    return names


def _user_names(labels: Sequence[str], folders: Sequence[Path]) -> dict[str, str] | None:
    """The content of `NAMES`: a label, a tab and a name in each line, or a name for each label as `in_order`."""
    first_lines = _first_lines(NAMES, folders)
    if first_lines is None:
        return None
    path, lines = first_lines
    pairs = [[field.strip() for field in line.split("\t")] for line in lines]
    if all(len(pair) == 2 and all(pair) for pair in pairs) and len({label for label, _ in pairs}) == len(pairs):
        return dict(pairs)
    # Names without labels are ambiguous if sort orders differ: some people sort b10 before b2, and others after it.
    by_value = sorted(labels, key=lambda label: re.sub(r"\d+", lambda digits: digits[0].zfill(20), label))
    is_unclear = by_value != list(labels) == sorted(labels)
    if any("\t" in line for line in lines) or len(lines) != len(labels) or is_unclear:
        raise DataError(
            f"{path} has {len(lines)} lines, and there are {len(labels)} labels. Expected in each line a label, a tab "
            "and its name, each label once; or the names alone in the order of the labels, if that is clear, as it is "
            "for 0, 1, 2 and for texts without numbers."
        )
    return dict(zip(labels, lines, strict=True))


def _listed_synsets(folders: Sequence[Path]) -> dict[str, str] | None:
    """Return the content of `SYNSETS`: a synset, a space, and its synonyms in each line."""
    first_lines = _first_lines(SYNSETS, folders)
    if first_lines is None:
        return None
    path, lines = first_lines
    pairs = {label: name for label, _, name in (line.partition(" ") for line in lines)}
    if not all(_SYNSET.fullmatch(label) and name for label, name in pairs.items()):
        raise DataError(f"{path} is not ImageNet's list. Expected a synset such as n01440764, a space and synonyms.")
    return dict(sorted(pairs.items()))


def _first_lines(name: str, folders: Sequence[Path]) -> tuple[str, list[str]] | None:
    """Find the first file of a name in some folders; return it and its lines that are not empty."""
    path = first_file(folder / name for folder in folders)
    return None if path is None else (path, read_lines(path))


def _check(names: Sequence[str], kind: LabelledSet, origin: str) -> None:
    remedy = f"Give names in {NAMES} in data_dir: a label, a tab and its name in each line."
    if len(names) < 2:
        raise DataError(f"{origin} has images of {len(names)} class; zero-shot classification needs two.")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{origin} has two classes of the name {twice!r}, which no prompt can tell apart. {remedy}")
    if not kind.are_numbers and all(re.fullmatch(r"[\d.\-]+", name) for name in names):
        shown = ", ".join(names[:3])
        raise DataError(f"the classes of {origin} are numbers ({shown}), which say nothing in a prompt. {remedy}")
