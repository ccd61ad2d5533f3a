"""Worker processes end with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from vl_assay.model_wrappers.engine.distributed import available_cpus

SCRIPT = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from vl_assay.model_wrappers.engine.distributed import end_with_parent

if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=end_with_parent)
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 600).result()
"""


def is_there(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_processes_of_a_machine_share_its_cpus(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(12), raising=False)
    found = []
    for beside in ("1", "4", "100"):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", beside)
        found.append(available_cpus())
    assert found == [12, 3, 1]


@pytest.mark.parametrize("sent", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_worker_ends_with_its_parent_however_that_ends(sent, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert is_there(worker)
        if sent == "SIGINT":  # Ctrl-C reaches the whole group
            os.killpg(parent.pid, signal.SIGINT)
        else:
            parent.send_signal(signal.Signals[sent])
        deadline = time.monotonic() + 30
        while is_there(worker) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not is_there(worker)
        parent.wait(timeout=30)
