"""The labelled sets: ImageNet, the datasets of VTAB (Zhai et al. 2019), CIFAR-10, and any folder of the user."""

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
        are_numbers: whether a number may be the name of a class; in other sets it is a code, meaningless in a prompt.
        names: class names to use instead of the names in copies of the set.
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
