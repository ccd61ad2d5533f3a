"""Summaries of the audits of the benchmarks, stored next to their cards by ``vl-assay audit … --card``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError
from ....metrics.common.formatting import percent, words
from ...core.benchmarks import benchmark_folder, split_reference

AUDIT_FILE = "audit.json"
SCHEMA = "vl-assay/audit-summary"
VERSION = 1
# A category counts as solved (or leaking) without the image if the best scorer's interval lies above this.
SOLVED, LEAKS = 0.9, 0.55
_MOST_NAMES = 7

# An accuracy by category, in [0, 1].
Levels = Mapping[str, float]


def read_audit(benchmark: str) -> dict[str, Any] | None:
    """Read the audits of a benchmark's parts; None if it was not audited.

    Returns:
        By part, such as ``"sugarcrepe"`` or ``"sugarcrepe/unrefined"``: `pairs`, `categories` (pairs of each),
        `confidence`, `degenerate` (pairs of each kind), and `scorers`: for each rule, probe or blind model its `kind`,
        `accuracy`, `interval` and `tie_rate`, in `per_category` the same of each category, all fractions in [0, 1],
        where 0.5 is chance.

    Raises:
        UnknownNameError: no such benchmark.
        DataError: the file is damaged or of another version.
    """
    name, _ = split_reference(benchmark)
    return read_summary(benchmark_folder(name) / AUDIT_FILE)


def verdict(*audits: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the conclusion of audits: the categories that a scorer solves, or guesses, without the image.

    Args:
        audits: records of `audit`, or summaries of `read_audit`, at least one; the best scorer of any counts.

    Returns:
        The text, and whether it speaks against the benchmark: the lower end of the interval of some category's best
        scorer is above `LEAKS`.
    """
    best: dict[str, tuple[float, float, str]] = {}
    for audit in audits:
        for scorer, measured in audit["scorers"].items():
            for name, category_result in measured["per_category"].items():
                low = category_result.get("accuracy_interval", category_result.get("interval"))[0]
                best[name] = max((category_result["accuracy"], low, scorer), best.get(name, (-1.0, 0.0, "")))
    ranked = sorted(best.items(), key=lambda item: -item[1][0])
    solved = [f"{name} ({percent(value)} %)" for name, (value, low, _) in ranked if low > SOLVED]
    leaks = [f"{name} ({percent(value)} %)" for name, (value, low, _) in ranked if LEAKS < low <= SOLVED]
    sentences = [f"{_listed(solved)} can be solved without the image."] if solved else []
    sentences += [f"{_listed(leaks)} can be guessed without it more often than by chance."] if leaks else []
    if not sentences:
        name, (accuracy, _, scorer) = ranked[0]
        sentences.append(
            f"No category is given away by its captions: without the image at most {percent(accuracy)} % of {name} are "
            f"right ({words(scorer)}); chance is 50 %."
        )
    return " ".join(sentences), bool(solved or leaks)


def _listed(names: list[str]) -> str:
    """Join names with commas and "and"; the last of many are counted."""
    if len(names) > _MOST_NAMES:
        names = [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more categories"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def read_summary(path: Path) -> dict[str, Any] | None:
    """Read a file that ``vl-assay audit … --card`` wrote; None if it does not exist; see `read_audit`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}); remove it and audit again") from error
    schema_and_version = (content.get("schema"), content.get("version")) if isinstance(content, dict) else None
    if schema_and_version != (SCHEMA, VERSION) or not isinstance(content.get("audits"), dict):
        raise DataError(f"{path} says schema and version {schema_and_version}; this version reads {(SCHEMA, VERSION)}")
    return content["audits"]
