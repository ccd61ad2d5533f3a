"""Entries: what one source says of one model on one score. The leaderboard is made of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...metrics.records.results import Result

RECOMPUTED, PUBLISHED, REFERENCE = ORIGINS = ("recomputed", "published", "reference")
CHANCE = "Chance"

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9}


@dataclass(frozen=True)
class Entry:
    """A score of a model, with where it is from.

    Args:
        model, family: names; the family is empty where it is not known.
        parameters: their number, None where it is not known.
        training_data: in words, empty where it is not known.
        benchmark, task, metric, score: what was measured; ``macro_<score>`` is the unweighted mean over categories.
        category: the part of the task that it was measured on, empty for the whole.
        value: the score, a fraction in [0, 1].
        interval: its confidence interval (low, high), None where there is none.
        n: number of examples, None where it is not known.
        origin: one of `ORIGINS`: computed here from a predictions file, printed in a paper, or no model at all
            (people, chance).
        source: paper, table, row and column; or the id of the submission.
        status: of the submission; ``"published"`` for what a paper prints.
        predictions: SHA-256 of the predictions file, empty where there is none.
        is_baseline: whether the model is there to show what a score is worth: one that reads no image, or a mock.
    """

    model: str
    family: str
    parameters: int | None
    training_data: str
    benchmark: str
    task: str
    metric: str
    score: str
    category: str
    value: float
    interval: tuple[float, float] | None
    n: int | None
    origin: str
    source: str
    status: str
    predictions: str
    is_baseline: bool = False

    @property
    def is_reference(self) -> bool:
        """Whether it is there to compare with: people, chance, or a baseline."""
        return self.origin == REFERENCE or self.is_baseline


def of_results(
    results: Iterable[Result],
    *,
    model: Mapping[str, Any] | None = None,
    source: str = "",
    status: str = "accepted",
) -> list[Entry]:
    """The entries of recomputed results: each score that tables show, over all, as macro average and by category.

    Args:
        results: of one model.
        model: what its submitter typed: ``name``, ``family``, ``parameters`` and ``training_data``; what is empty or
            not there is taken from the predictions file.
        source: the id of the submission.
        status: of the submission.

    Returns:
        In the order of the results; none where a result has no value, such as the macro average of rare categories
        alone, nor where it is no finite number.
    """
    typed = {key: value for key, value in (model or {}).items() if value}
    found = []
    for result in results:
        said = {**result.model, **typed}
        for score, category, value, interval, n in _values(result):
            entry = Entry(
                model=str(said["name"]),
                family=str(said.get("family") or ""),
                parameters=parameter_count(said.get("parameters")),
                training_data=str(said.get("training_data") or ""),
                benchmark=result.benchmark["name"],
                task=result.benchmark["task"],
                metric=result.metric,
                score=score,
                category=category,
                value=value,
                interval=interval,
                n=n,
                origin=RECOMPUTED,
                source=source,
                status=status,
                predictions=result.predictions["sha256"],
                is_baseline=result.model.get("is_baseline") is True,
            )
            found.append(entry)
    return found


def chance_levels(results: Iterable[Result]) -> list[Entry]:
    """What random scores would get, as reference entries: each score once, over all examples."""
    found: dict[tuple[str, ...], Entry] = {}
    for result in results:
        for score in result.table_scores:
            place = (result.benchmark["name"], result.benchmark["task"], result.metric, score)
            if score in result.chance and place not in found:
                found[place] = Entry(
                    *(CHANCE, "", None, ""),
                    *place,
                    category="",
                    value=result.chance[score],
                    interval=None,
                    n=None,
                    origin=REFERENCE,
                    source="what random scores would get",
                    status="",
                    predictions="",
                )
    return [*found.values()]


def parameter_count(text: Any) -> int | None:
    """A number of parameters, such as 151277313, ``"151,277,313"``, ``"151M"`` or ``"1.4 B"``.

    Returns:
        It, or None where it is not told: other text, 0, or more than 10 ** 15.

    >>> parameter_count("151.3M"), parameter_count("many")
    (151300000, None)
    """
    match = re.fullmatch(r"(\d{1,16}(?:\.\d{1,16})?) ?([KMB]?)", str(text).strip().upper().replace(",", ""), re.ASCII)
    if match is None:
        return None
    count = round(float(match[1]) * _UNITS[match[2]])
    return count if 0 < count <= 10**15 else None


_Value = tuple[str, str, float, tuple[float, float] | None, int]


def _values(result: Result) -> Iterator[_Value]:
    """Score, category, value, interval and n of all lines of a report, and both averages even of one category."""
    categories, n = result.scores.get("per_category", {}), result.scores["n"]
    in_macro = sum(part["n"] for name, part in categories.items() if name not in result.rare)
    parts = [("", result.scores, "", n), ("macro_", result.scores, "", min(n, in_macro) if result.rare else n)]
    parts += [("", part, name, part["n"]) for name, part in categories.items()]
    for prefix, part, category, counted in parts:
        for score in result.table_scores:
            value, interval = part.get(prefix + score), part.get(f"{prefix}{score}_interval")
            if isinstance(value, int | float) and math.isfinite(value):
                yield prefix + score, category, value, interval and (interval[0], interval[1]), counted
