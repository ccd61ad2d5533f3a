"""Results: the scores that metrics computed from predictions; one JSON file.

```
{"schema": "vl-assay/results", "version": 4, "code": "<version of vl-assay>",
 "sha256": "…",                                                 of all else, so that a change is noticed
 "results": [{"model": {…}, "benchmark": {…}, "run": {…},        as in the predictions file's metadata
              "predictions": {"file": …, "sha256": …},                 where the numbers come from
              "metric": "sugarcrepe_itm", "options": {…},        how they were computed
              "missing": 0,                                      examples without an image, which are in no score
              "scores": {…},                                     what the metric returned
              "table_scores": ["accuracy"],                      the scores to show in tables, and
              "main_score": "accuracy",                          the one to plot
              "higher_is_better": {"accuracy": true},            which way each of them goes
              "chance": {…},                                     what random scores would get, by score
              "rare": {…}, "left_out": {…},                      categories in no macro average, with the reason;
                                                                 number of examples in no score, by reason
              "notes": […]}]}                                    what limits the intervals, in sentences
```

The hash of the predictions, the metric's name and its options suffice to compute the scores again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..common.errors import PredictionsError
from ..common.storage import check_version, json_hash, write_text
from ..estimation.spec import MetricSpec
from ..modules.discovery import get_spec

SCHEMA = "vl-assay/results"
VERSION = 4


@dataclass(frozen=True)
class Result:
    """The scores of one file of predictions by one metric; see the module's docstring."""

    model: dict[str, Any]
    benchmark: dict[str, Any]
    run: dict[str, Any]
    predictions: dict[str, str]
    metric: str
    options: dict[str, Any]
    missing: int
    scores: dict[str, Any]
    table_scores: list[str]
    main_score: str
    higher_is_better: dict[str, bool]
    chance: dict[str, float]
    rare: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def spec(self) -> MetricSpec:
        """The specification of the metric."""
        return get_spec(self.metric)

    @property
    def blind(self) -> dict[str, Any]:
        """The scores of the best scorer that sees only captions; `kind`: exact, probe or rule. Empty if unknown."""
        stored = self.benchmark.get("blind")
        levels = stored.get(self.metric) if isinstance(stored, dict) else None
        return levels if isinstance(levels, dict) else {}


def write_results(path: str | Path, results: list[Result]) -> None:
    """Write results atomically, as JSON."""
    write_text(Path(path), to_json("results", VERSION, results=[asdict(result) for result in results]))


def to_json(kind: str, version: int, **content: Any) -> str:
    """Return a JSON document of a VL-Assay schema, with the version of the code that wrote it and its own hash."""
    document = {"schema": f"vl-assay/{kind}", "version": version, "code": code_version(), **content}
    document["sha256"] = json_hash(document)
    return json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"


def read_results(path: str | Path) -> list[Result]:
    """Read results.

    Raises:
        PredictionsError: the file is missing, damaged or of another version.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise PredictionsError(f"{path} is not a results file: {error}") from error
    return parse_results(content, str(path))


def parse_results(content: bytes, name: str) -> list[Result]:
    """Parse the content of a results file; `name` is its name in messages.

    Raises:
        PredictionsError: it is damaged, of another version, or was changed since it was written.
    """
    try:
        document = json.loads(content)
        check_version(document, SCHEMA, VERSION, name, document.get("code"))
        if document["sha256"] != json_hash(document):
            raise PredictionsError(
                f"{name} was changed since it was written; compute it again from the predictions with `vl-assay report`"
            )
        return [Result(**result) for result in document["results"]]
    except PredictionsError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PredictionsError(f"{name} is not a results file: {error}") from error


def code_version() -> str:
    """Return the installed version of VL-Assay."""
    from importlib.metadata import version

    return version("vl-assay")
