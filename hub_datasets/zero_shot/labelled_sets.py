"""The labelled sets: ImageNet, those of VTAB (Zhai et al. 2019) with CIFAR-10, and any folder of the user's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class LabelledSet:
    """A set of images with a class each.

    Args:
        title: its name.
        url: where to get it.
        templates: the name of its templates in ``templates.TEMPLATES``.
        are_numbers: whether a number may be the name of a class; elsewhere it is a code that says nothing in a prompt.
        names: better names of classes than those that its copies have.
    """

    title: str
    url: str
    templates: str = "photo"
    are_numbers: bool = False
    names: Mapping[str, str] = field(default_factory=dict)


_RECORDS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
SETS = {name: LabelledSet(**record) for name, record in _RECORDS.items()}
# Twenty as in Hard Positives, Table 10: the nineteen of VTAB, and CIFAR-10, which may be its twentieth.
VTAB = tuple(name for name in SETS if name not in ("imagenet", "folder"))
