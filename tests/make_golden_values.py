"""Write the values that tests/metrics/test_golden_values.py compares with, for metrics whose version was raised."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / folder) for folder in ("metrics", "support")]

from metric_cases import NAMES  # noqa: E402
from test_golden_values import ESTIMATION, GOLDEN, golden_values  # noqa: E402

stored = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
values = {name: golden_values(name) for name in [*NAMES, ESTIMATION]}
for name, now in values.items():
    if name in stored and now["values"] != stored[name]["values"] and now["version"] <= stored[name]["version"]:
        sys.exit(f"the values of {name} changed, and its version did not: raise it first")
GOLDEN.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
