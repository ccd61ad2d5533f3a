"""Tiny checkpoints and images for the tests of the families."""

from __future__ import annotations

import numpy as np
import pytest
import tiny_models
from PIL import Image


@pytest.fixture(scope="session")
def folders():
    """The folders of the tiny checkpoints by name, each built on first use."""

    class Folders(dict):
        def __missing__(self, name):
            return self.setdefault(name, tiny_models.checkpoint(name))

    return Folders()


@pytest.fixture(scope="session")
def images():
    """Images of unlike sizes, shapes and modes."""
    rng = np.random.default_rng(0)
    sizes = ((40, 50), (30, 80), (64, 48))
    drawn = [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in sizes]
    return [*drawn[:2], drawn[2].convert("L")]
