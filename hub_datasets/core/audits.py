"""Summaries of the audits of the benchmarks, stored next to their cards by ``vl-assay audit … --card``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...metrics.common.errors import DataError
from .benchmarks import split_reference

AUDIT_FILE = "audit.json"
SCHEMA = "vl-assay/audit-summary"
VERSION = 1


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
    return read_summary(Path(__file__).parents[1] / name / AUDIT_FILE)


def read_summary(path: Path) -> dict[str, Any] | None:
    """The audits in a file that ``vl-assay audit … --card`` wrote, or None if it does not exist; see `read_audit`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}); remove it and audit again") from error
    found = (content.get("schema"), content.get("version")) if isinstance(content, dict) else None
    if found != (SCHEMA, VERSION) or not isinstance(content.get("audits"), dict):
        raise DataError(f"{path} says schema and version {found}; this version reads {(SCHEMA, VERSION)}")
    return content["audits"]
