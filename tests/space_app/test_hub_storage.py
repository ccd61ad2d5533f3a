"""Storage in repositories of the Hub, against a local server that speaks its API and fails as it is told to."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hub_stand_in import REQUESTS, HubStandIn, Waits
from hub_stand_in import hub_storage as storage_of

from vl_assay.metrics.common.errors import StorageError
from vl_assay.space_app.storage.hub import HubStorage

TWO = {"requests/a/submission.json": b"{}", "requests/a/b.parquet": b"PAR1"}
pytestmark = pytest.mark.usefixtures("online")


def test_an_addition_is_one_commit_and_the_same_again_is_none():
    with HubStandIn() as hub:
        storage = storage_of(hub)
        assert (storage.paths(), hub.repositories) == ([], {})
        storage.add(TWO, "Add submission a")
        storage.add(TWO, "again")
        storage.add(TWO | {"requests/a/c.parquet": b"PAR1"}, "one more")
        commits = [(commit.message, list(commit.added)) for commit in hub.repositories[REQUESTS].commits[1:]]
        assert commits == [("Add submission a", list(TWO)), ("one more", ["requests/a/c.parquet"])]
        hub.repositories[REQUESTS].commit("by hand", {"README.md": b"", "results/x.json": b"", "requests/.x": b""})
        assert storage.paths() == sorted([*TWO, "requests/a/c.parquet"])


def test_a_tree_of_many_pages_is_listed_whole():
    with HubStandIn() as hub:
        files = {f"results/{number:03}/1.json": b"%d" % number for number in range(60)}
        storage_of(hub).add(files, "many")
        assert storage_of(hub).paths() == sorted(files)
        assert hub.seen["tree"] >= 6  # 60 files, 60 folders, their folder and .gitattributes are 122 entries, 20 a page


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


def test_a_hub_that_does_not_answer_is_not_waited_for_longer_than_the_timeout():
    with HubStandIn(faults={"stalled": 1}, stall=30) as hub:
        started = time.monotonic()
        storage_of(hub, timeout=0.2).add(TWO, "a")
        assert time.monotonic() - started < 20
        assert hub.added(REQUESTS) == dict.fromkeys(TWO, 1)


def test_a_commit_that_comes_after_its_repetition_is_refused_by_the_hub():
    with HubStandIn(faults={"late": 1}, stall=1) as hub:
        storage_of(hub, sleep=lambda seconds: hub.faults.clear(), timeout=0.2).add(TWO, "a")
        for _ in range(500):
            if hub.seen["overtaken"]:
                break
            time.sleep(0.01)
        assert hub.seen["overtaken"] == 1
        assert hub.added(REQUESTS) == dict.fromkeys(TWO, 1)


def test_a_refusal_that_passes_and_an_answer_that_is_no_json_are_tried_again():
    for status in (408, 409, 412, 425, 429, 500, 503):
        with HubStandIn(faults={"conflict": 1}) as hub:
            hub.choose = lambda values, status=status: status
            storage_of(hub, sleep=lambda seconds, hub=hub: hub.faults.clear()).add(TWO, "a")
            assert (hub.seen["conflict"], hub.added(REQUESTS)) == (1, dict.fromkeys(TWO, 1)), status
    with HubStandIn() as hub:
        hub.pages.append(b"<html>a proxy's page</html>")
        storage_of(hub).add(TWO, "a")
        assert (hub.pages, hub.added(REQUESTS)) == ([], dict.fromkeys(TWO, 1))


def test_waits_grow_with_jitter_and_end_in_an_error_that_says_when():
    with HubStandIn(faults={"broken": 1}) as hub:
        waits = Waits()
        with pytest.raises(StorageError, match=r"cannot add to owner/board-requests.*again in \d+ seconds"):
            storage_of(hub, sleep=waits).add(TWO, "a")
        most = [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30]  # 12 attempts have 11 waits between them
        assert all(0.1 <= wait <= longest for wait, longest in zip(waits, most, strict=True))
        assert sum(waits) > 16


def test_a_hub_that_asks_to_wait_is_obeyed_but_not_for_an_hour():
    for headers, expected in (
        ({"Retry-After": "7"}, [7] * 4),
        ({"RateLimit": '"api";r=0;t=7'}, [7] * 4),
        ({"Retry-After": "3600"}, []),
    ):
        with HubStandIn(faults={"busy": 1}) as hub:
            hub.choose, waits = lambda values, headers=headers: headers, Waits()
            with pytest.raises(StorageError, match="cannot list" if expected else "again in 3600 seconds or later"):
                storage_of(hub, sleep=waits).paths()
            assert waits == expected


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


HOSTILE = {"conflict": 0.1, "lost": 0.1, "stalled": 0.04, "late": 0.04, "dropped": 0.03, "busy": 0.03, "broken": 0.05}


@pytest.mark.slow
def test_fifty_additions_at_once_through_a_hostile_hub_are_all_there_exactly_once():
    additions = [
        {
            f"requests/{number:016x}/{name}": b"%d %s" % (number, name.encode())
            for name in ("submission.json", "1.parquet")
        }
        for number in range(50)
    ]
    with HubStandIn(0, HOSTILE, stall=0.3) as hub:
        storages = [storage_of(hub, timeout=0.15) for _ in range(3)]  # as three processes would have them

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


def test_an_error_does_not_show_the_queries_of_addresses(monkeypatch):
    def dataset_info(*arguments, **options):
        raise OSError("Server error for 'https://bucket/file?signature=abc' and\nhttp://other?key=def.")

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", dataset_info)
    with HubStandIn() as hub:
        storage = storage_of(hub)
        with pytest.raises(
            StorageError,
            match=r"Server error for 'https://bucket/file' and http://other; check the network, and try again",
        ):
            storage.paths()


def test_a_name_that_no_repository_can_have_is_refused():
    for name in ("", "board", "a/b/c", "owner/../x", "owner/" + "x" * 100, "own er/x"):
        with pytest.raises(StorageError, match="cannot name repositories of the Hub"):
            HubStorage(name)
