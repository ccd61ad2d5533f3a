"""Imports of large libraries."""

import gc

import pytest

from vl_assay.metrics.common.imports import no_collections


def fails():
    with no_collections():
        raise ImportError(gc.isenabled())


def test_collections_rest_and_go_on_whatever_an_import_raises():
    with pytest.raises(ImportError, match="False"):
        fails()
    assert gc.isenabled()
    gc.disable()
    try:
        with no_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
