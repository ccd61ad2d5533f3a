"""Import large libraries faster, and name the extras that install libraries."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import requires


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection inside the block.

    Imports create hundreds of thousands of permanent objects, which every collection visits again: `transformers` and
    its CLIP take 3.5 CPU seconds to import with collections, 2.8 without.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def extra_with(module: str) -> str:
    """Return the extra of this package that installs a module, such as "authoring" for ``sklearn``; "" if none does."""
    top = module.partition(".")[0]
    name = _normal({"sklearn": "scikit-learn", "google": "protobuf"}.get(top, top))
    for requirement in requires("vl-assay") or ():
        distribution, _, condition = requirement.partition(";")
        extra = re.search(r"extra == ['\"]([\w-]+)", condition)
        library = _normal(re.split(r"[^\w.-]", distribution, maxsplit=1)[0])
        if extra and (library == name or library.startswith(f"{name}-")):
            return extra[1]
    return ""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
