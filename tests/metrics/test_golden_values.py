"""Values of every metric and of the intervals, stored with the version of the code that computed them.

Stored results of the leaderboard are computed again when a version changes, so values must not change without it.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from metric_cases import CASES, NAMES, compute

from vl_assay.metrics.modules.discovery import get_spec
from vl_assay.space_app.board.launch import shipped_results
from vl_assay.space_app.storage.records import ESTIMATION_VERSION

GOLDEN = Path(__file__).with_name("golden_values.json")
ESTIMATION = "estimation"


def golden_values(name):
    """The version and the values of a metric on fixed random inputs, or of the averages and intervals of `launch`."""
    if name == ESTIMATION:
        scores = {
            f"{each.model['name']} {each.benchmark['task']} {each.metric}": each.scores for each in shipped_results()
        }
        return {"version": ESTIMATION_VERSION, "values": {title: _rounded(table) for title, table in scores.items()}}
    inputs = CASES[name].random(np.random.default_rng(7), 24)
    return {"version": get_spec(name).version, "values": _rounded(compute(name, inputs))}


def _rounded(value):
    """Nested results with numbers rounded to 12 digits, so that libraries may sum in another order."""
    if isinstance(value, dict):
        return {str(key): _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_rounded(inner) for inner in value]
    value = value.item() if isinstance(value, np.generic) else value
    return repr(round(value, 12)) if isinstance(value, float) else value


@pytest.mark.parametrize("name", [*NAMES, ESTIMATION])
def test_values_change_only_with_the_version(name):
    stored = json.loads(GOLDEN.read_text(encoding="utf-8")).get(name)
    again = "write them with: python tests/make_golden_values.py"
    assert stored is not None, f"{name} has no stored values; {again}"
    now = golden_values(name)
    if now["values"] != stored["values"]:
        assert now["version"] > stored["version"], f"the values of {name} changed: raise its version, then {again}"
    assert now == stored, again
