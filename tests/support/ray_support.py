"""A local Ray cluster that loses a node in the middle of a run."""

import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

NODES = 3
# Read by Ray when it is imported, and by the nodes.
ENVIRONMENT = {"RAY_AUTH_TOKEN": "0" * 64, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def import_ray(monkeypatch):
    """Ray, with one token for all clusters of the process, which keeps the first, and without an address."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return pytest.importorskip("ray", reason="needs pip install 'vl-assay[ray]'")


@contextmanager
def nodes_of_which_one_is_killed(folder, pattern, monkeypatch):
    """Join a cluster of nodes of one CPU; one is killed when three files of that pattern are below the folder."""
    ray = import_ray(monkeypatch)
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    killed, is_over = threading.Event(), threading.Event()

    def watch():
        while not is_over.wait(0.01):
            if len(list(folder.rglob(pattern))) >= 3:
                cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
                killed.set()
                return

    watcher = threading.Thread(target=watch)
    try:
        for _ in range(NODES):
            cluster.add_node(num_cpus=1, object_store_memory=128 << 20)
        ray.init(address=cluster.address, log_to_driver=False)
        watcher.start()
        yield
    finally:
        is_over.set()
        if watcher.is_alive():
            watcher.join()
        ray.shutdown()
        cluster.shutdown()
    assert killed.is_set(), "the run ended before a node was killed"
    assert not Path("~/.ray/auth_token").expanduser().exists()
