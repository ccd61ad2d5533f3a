"""A local Ray cluster of three nodes, of which one is killed in the middle of a run."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def nodes_of_which_one_is_killed(folder, pattern, monkeypatch):
    """Join such a cluster; the node goes when three files of that pattern are below the folder."""
    ray = pytest.importorskip("ray", reason="needs pip install 'vl-assay[ray]'")
    from ray.cluster_utils import Cluster

    for name, value in {"RAY_AUTH_TOKEN": "0" * 64, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}.items():
        monkeypatch.setenv(name, value)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=128 << 20) for _ in range(3)]
    killed = []

    def kill_one():
        end = time.monotonic() + 120
        while time.monotonic() < end and not killed:
            if len(list(folder.rglob(pattern))) >= 3:
                cluster.remove_node(nodes[0], allow_graceful=False)
                killed.append(time.monotonic())
            time.sleep(0.01)

    try:
        ray.init(address=cluster.address, log_to_driver=False)
        thread = threading.Thread(target=kill_one)
        thread.start()
        yield
        thread.join()
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert killed, "the run ended before a node was killed"
    assert not Path("~/.ray/auth_token").expanduser().exists()
