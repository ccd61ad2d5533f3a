"""The process that opens uploads: what it may take, how it is replaced, what it knows."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from submission_support import changed, parquet

from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.space_app.submissions.sandbox import Sandbox
from vl_assay.space_app.submissions.uploads import SANDBOX, check_upload


def test_bombs_are_refused_by_what_they_declare_or_by_what_they_hold(toy):
    good = toy.predictions("groups")
    metadata = pq.read_schema(io.BytesIO(good)).metadata
    many = parquet(pa.table({"id": pa.nulls(3_000_000)}).replace_schema_metadata(metadata))
    assert len(many) < 100_000
    with pytest.raises(PredictionsError, match="declares 3,000,000 rows"):
        check_upload(many)
    # A text that a dictionary keeps once takes its place in every row when it is read.
    heavy = changed(good, rows=lambda rows: [row.update(category="x" * 1_000_000) for row in rows])
    assert len(heavy) < 1_000_000
    assert SANDBOX.footer(heavy, "x").size < 4_000_000
    with pytest.raises(PredictionsError, match=r"its first 16 rows have 16,\d+,\d+ bytes"):
        check_upload(heavy)


def test_memory_is_limited_by_the_system_too(toy):
    once = pa.DictionaryArray.from_arrays(pa.array([0] * 4000, pa.int32()), ["x" * 1_000_000])
    bomb = parquet(pa.table({"id": once}), store_schema=False)
    assert len(bomb) < 1_000_000
    sandbox = Sandbox(memory=200 << 20)
    try:
        with pytest.raises(PredictionsError, match=r"^x (is not a readable Parquet file: .*alloc|ended the process)"):
            sandbox.read(bomb, "x", most_rows=10**9, most_bytes=10**12)
        assert sandbox.footer(toy.predictions("groups"), "x").rows == 40
    finally:
        sandbox.close()


def test_a_process_that_dies_or_hangs_is_replaced(toy):
    good = toy.predictions("groups")
    sandbox = Sandbox()
    try:
        assert sandbox.footer(good, "x").rows == 40
        os.kill(sandbox.pid, signal.SIGKILL)
        time.sleep(0.5)
        assert sandbox.footer(good, "x").rows == 40
        sandbox.seconds = 0.2
        os.kill(sandbox.pid, signal.SIGSTOP)  # as one that never comes to an end
        with pytest.raises(PredictionsError, match=r"x took longer than 0\.2 seconds"):
            sandbox.footer(good, "x")
        sandbox.seconds = 60
        assert sandbox.footer(good, "x").rows == 40
        stopped = sandbox.pid
        os.kill(stopped, signal.SIGSTOP)
        threading.Timer(0.2, os.kill, (stopped, signal.SIGKILL)).start()
        with pytest.raises(PredictionsError, match="x ended the process that opened it"):
            sandbox.footer(good, "x")
    finally:
        sandbox.close()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the environment of a process is read in /proc")
def test_the_process_knows_none_of_the_servers_secrets(toy, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_7531")
    monkeypatch.setenv("OAUTH_CLIENT_SECRET", "client_7531")
    sandbox = Sandbox()
    try:
        sandbox.footer(toy.predictions("groups"), "x")
        environment = Path(f"/proc/{sandbox.pid}/environ").read_text()
    finally:
        sandbox.close()
    assert "PATH=" in environment
    assert "HF_TOKEN" not in environment
    assert "_7531" not in environment
