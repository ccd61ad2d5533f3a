"""Imports of large libraries."""

import gc

import pytest

from vl_assay.metrics.common.imports import gc_paused


def fails():
    with gc_paused():
        raise ImportError(gc.isenabled())


def test_collections_rest_and_go_on_whatever_an_import_raises():
    with pytest.raises(ImportError, match="False"):
        fails()
    assert gc.isenabled()
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
