"""Where the leaderboard has the data from that predictions are compared with."""

from __future__ import annotations

import pytest
import sources_vl_checklist

from vl_assay.hub_datasets import get_benchmark, load_examples
from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.space_app.submissions import uploads as _uploads


@pytest.fixture
def metadata(tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    _uploads._load.cache_clear()
    [task] = [task for task in get_benchmark("vl_checklist").tasks if task.by_default]
    yield {
        "task_type": task.task_type,
        "benchmark": {"name": "vl_checklist", "task": task.name, "configs": list(task.configs)},
    }
    _uploads._load.cache_clear()


@pytest.mark.parametrize("below", ["vl_checklist", "."])
def test_copies_of_the_sources_are_read_from_the_folder_that_is_set(metadata, below, tmp_path, monkeypatch):
    with pytest.raises(PredictionsError, match="the data of vl_checklist/itm are not on this server"):
        _uploads.expected(metadata)
    sources = tmp_path / "sources" / below
    sources.mkdir(parents=True)
    sources_vl_checklist.make(sources)
    monkeypatch.setenv("VL_ASSAY_DATA_DIR", str(tmp_path / "sources"))
    data = _uploads.expected(metadata)
    [own] = load_examples("vl_checklist/itm", data_dir=sources, needs_images=False)
    assert len(data.examples) > 10
    assert data.fingerprint == own.fingerprint


def test_a_folder_of_sources_that_is_not_there_is_named(metadata, tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(PredictionsError, match="nowhere"):
        _uploads.expected(metadata)
