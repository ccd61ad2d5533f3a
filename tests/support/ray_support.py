"""Local Ray clusters, of which one loses a node in the middle of a run."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest


def import_ray(monkeypatch):
    """Ray, with one token for all clusters of the process, which keeps the first, and without an address."""
    ray = pytest.importorskip("ray", reason="needs pip install 'vl-assay[ray]'")
    for name, value in {"RAY_AUTH_TOKEN": "0" * 64, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return ray


@contextmanager
def ray_cluster(monkeypatch, nodes=1):
    """A cluster of some nodes of one CPU; nobody has joined it."""
    import_ray(monkeypatch)
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1, object_store_memory=128 << 20)
        yield cluster
    finally:
        cluster.shutdown()


@contextmanager
def nodes_of_which_one_is_killed(folder, pattern, monkeypatch):
    """Join a cluster of three; a node goes when three files of that pattern are below the folder."""
    killed = []

    def kill_one():
        end = time.monotonic() + 120
        while time.monotonic() < end and not killed:
            if len(list(folder.rglob(pattern))) >= 3:
                cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
                killed.append(time.monotonic())
            time.sleep(0.01)

    with ray_cluster(monkeypatch, nodes=3) as cluster:
        ray = import_ray(monkeypatch)
        ray.init(address=cluster.address, log_to_driver=False)
        try:
            thread = threading.Thread(target=kill_one)
            thread.start()
            yield
            thread.join()
        finally:
            ray.shutdown()
    assert killed, "the run ended before a node was killed"
    assert not Path("~/.ray/auth_token").expanduser().exists()
