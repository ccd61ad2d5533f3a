"""The benchmarks as an `EvaluationSuite`, loaded by `evaluate` from a file of one's own."""

from __future__ import annotations

import pytest
from evaluate import EvaluationSuite
from evaluate.evaluation_suite import SubTask

from vl_assay.hub_datasets import benchmark_names
from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def suite(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from vl_assay.model_wrappers.engine.evaluation_suite import Suite\n")
    return EvaluationSuite.load(str(file))


def test_a_suite_evaluates_a_model_on_its_tasks(toy, suite, tmp_path):
    assert [task.data for task in suite.suite] == benchmark_names()
    suite.suite = [SubTask("vl-assay", data="toy_scenes", subset="order")]
    [result] = suite.run("mock:oracle", limit=6, out=tmp_path / "out")
    facts = {"task_name": "toy_scenes/order", "metric": "aro_itm", "main_score": "accuracy", "data_preprocessor": None}
    assert facts.items() <= result.items()
    assert (result["accuracy"], result["n"]) == (1.0, 6)


@pytest.mark.parametrize(
    "declared", [{"split": "train"}, {"data_preprocessor": str}, {"args_for_task": {"metric": "x"}}]
)
def test_what_a_benchmark_declares_is_not_ignored_in_a_suite(suite, declared):
    suite.suite = [SubTask("vl-assay", data="toy_scenes", **declared)]
    with pytest.raises(DataError, match=r"toy_scenes of the suite .*; give `data` and `subset` alone"):
        suite.run("mock:oracle")
