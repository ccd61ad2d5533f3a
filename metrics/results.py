"""Results: what the metrics computed from score sheets; one JSON file.

```
{"schema": "vl-assay/results", "version": 1, "code": "<version of vl-assay>",
 "results": [{"model": {…}, "benchmark": {…}, "run": {…},        as in the sheet's metadata
              "sheet": {"file": …, "sha256": …},                 where the numbers come from
              "metric": "sugarcrepe_itm", "options": {…},        how they were computed
              "missing": 0,                                      examples without an image, not in any score
              "scores": {…},                                     what the metric returned
              "shown": ["accuracy"], "headline": "accuracy",     the scores to show in tables, and in plots
              "chance": {…}}]}                                   what random scores would get, by score
```

The sheet's hash, the metric's name and its options are all that it takes to compute the scores again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ._storage import write_text
from .errors import SheetError

SCHEMA = "vl-assay/results"
VERSION = 1
_LOWER_IS_BETTER = ("both_wrong", "brittleness", "gap")


@dataclass(frozen=True)
class Result:
    """The scores of one sheet by one metric; see the module's text."""

    model: dict[str, Any]
    benchmark: dict[str, Any]
    run: dict[str, Any]
    sheet: dict[str, str]
    metric: str
    options: dict[str, Any]
    missing: int
    scores: dict[str, Any]
    shown: list[str]
    headline: str
    chance: dict[str, float]


def write_results(path: str | Path, results: list[Result]) -> None:
    """Write results atomically, as JSON."""
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "code": code_version(),
        "results": [asdict(result) for result in results],
    }
    write_text(Path(path), json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n")


def read_results(path: str | Path) -> list[Result]:
    """Read results.

    Raises:
        SheetError: the file is missing, damaged or of another version.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise SheetError(f"{path} is no results file: {error}") from error
    return parse_results(content, str(path))


def parse_results(content: bytes, name: str) -> list[Result]:
    """The results in the content of a file, called `name` in messages.

    Raises:
        SheetError: it is damaged or of another version.
    """
    try:
        document = json.loads(content)
        found = (document["schema"], document["version"])
        if found != (SCHEMA, VERSION):
            raise SheetError(f"{name} says schema and version {found}; this version reads {(SCHEMA, VERSION)}")
        return [Result(**result) for result in document["results"]]
    except SheetError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise SheetError(f"{name} is no results file: {error}") from error


def is_lower_better(score: str) -> bool:
    """Whether a score is the better the lower it is, such as brittleness or its macro average."""
    return score.removeprefix("macro_") in _LOWER_IS_BETTER


def code_version() -> str:
    """The installed version of VL-Assay."""
    from importlib.metadata import version

    return version("vl-assay")
