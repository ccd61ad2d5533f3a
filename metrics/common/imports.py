"""Imports of large libraries."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """No garbage collection meanwhile.

    Imports make hundreds of thousands of objects that stay. Collections would visit all of them again and again: with
    them `transformers` and its CLIP take 3.5 CPU seconds to import, without 2.8.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
