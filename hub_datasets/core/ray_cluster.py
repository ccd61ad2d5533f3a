"""Run work on a Ray cluster: the cluster of ``RAY_ADDRESS`` or, without it, a temporary one on this machine."""

from __future__ import annotations

import importlib
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ...metrics.common.errors import DataError, VLAssayError

_STORE_BYTES, _RETRIES = 256 << 20, 3


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


def run_tasks(function: Callable[..., Any], items: Iterable[Any], *shared: Any, gpus: float = 0.0) -> Iterator[Any]:
    """Call ``function(item, *shared)`` for each item, one on each CPU of the cluster; yield the results as they come.

    Ray repeats the calls of a node that is lost, and nodes that join take calls. `shared` is sent once to each node.
    With `gpus` each call takes that share of a GPU, if the cluster has any.

    Raises:
        DataError: Ray failed, or the process of a call died.
        VLAssayError: as `cluster`, or raised by `function`.
    """
    with cluster(_STORE_BYTES) as ray:
        share = gpus if ray.cluster_resources().get("GPU") else 0.0
        task = ray.remote(function).options(num_cpus=1, num_gpus=share, max_retries=_RETRIES)
        references = [ray.put(value) for value in shared]
        pending = [task.remote(item, *references) for item in items]
        try:
            while pending:
                done, pending = ray.wait(pending)
                yield from map(result_of, done)
        except ray.exceptions.RayError as error:
            raise DataError(
                f"Ray failed: {str(error).strip()}. Finished work is kept: check the cluster (`ray status`) and run "
                "the same command again, or leave out --engine ray"
            ) from error


def result_of(reference: Any) -> Any:
    """Return the result of a remote call, or raise this package's error as in the remote process."""
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
