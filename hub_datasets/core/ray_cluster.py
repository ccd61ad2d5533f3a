"""Work on a Ray cluster: that of ``RAY_ADDRESS`` or, without it, one on this machine for the time."""

from __future__ import annotations

import importlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ...metrics.common.errors import VLAssayError


@contextmanager
def cluster(store: int) -> Iterator[Any]:
    """Join the cluster that is there or that ``RAY_ADDRESS`` names, or start one here; gives the module ``ray``.

    Args:
        store: bytes of the store of a cluster that is started here.

    Raises:
        VLAssayError: Ray is not installed, or the cluster can be neither joined nor started.
    """
    ray = _import_ray()
    if ray.is_initialized():
        yield ray
        return
    with ExitStack() as held:
        options: dict[str, Any] = {}
        if not os.environ.get("RAY_ADDRESS"):
            # Ray would write its token into the home folder, and its logs into a folder that stays.
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
            folder = held.enter_context(tempfile.TemporaryDirectory(prefix="ray"))
            options = {"include_dashboard": False, "object_store_memory": store, "_temp_dir": folder}
        try:
            ray.init(**options, logging_level="ERROR", log_to_driver=False)
        except (OSError, RuntimeError, ValueError) as error:
            raise VLAssayError(
                f"no Ray cluster to be had ({error}). RAY_ADDRESS is {os.environ.get('RAY_ADDRESS') or 'not set'}: "
                "name one that `ray status` shows, leave it out to start one here, or leave out --engine ray"
            ) from error
        held.callback(ray.shutdown)
        yield ray


def result_of(reference: Any) -> Any:
    """The result of a remote call; an error of this package as it was raised."""
    ray = _import_ray()
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, VLAssayError):
            raise error.cause from None
        raise


def _import_ray() -> Any:
    # Before the first import, which reads them.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        importlib.import_module("ray.util.scheduling_strategies")
        return importlib.import_module("ray")
    except ImportError:
        raise VLAssayError("the engine ray needs Ray: pip install 'vl-assay[ray]'") from None
