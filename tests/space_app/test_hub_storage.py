"""Storage in repositories of the Hub, against a local server that speaks its API and is as unkind as asked for."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from hub_stand_in import HubStandIn

from vl_assay.metrics.common.errors import StorageError
from vl_assay.space_app.storage import hub_storage as _hub_storage
from vl_assay.space_app.storage.hub_storage import HubStorage

NAME, REQUESTS = "owner/board", "owner/board-requests"
TWO = {"requests/a/submission.json": b"{}", "requests/a/b.parquet": b"PAR1"}


@pytest.fixture(autouse=True)
def online(monkeypatch, tmp_path):
    """Let huggingface_hub speak to the local server, without waits of its own."""
    from huggingface_hub import close_session, constants
    from huggingface_hub.utils import _http

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(_http, "time", SimpleNamespace(sleep=lambda seconds: None))
    yield
    close_session()


class Waits(list):
    """What stands in for `time.sleep`: it notes the seconds and waits for a thousandth."""

    def __call__(self, seconds):
        self.append(seconds)
        time.sleep(seconds / 1000)


def storage_of(hub, **options):
    return HubStorage(NAME, endpoint=hub.url, **{"sleep": Waits(), "seed": 0, "token": "secret"} | options)


def test_what_is_added_is_read_by_another_process_and_made_in_one_commit():
    with HubStandIn() as hub:
        ours, theirs = storage_of(hub), storage_of(hub)
        assert (theirs.paths(), hub.repositories) == ([], {})
        ours.add(TWO, "Add submission a")
        ours.add({"results/a/1.json": b"[]"}, "Add results of a")
        assert theirs.paths() == ["requests/a/b.parquet", "requests/a/submission.json", "results/a/1.json"]
        assert theirs.paths("requests/a/s") == ["requests/a/submission.json"]
        assert theirs.paths("results/") == ["results/a/1.json"]
        assert theirs.paths("models/") == []
        assert {path: theirs.read(path) for path in TWO} == TWO
        assert [(c.message, c.added) for c in hub.repositories[REQUESTS].commits[1:]] == [("Add submission a", TWO)]
        assert not hub.repositories[REQUESTS].private


def test_private_repositories_are_made_private():
    with HubStandIn() as hub:
        storage_of(hub, private=True).add(TWO, "a")
        assert hub.repositories[REQUESTS].private


def test_a_tree_of_many_pages_is_listed_whole():
    with HubStandIn() as hub:
        files = {f"results/{number:03}/1.json": b"%d" % number for number in range(60)}
        storage_of(hub).add(files, "many")
        assert storage_of(hub).paths() == sorted(files)
        assert hub.seen["tree"] >= 6  # 60 files, 60 folders, their folder and .gitattributes are 122 entries, 20 a page


def test_the_same_again_makes_no_commit_and_other_content_is_refused_whole():
    with HubStandIn() as hub:
        storage = storage_of(hub)
        storage.add(TWO, "a")
        storage.add(TWO, "again")
        storage.add({}, "nothing")
        storage.add(TWO | {"requests/a/c.parquet": b"PAR1"}, "one more")
        for path in TWO:
            with pytest.raises(StorageError, match=r"is there with other content.*under another path"):
                storage.add({path: b"other", "requests/a/new.json": b""}, "other")
        for path in ("requests/a", "requests/a/b.parquet/c"):
            with pytest.raises(StorageError, match="other content"):
                storage.add({path: b""}, "a file for a folder, a folder for a file")
        assert [list(c.added) for c in hub.repositories[REQUESTS].commits[1:]] == [list(TWO), ["requests/a/c.parquet"]]


def test_what_was_read_and_listed_is_not_asked_for_again():
    with HubStandIn() as hub:
        storage = storage_of(hub)
        storage.add(TWO, "a")
        assert storage.read("requests/a/b.parquet") == b"PAR1"
        storage.paths()
        storage.paths("requests/")
        assert hub.seen["tree"] == 1
        storage.add({"requests/b/submission.json": b"[]"}, "b")
        assert len(storage.paths("requests/")) == 3
        asked = hub.seen.copy()
        assert storage.read("requests/a/b.parquet") == b"PAR1"
        assert hub.seen == asked
        assert storage_of(hub).read("requests/b/submission.json") == b"[]"


def test_a_file_that_is_not_there_is_a_storage_error():
    with HubStandIn() as hub:
        storage = storage_of(hub)
        with pytest.raises(
            StorageError, match=r"no file 'requests/a/x\.json' in the dataset repository owner/board-re"
        ):
            storage.read("requests/a/x.json")
        storage.add(TWO, "a")
        with pytest.raises(StorageError, match="no file"):
            storage.read("requests/a")


def test_other_files_of_the_repositories_are_not_shown():
    with HubStandIn() as hub:
        storage = storage_of(hub)
        storage.add(TWO, "a")
        hub.repositories[REQUESTS].commit("by hand", {"README.md": b"", "results/x.json": b"", "requests/.x": b""})
        assert storage.paths() == sorted(TWO)


def test_a_commit_whose_answer_was_lost_is_not_repeated():
    with HubStandIn(faults={"lost": 1}) as hub:
        storage = storage_of(hub)
        storage.add(TWO, "a")
        assert hub.seen["commit"] == hub.seen["lost"] == 1
        assert {path: storage.read(path) for path in TWO} == TWO


def test_a_hub_that_does_not_answer_is_not_waited_for_longer_than_the_limit(monkeypatch):
    monkeypatch.setattr(_hub_storage, "_SILENCE_SECONDS", 0.2)
    with HubStandIn(faults={"stalled": 1}, stall=30) as hub:
        started = time.monotonic()
        storage_of(hub).add(TWO, "a")
        assert time.monotonic() - started < 20
        assert hub.added(REQUESTS) == dict.fromkeys(TWO, 1)


def test_a_commit_that_comes_after_its_repetition_is_refused_by_the_hub(monkeypatch):
    monkeypatch.setattr(_hub_storage, "_SILENCE_SECONDS", 0.2)
    with HubStandIn(faults={"late": 1}, stall=1) as hub:

        def sleep(seconds):
            hub.faults = {}

        storage_of(hub, sleep=sleep).add(TWO, "a")
        for _ in range(500):
            if hub.seen["overtaken"]:
                break
            time.sleep(0.01)
        assert hub.seen["overtaken"] == 1
        assert hub.added(REQUESTS) == dict.fromkeys(TWO, 1)


@pytest.mark.parametrize("status", [408, 409, 412, 425, 429, 500, 502, 503, 504])
def test_a_refusal_that_passes_is_tried_again(status):
    with HubStandIn(faults={"conflict": 1}) as hub:
        hub.choose = lambda values: status

        def sleep(seconds):
            hub.faults = {}

        storage_of(hub, sleep=sleep).add(TWO, "a")
        assert hub.added(REQUESTS) == dict.fromkeys(TWO, 1)


def test_an_answer_that_is_no_json_is_tried_again(monkeypatch):
    with HubStandIn() as hub:
        handler, pages = hub._server.RequestHandlerClass, [b"<html>a proxy's page</html>"]
        informed = handler.info
        monkeypatch.setattr(handler, "info", lambda self, name: (200, pages.pop()) if pages else informed(self, name))
        storage_of(hub).add(TWO, "a")
        assert (pages, hub.added(REQUESTS)) == ([], dict.fromkeys(TWO, 1))


def test_the_threads_of_one_process_do_not_overtake_each_other():
    with HubStandIn() as hub, ThreadPoolExecutor(8) as pool:
        storage = storage_of(hub)
        list(pool.map(lambda number: storage.add({f"results/{number}/1.json": b""}, "one"), range(8)))
        assert (len(storage.paths()), hub.seen["commit"]) == (8, 8)


def test_the_waits_grow_differ_by_seed_and_end_in_an_error_that_says_when():
    with HubStandIn(faults={"broken": 1}) as hub:
        waits = {seed: Waits() for seed in (0, 1)}
        for seed in waits:
            with pytest.raises(StorageError, match=r"cannot add to owner/board-requests.*again in \d+ seconds"):
                storage_of(hub, seed=seed, sleep=waits[seed]).add(TWO, "a")
        full = [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30]  # 12 tries have 11 waits between them
        for waited in waits.values():
            assert all(most / 2 <= wait <= most for wait, most in zip(waited, full, strict=True))
        assert waits[0] != waits[1]


@pytest.mark.parametrize("headers", [{"Retry-After": "7"}, {"RateLimit": '"api";r=0;t=7'}])
def test_a_hub_that_asks_to_wait_is_obeyed(headers):
    with HubStandIn(faults={"busy": 1}) as hub:
        hub.choose = lambda values: headers
        waits = Waits()
        with pytest.raises(StorageError):
            storage_of(hub, sleep=waits).paths()
        assert waits[:4] == [7, 7, 7, 7]


def test_a_hub_that_asks_to_wait_for_an_hour_is_not_waited_for():
    with HubStandIn(faults={"busy": 1}) as hub:
        hub.choose = lambda values: {"Retry-After": "3600"}
        waits = Waits()
        with pytest.raises(StorageError, match="again in 3600 seconds or later"):
            storage_of(hub, sleep=waits).add(TWO, "a")
        assert waits == []


def test_a_token_that_may_not_is_told_at_once_and_an_unreachable_hub_after_all_tries():
    waits = Waits()
    with HubStandIn(token="other") as hub:
        storage = storage_of(hub, sleep=waits)
        for use in (storage.paths, lambda: storage.add(TWO, "a"), lambda: storage.read("requests/a/b.parquet")):
            with pytest.raises(StorageError, match=r"401.*HF_TOKEN"):
                use()
        assert waits == []
    with pytest.raises(StorageError, match="cannot list owner/board-requests"):
        storage.paths()
    assert len(waits) == 4  # between five tries


def test_reads_outlast_a_hub_in_trouble():
    with HubStandIn() as hub:
        storage_of(hub).add(TWO, "a")
        hub.faults = {"broken": 0.15, "dropped": 0.1, "busy": 0.05}
        for seed in range(8):
            storage = storage_of(hub, seed=seed)
            assert storage.paths() == sorted(TWO)
            assert {path: storage.read(path) for path in TWO} == TWO
        assert {"broken", "dropped", "busy"} <= set(hub.seen)


HOSTILE = {"conflict": 0.1, "lost": 0.1, "stalled": 0.04, "late": 0.04, "dropped": 0.03, "busy": 0.03, "broken": 0.05}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_fifty_additions_at_once_through_a_hostile_hub_are_all_there_exactly_once(seed, monkeypatch):
    monkeypatch.setattr(_hub_storage, "_SILENCE_SECONDS", 0.25)
    additions = [
        {
            f"requests/{number:016x}/{name}": b"%d %s" % (number, name.encode())
            for name in ("submission.json", "1.parquet")
        }
        for number in range(50)
    ]
    with HubStandIn(seed, HOSTILE, stall=0.5) as hub:
        storages = [storage_of(hub, seed=each) for each in range(3)]  # as three processes would have them

        def add(number):
            while True:
                try:
                    return storages[number % 3].add(additions[number], f"Add {number}")
                except StorageError:
                    assert_whole(hub, additions)  # calling again is safe

        with ThreadPoolExecutor(50) as pool:
            list(pool.map(add, range(50)))
        assert_whole(hub, additions)
        assert hub.added(REQUESTS) == {path: 1 for files in additions for path in files}
        assert {*HOSTILE, "overtaken"} <= set(hub.seen)
        hub.faults = {}
        assert storages[0].paths() == sorted(path for files in additions for path in files)


def assert_whole(hub, additions):
    """Each commit has the files of one addition, all of them."""
    with hub.lock:
        commits = hub.repositories[REQUESTS].commits[1:] if REQUESTS in hub.repositories else []
    assert all(commit.added in additions for commit in commits)


def test_an_error_does_not_show_the_queries_of_addresses():
    with HubStandIn() as hub:
        storage = storage_of(hub)

        def dataset_info(*arguments, **options):
            raise OSError("Server error for 'https://bucket/file?signature=abc' and\nhttp://other?key=def.")

        storage._repositories["requests"]._api.dataset_info = dataset_info
        with pytest.raises(StorageError, match=r"Server error for 'https://bucket/file' and http://other\. Try again"):
            storage.paths()


@pytest.mark.parametrize("name", ["", "board", "a/b/c", "owner/../x", "owner/" + "x" * 100, "own er/x"])
def test_a_name_that_no_repository_can_have_is_refused(name):
    with pytest.raises(StorageError, match="cannot name repositories of the Hub"):
        HubStorage(name)
