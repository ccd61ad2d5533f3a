"""Worker processes end with the process that started them, and processes of a run notice when another is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from vl_assay.model_wrappers.engine.distributed import available_cpus, watch

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


@pytest.mark.parametrize(
    ("ending", "is_told"), [("alive", False), ("ended", False), ("stopped", True), ("never", True)]
)
def test_a_process_that_says_nothing_is_given_up_and_one_that_has_ended_is_not(ending, is_told):
    from torch.distributed import TCPStore

    server = TCPStore("127.0.0.1", 0, is_master=True)
    silent = []
    stop = watch(TCPStore("127.0.0.1", server.port), 0, 2, silent.append, silence=1.0, every=0.1)
    other = TCPStore("127.0.0.1", server.port)
    if ending in ("alive", "ended"):
        stop_other = watch(other, 1, 2, lambda rank: None, silence=60, every=0.1)
    elif ending == "stopped":
        other.set("vl-assay/1", "7")
    if ending == "ended":
        stop_other()
    time.sleep(2)
    stop()
    assert silent == [1] * is_told
    if ending == "alive":
        stop_other()
