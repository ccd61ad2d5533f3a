"""VALSE: which rows are valid, and that their number is verified."""

from __future__ import annotations

import pytest
import sources_valse

from vl_assay.hub_datasets.core.benchmarks import get_builder
from vl_assay.metrics.common.errors import DataError


def ids(folder, **options):
    sources_valse.make(folder)
    builder = get_builder("valse")(
        cache_dir=str(folder / "cache"), config_name="existence", data_dir=str(folder), **options
    )
    builder.download_and_prepare()
    return builder.as_dataset(split="test")["id"][:]


def test_rows_that_fewer_than_two_annotators_prefer_are_left_out_by_default(tmp_path):
    # The votes of the three rows are 3, 2 and 1.
    assert ids(tmp_path, verify=False) == ["existence/existence_test_0", "existence/existence_test_1"]


def test_all_rows_can_be_kept(tmp_path):
    assert len(ids(tmp_path, verify=False, all_rows=True)) == 3


def test_the_number_of_valid_rows_is_verified_beside_that_of_the_released(tmp_path, monkeypatch):
    builder = get_builder("valse")
    part = builder.ROWS["existence"]
    monkeypatch.setitem(builder.ROWS, "existence", type(part)(part.file, part.schema, 3))
    with pytest.raises(DataError, match=r"existence \(valid rows\) has 2 rows, but the release has 505"):
        ids(tmp_path)
