"""The server is killed while submissions come in: each that has a receipt is there, and none is half there."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from urllib.request import urlopen

import pytest
from space_support import TYPED, VQA
from submission_support import model_predictions

from vl_assay.metrics.common.errors import StorageError
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.storage import open_storage
from vl_assay.space_app.storage.records import results_of, results_path, submissions
from vl_assay.space_app.submissions.client import send

pytestmark = pytest.mark.usefixtures("one_reading_of_certificates")
CLIENTS = 4
# The command that serves, on scenes as few as the tests' own.
SERVER = (
    "from vl_assay.hub_datasets.toy_scenes import builder\n"
    "builder.SIZES = {'validation': 2, 'test': 40}\n"
    "from vl_assay.metrics.common.command_line import main\n"
    "main()"
)


@contextmanager
def served_apart(folder):
    """The leaderboard in a process group of its own: its address, and a function that kills all of it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", SERVER, "leaderboard", "--port", str(port), "--storage", str(folder)]
    environment = {**os.environ, "VL_ASSAY_RATE_LIMIT": "100000"}
    log = folder.with_name("server.log")
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)

    def kill():
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            with suppress(OSError), urlopen(address, timeout=5):
                break
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        else:
            pytest.fail(f"the page did not answer within a minute: {log.read_text()}")
        yield address, kill
    finally:
        kill()


class Clients:
    """Clients that send one predictions file after the other; each ends when the server does not answer.

    Attributes:
        receipts: by the predictions file's path.
        open: the predictions whose answer never came.
    """

    def __init__(self, toy, folder):
        toy.path("vqa", "shuffled")  # now, for the clients must not make it at the same time
        self._one, self._numbers = partial(model_predictions, toy, folder), itertools.count()
        self.receipts, self.open = {}, []

    def start(self, pool, address):
        """Let the clients begin, with what was sent in vain. Returns their futures."""
        again, self.open = self.open, []
        return [pool.submit(self._work, address, again[one::CLIENTS]) for one in range(CLIENTS)]

    def _work(self, address, again):
        for path in itertools.chain(again, map(self._one, self._numbers)):
            try:
                self.receipts[path] = send(address, [path], TYPED)
            except StorageError:
                self.open.append(path)
                break


def check_nothing_is_lost_or_half_there(storage, clients):
    """Hold what is stored against the receipts, by the files alone."""
    there = {each.id: each for each in submissions(storage)}
    # A killed addition may have left its predictions; sending them again completes it.
    assert {path.split("/")[1] for path in storage.paths()} >= set(there)
    for each in there.values():
        for predictions in each.predictions:
            content = storage.read(f"requests/{each.id}/{predictions['sha256']}.parquet")
            assert hashlib.sha256(content).hexdigest() == predictions["sha256"]
    for path, receipt in clients.receipts.items():
        found = there[receipt["id"]]
        assert [predictions["sha256"] for predictions in found.predictions] == [
            hashlib.sha256(path.read_bytes()).hexdigest()
        ]
        assert (found.status, found.time) == ("accepted", receipt["time"])
        [result] = results_of(storage, found)
        assert result.scores == receipt["results"][0]["scores"]
    names = [each.model["name"] for each in there.values()]
    assert len(names) == len(set(names))
    return there


def check_all_have_results(storage):
    """After a start the page shows every submission, whatever its sender knows."""
    assert [each.id for each in submissions(storage) if each.status != "accepted"] == []
    assert [each.id for each in submissions(storage) if results_path(each) not in storage.paths("results/")] == []


@pytest.mark.slow
def test_no_submission_is_lost_when_the_server_is_killed_twenty_times(toy, tmp_path):
    """Kill the server at random moments and start it again on the files that it left."""
    rng, folder = random.Random(1), tmp_path / "storage"
    storage, clients = open_storage(str(folder)), Clients(toy, tmp_path)
    for _ in range(20):
        with ThreadPoolExecutor(CLIENTS) as pool, served_apart(folder) as (address, kill):
            check_all_have_results(storage)
            known = check_nothing_is_lost_or_half_there(storage, clients)
            tried = [*clients.open]
            working = clients.start(pool, address)
            more = len(clients.receipts) + rng.randrange(8)
            while len(clients.receipts) < more and not all(each.done() for each in working):
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 1))
            kill()
            for each in working:
                each.result(60)
        check_nothing_is_lost_or_half_there(storage, clients)
        for path in set(tried) & clients.receipts.keys():
            earlier = [id for id, each in known.items() if each.model["name"] == f"model {path.stem}"]
            assert earlier in ([], [clients.receipts[path]["id"]])  # the same one again is the same submission
    with served_apart(folder) as (address, _):
        check_all_have_results(storage)
        for path, receipt in [*clients.receipts.items()][:5]:
            again = send(address, [path], TYPED)
            assert all(again[key] == receipt[key] for key in ("id", "time", "predictions", "results"))
        for path in clients.open:
            clients.receipts[path] = send(address, [path], TYPED)
    there = check_nothing_is_lost_or_half_there(storage, clients)
    assert there.keys() == {receipt["id"] for receipt in clients.receipts.values()}
    assert Catalogue(storage).board.recomputed(VQA).keys() >= {each.model["name"] for each in there.values()}
