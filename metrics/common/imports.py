"""Imports of large libraries."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collections() -> Iterator[None]:
    """No garbage collection meanwhile.

    Imports make hundreds of thousands of objects that stay. Collections would visit all of them again and again, which
    is a quarter of the time that importing `transformers` takes.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
