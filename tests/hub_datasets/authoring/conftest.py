"""Benchmarks outside the package that a module of tests uses are forgotten after it."""

import pytest

from vl_assay.hub_datasets.core import benchmarks


@pytest.fixture(scope="module", autouse=True)
def _no_adopted_benchmarks():
    yield
    benchmarks._ADOPTED.clear()
