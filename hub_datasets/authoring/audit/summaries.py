"""Summaries of the audits of the benchmarks, stored next to their cards by ``vl-assay audit … --card``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError
from ....metrics.common.formatting import percent, words
from ...core.benchmarks import benchmark_folder, split_reference

AUDIT_FILE = "audit.json"
SCHEMA = "vl-assay/audit-summary"
VERSION = 1
# A category is solved, or leaks, without the image where the interval of the best scorer's accuracy lies above this.
SOLVED, LEAKS = 0.9, 0.55
_MOST_NAMES = 7

# An accuracy by category, in [0, 1].
Levels = Mapping[str, float]


def read_audit(benchmark: str) -> dict[str, Any] | None:
    """The audits of a benchmark's parts, or None if there are none.

    Returns:
        By part, such as ``"sugarcrepe"`` or ``"sugarcrepe/unrefined"``: `pairs`, `categories` (pairs of each),
        `confidence`, `degenerate` (pairs of each kind), and `scorers`: for each rule, probe or blind model its `kind`,
        `accuracy`, `interval` and `tie_rate`, in `per_category` the same of each category, all fractions in [0, 1],
        where 0.5 is chance; `normalised` has rules and probes after normalisation of the captions.

    Raises:
        UnknownNameError: no such benchmark.
        DataError: the file is damaged or of another version.
    """
    name, _ = split_reference(benchmark)
    return read_summary(benchmark_folder(name) / AUDIT_FILE)


def audited_levels(benchmark: str, task: str) -> list[Levels]:
    """The accuracy of each scorer of a task's audit by category; empty if the task was not audited."""
    audits = read_audit(benchmark) or {}
    audit = audits.get(f"{benchmark}/{task}") or audits.get(benchmark) or {"scorers": {}}
    return [
        {name: figures["accuracy"] for name, figures in scorer["per_category"].items()}
        for scorer in audit["scorers"].values()
    ]


def verdict(*audits: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the conclusion of audits: the categories that a scorer solves, or guesses, without the image.

    Args:
        audits: records of `audit`, or summaries of `read_audit`, at least one; the best scorer of any counts.

    Returns:
        The text, and whether it speaks against the benchmark: the lower end of the interval of some category's best
        scorer is above `LEAKS`.
    """
    best: dict[str, tuple[float, float, str]] = {}
    for category, reached in ((name, max(_reached(audit, name))) for audit in audits for name in audit["categories"]):
        best[category] = max(reached, best.get(category, reached))
    ranked = sorted(best.items(), key=lambda pair: -pair[1][0])
    solved = [(name, found) for name, found in ranked if found[1] > SOLVED]
    leaks = [(name, found) for name, found in ranked if LEAKS < found[1] <= SOLVED]
    sentences = []
    if solved:
        sentences.append(f"{_named(solved)} can be solved without the image.")
    if leaks:
        sentences.append(f"{_named(leaks)} can be guessed without it more often than by chance.")
    if not sentences:
        name, (accuracy, _, scorer) = ranked[0]
        sentences.append(
            f"No category is given away by its captions: without the image at most {percent(accuracy)} % of {name} are "
            f"right ({words(scorer)}); chance is 50 %."
        )
    return " ".join(sentences), bool(solved or leaks)


def _reached(audit: Mapping[str, Any], category: str) -> Iterator[tuple[float, float, str]]:
    """Accuracy, lower end of its interval, and name of each scorer in a category."""
    for name, scorer in audit["scorers"].items():
        figures = scorer["per_category"][category]
        yield figures["accuracy"], figures.get("accuracy_interval", figures.get("interval"))[0], name


def _named(levels: Sequence[tuple[str, tuple[float, float, str]]]) -> str:
    """Categories with the accuracy of their best scorer, the highest first; many are counted."""
    names = [f"{name} ({percent(accuracy)} %)" for name, (accuracy, _, _) in levels]
    if len(names) > _MOST_NAMES:
        names[_MOST_NAMES:] = [f"{len(names) - _MOST_NAMES} more categories"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def read_summary(path: Path) -> dict[str, Any] | None:
    """The audits in a file that ``vl-assay audit … --card`` wrote, or None if it does not exist; see `read_audit`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}); remove it and audit again") from error
    version = (content.get("schema"), content.get("version")) if isinstance(content, dict) else None
    if version != (SCHEMA, VERSION) or not isinstance(content.get("audits"), dict):
        raise DataError(f"{path} says schema and version {version}; this version reads {(SCHEMA, VERSION)}")
    return content["audits"]
