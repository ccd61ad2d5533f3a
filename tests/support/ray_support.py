"""Local Ray clusters, of which one loses a node in the middle of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NODES = 3
# Read by Ray when it is imported, and by the nodes.
ENVIRONMENT = {"RAY_AUTH_TOKEN": "0" * 64, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}


@contextmanager
def ray_cluster(nodes: int = 1) -> Iterator[Any]:
    """A cluster of some nodes of one CPU; nobody has joined it."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1, object_store_memory=128 << 20)
        yield cluster
    finally:
        cluster.shutdown()


@contextmanager
def joined_nodes(is_due: Callable[[], bool]) -> Iterator[threading.Event]:
    """Join a cluster; a node is killed, and the event set, once `is_due`, which is asked all the time, is true."""
    import ray

    killed, is_over = threading.Event(), threading.Event()
    with ray_cluster(NODES) as cluster:

        def watch() -> None:
            while not is_over.wait(0.01):
                if is_due():
                    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
                    killed.set()
                    return

        watcher = threading.Thread(target=watch)
        try:
            ray.init(address=cluster.address, log_to_driver=False)
            watcher.start()
            try:
                yield killed
            finally:
                is_over.set()
                watcher.join()
        finally:
            ray.shutdown()


def import_ray(monkeypatch: Any) -> Any:
    """Ray, with one token for all clusters of the process, which keeps the first, and without an address."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return pytest.importorskip("ray", reason="needs pip install 'vl-assay[ray]'")


@contextmanager
def nodes_of_which_one_is_killed(folder: Path, pattern: str, monkeypatch: Any) -> Iterator[None]:
    """Join such a cluster; the node goes when three files of that pattern are below the folder."""
    import_ray(monkeypatch)
    with joined_nodes(lambda: len(list(folder.rglob(pattern))) >= 3) as killed:
        yield
    assert killed.is_set(), "the run ended before a node was killed"
    assert not Path("~/.ray/auth_token").expanduser().exists()
