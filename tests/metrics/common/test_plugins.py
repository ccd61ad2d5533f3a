"""Plugins that cannot be used; `tests/test_contributing.py` runs those that can."""

import pytest

from vl_assay.metrics.common.errors import VLAssayError
from vl_assay.metrics.common.plugins import VARIABLE, plugins


@pytest.mark.parametrize(
    ("root", "problem"), [("own", "rename it, as in my_reports"), ("nowhere", "is no folder; correct it or unset it")]
)
def test_a_name_of_the_package_and_a_missing_folder_are_refused(root, problem, tmp_path, monkeypatch):
    (tmp_path / "own" / "hub_datasets" / "reports").mkdir(parents=True)
    monkeypatch.setenv(VARIABLE, str(tmp_path / root))
    with pytest.raises(VLAssayError, match=problem):
        plugins.__wrapped__("benchmarks")  # without its cache
