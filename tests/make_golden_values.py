"""Write the values that tests/metrics/test_golden_values.py compares with, for metrics whose version was raised."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

TESTS = Path(__file__).parent


def main() -> None:
    """Compute all values and store them; exit with a message where values changed under one version."""
    sys.path.insert(0, str(TESTS / "support"))
    test = runpy.run_path(str(TESTS / "metrics" / "test_golden_values.py"))
    golden = test["GOLDEN"]
    stored = json.loads(golden.read_text(encoding="utf-8")) if golden.exists() else {}
    values = {name: test["golden_values"](name) for name in [*test["NAMES"], test["ESTIMATION"]]}
    for name, now in values.items():
        if name in stored and now["values"] != stored[name]["values"] and now["version"] <= stored[name]["version"]:
            sys.exit(f"the values of {name} changed, and its version did not: raise it first")
    golden.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
