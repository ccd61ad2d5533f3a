"""The storage of submissions: a local folder, or two dataset repositories of the Hugging Face Hub.

`open_storage` opens either behind the interface `protocol.Storage`; `records` reads submissions back from it.
"""

from __future__ import annotations

import os

from ...metrics.common.errors import StorageError
from .folder import FolderStorage
from .protocol import Storage


def open_storage(location: str | None = None) -> Storage:
    """Open a storage, by default the storage named by ``VL_ASSAY_STORAGE``.

    Args:
        location: a folder, or ``"hf://datasets/owner/name"`` for the Hub's dataset repositories owner/name-requests and
            owner/name-results. Without it and the variable, the folder ``leaderboard`` in the cache of this package.

    Raises:
        StorageError: `location` is neither a folder nor a pair of repositories.
    """
    location = location or os.environ.get("VL_ASSAY_STORAGE")
    if not location:
        from ...hub_datasets.core.repository import cache_folder

        return FolderStorage(cache_folder() / "leaderboard")
    scheme, separator, rest = location.partition("://")
    if not separator:
        return FolderStorage(location)
    kind, _, name = rest.partition("/")
    if (scheme, kind) != ("hf", "datasets"):
        raise StorageError(
            f"cannot store at {location!r}; give a folder, or hf://datasets/owner/name for the Hub's dataset "
            "repositories owner/name-requests and owner/name-results"
        )
    from .hub import HubStorage

    return HubStorage(name)
