"""What a user's table says of models beside their predictions, and the groups of models by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common.errors import DataError, UnknownNameError
from ..common.model_sizes import NOT_STATED, parameter_count, size_class
from ..common.user_files import read_values

_MOST_BYTES = 4 << 20
# By the name of a model, the values of the other columns.
Facts = Mapping[str, Mapping[str, str]]


def check_group(by: str, facts: Facts) -> None:
    """Raise UnknownNameError unless models can be grouped by `by`: empty, their size or family, or a column."""
    known = list(dict.fromkeys(("size", "family", *(column for each in facts.values() for column in each))))
    if by and by not in known:
        remedy = (
            f"predictions do not record a model's {by}: give a CSV with the columns model and {by}, --facts FILE.csv"
        )
        kind = "column of the facts of models" if facts else f"group of models ({remedy})"
        raise UnknownNameError(kind, by, known)


def read_facts(path: Path) -> dict[str, dict[str, str]]:
    """Return the other columns of a CSV by the name of the model.

    Raises:
        DataError: it is missing, too large, not a table, or without the column ``model``, or a model comes twice.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path} has {path.stat().st_size:,} bytes; expected a CSV of at most {_MOST_BYTES:,}")
        lines = read_values(path, ".csv")
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a CSV with a line for each model: {error}") from error
    if not lines or "model" not in lines[0]:
        raise DataError(f"{path} has no line or no column `model`; expected model,data and a line for each model")
    facts: dict[str, dict[str, str]] = {}
    for line in lines:
        model = line.pop("model").strip()
        if model in facts:
            raise DataError(f"{path} has the model {model!r} twice; keep one of its lines")
        facts[model] = {name: value.strip() for name, value in line.items()}
    return facts


def check_facts(facts: Facts, names: Sequence[str]) -> None:
    """Raise DataError if the facts are of none of the models."""
    if facts and not any(name in facts for name in names):
        raise DataError(
            f"the facts of models name {', '.join([*facts][:3])} …; the predictions are of {', '.join(names)}"
        )


def group_of(model: Mapping[str, Any], by: str, facts: Facts) -> str:
    """The group of a model; empty without groups."""
    about = {**model, **{name: value for name, value in facts.get(str(model["name"]), {}).items() if value}}
    if by == "size" and not facts.get(str(model["name"]), {}).get("size"):
        return size_class(parameter_count(about.get("parameters")))
    return (str(about.get(by) or NOT_STATED)) if by else ""
