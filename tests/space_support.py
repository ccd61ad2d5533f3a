"""A leaderboard that is served for a test: its address, its storage and what it shows."""

from __future__ import annotations

from contextlib import contextmanager
from typing import NamedTuple

from vl_assay.space_app import app
from vl_assay.space_app._catalogue import Catalogue
from vl_assay.space_app._storage import Storage, open_storage


class Served(NamedTuple):
    address: str
    folder: str
    storage: Storage
    catalogue: Catalogue


@contextmanager
def served(folder):
    """The leaderboard of an empty folder."""
    storage = open_storage(str(folder))
    catalogue = Catalogue(storage)
    blocks = app.build(catalogue)
    _, address, _ = app.launch(blocks, prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    try:
        yield Served(address.rstrip("/"), str(folder), storage, catalogue)
    finally:
        blocks.close(verbose=False)
