"""The examples in docstrings hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from vl_assay.hub_datasets import authoring

MODULES = [each.name for each in pkgutil.walk_packages(authoring.__path__, f"{authoring.__name__}.")]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
