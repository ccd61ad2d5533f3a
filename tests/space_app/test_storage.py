"""Storage in a folder and on the Hub: a record never without its files, and paths stay where they belong."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock
from hub_stand_in import HubStandIn, hub_storage
from hypothesis import example, given
from hypothesis import strategies as st

from vl_assay.metrics.common.errors import StorageError
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.storage import folder as folder_storage
from vl_assay.space_app.storage import open_storage
from vl_assay.space_app.storage.folder import FolderStorage
from vl_assay.space_app.storage.hub import HubStorage
from vl_assay.space_app.storage.protocol import is_path

OLD = {"requests/old/submission.json": b"old"}
NEW = {f"requests/new/{name}": name.encode() * 100 for name in ("1.parquet", "reviews/2.json", "submission.json")}


def contents(storage, prefix=""):
    return {path: storage.read(path) for path in storage.paths(prefix)}


def visible_files(folder):
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} - {".lock"}


@pytest.fixture(params=["folder", "hub"])
def connect(request, tmp_path):
    """A function that opens the same storage again, as another process does."""
    if request.param == "folder":
        yield lambda: FolderStorage(tmp_path / "board")
        return
    request.getfixturevalue("online")
    with HubStandIn() as hub:
        yield lambda: hub_storage(hub)


def test_added_files_are_listed_and_read_by_others(connect):
    ours, theirs = connect(), connect()
    assert theirs.paths() == []
    with pytest.raises(StorageError, match=r"no file 'requests/a/x\.json' in "):
        theirs.read("requests/a/x.json")
    ours.add(NEW, "Add a submission")
    ours.add({"results/new/1.json": b""}, "Add its results")
    assert contents(theirs) == NEW | {"results/new/1.json": b""}
    assert theirs.paths("requests/new/r") == ["requests/new/reviews/2.json"]
    assert theirs.paths("re") == theirs.paths() == sorted([*NEW, "results/new/1.json"])
    assert theirs.paths("results/") == ["results/new/1.json"]
    for prefix in ("requests/other/", "x", "models/", "../", "/", "requests/../results/", "requests//"):
        assert theirs.paths(prefix) == []
    for path in ("requests/x", "requests/new", "requests/new/1.parquet/x"):
        with pytest.raises(StorageError, match=f"there is no file '{path}' in "):
            theirs.read(path)


def test_the_same_files_again_change_nothing_and_other_content_is_refused_whole(connect):
    storage = connect()
    storage.add(NEW, "new")
    storage.add(NEW | OLD, "again, and one more")
    storage.add({}, "nothing")
    for path in ("requests/new/1.parquet", "requests/new", "requests/new/1.parquet/2"):
        with pytest.raises(StorageError, match=r"exists with other content.*another path"):
            storage.add({"requests/more.json": b"more", path: b"other"}, "other")
    assert contents(connect()) == NEW | OLD


@pytest.mark.parametrize(
    ("files", "message", "error"),
    [
        ({"requests/a": b"", "results/a": b""}, "both", r"one of requests, results, not both"),
        ({"requests/a": b"", "requests/a/b": b""}, "nested", r"'requests/a' cannot be a file and the folder of"),
        ({"requests/a": b""}, " ", "needs a message"),
        ({"requests/a": b"", "models/a": b""}, "other", r"no file can be stored as 'models/a'.*below requests/ or"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(files, message, error, tmp_path):
    for storage in (FolderStorage(tmp_path), HubStorage("owner/board")):
        with pytest.raises(StorageError, match=error):
            storage.add(files, message)
    assert visible_files(tmp_path) == set()


PARTS = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,20}", fullmatch=True)
GOOD = st.builds(
    lambda top, parts: "/".join([top, *parts]),
    st.sampled_from(["requests", "results"]),
    st.lists(PARTS, min_size=1, max_size=5),
)
TRICKS = [
    *("..", ".", "", "~", "\\", "\0", "\n", "\u202e", ".git", "con:", "%2e%2e", "requests", "a" * 120, "\ud800", "é"),
]
BAD_MIX = st.lists(st.sampled_from(TRICKS) | st.text(max_size=5), max_size=6)


@example("requests/../x")
@example("requests/a\n")
@example("requests/" + "a" * 200)
@given(
    st.text() | GOOD | st.tuples(GOOD, BAD_MIX).map(lambda both: "/".join([both[0], *both[1]])) | BAD_MIX.map("/".join)
)
def test_a_path_is_stored_below_the_folder_or_refused(tmp_path_factory, path):
    if is_path(path):
        parts = path.split("/")
        assert len(parts) > 1
        assert parts[0] in ("requests", "results")
        assert all(part[:1] not in ("", ".") for part in parts)
        assert all(" " < character <= "~" and character != "\\" for character in path)
        assert len(path) <= 200
        storage = FolderStorage(tmp_path_factory.mktemp("paths"))
        storage.add({path: path.encode()}, "one")
        assert contents(storage) == {path: path.encode()}
        assert visible_files(storage.folder) == {path}
    else:
        for use in (FolderStorage("/nowhere").read, lambda path: HubStorage("owner/board").add({path: b""}, "one")):
            with pytest.raises(StorageError, match=r"no file can be stored as .* a path is relative"):
                use(path)


def test_files_of_others_in_the_folder_are_not_shown(tmp_path):
    storage = FolderStorage(tmp_path)
    storage.add(NEW, "new")
    for path in ("README.md", "requests/.hidden", "requests/.git/config", "requests/a b", "other/x"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"")
    assert contents(storage) == NEW


def test_threads_that_add_and_read_at_once_find_whole_files_and_no_record_without_its_own(tmp_path):
    def add_and_read(number):
        paths = [f"requests/{number:03}/{name}.json" for name in "abc"]
        storage = FolderStorage(tmp_path)
        storage.add({path: path.encode() * 1000 for path in paths}, "one")
        found = storage.paths()
        assert {*paths} <= {*found}
        for path in found:
            if path.endswith("c.json"):  # the last of its addition
                first = path.replace("c.json", "a.json")
                assert storage.read(first) == first.encode() * 1000

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(add_and_read, [*range(12), *range(12)]))
    assert len(FolderStorage(tmp_path).paths()) == 36


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("step", range(3))
def test_an_addition_that_is_cut_short_has_no_record_and_is_completed_by_the_next(step, error, tmp_path, monkeypatch):
    storage, done, replace = FolderStorage(tmp_path), [], os.replace
    storage.add(OLD, "old")

    def cut(source, target):
        if len(done) == step:
            raise error
        done.append(target)
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", cut)
        with pytest.raises((KeyboardInterrupt, StorageError), match="free some space" if error.args else None):
            storage.add(NEW, "new")
    assert contents(FolderStorage(tmp_path)) == OLD | dict([*NEW.items()][:step])
    storage.add(NEW, "again")
    assert contents(storage) == OLD | NEW
    assert visible_files(tmp_path) == {*OLD, *NEW}


def test_a_folder_that_stays_locked_or_is_a_file_is_a_storage_error(tmp_path):
    storage = FolderStorage(tmp_path, lock_timeout=0.05)
    storage.add(OLD, "old")
    with FileLock(tmp_path / ".lock"), ThreadPoolExecutor() as pool:
        with pytest.raises(StorageError, match=r"another process has kept .* locked"):
            pool.submit(storage.add, NEW, "new").result()
        assert pool.submit(storage.paths).result() == [*OLD]  # readers wait for nobody
    (tmp_path / "file").write_bytes(b"")
    for use in (FolderStorage.paths, lambda each: each.read("requests/a"), lambda each: each.add(NEW, "new")):
        with pytest.raises(StorageError, match="file cannot be used as storage: File exists"):
            use(FolderStorage(tmp_path / "file"))


def test_the_location_is_given_by_argument_variable_or_default(tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("VL_ASSAY_STORAGE", raising=False)
    assert open_storage().folder == tmp_path / "cache" / "leaderboard"
    monkeypatch.setenv("VL_ASSAY_STORAGE", str(tmp_path / "named"))
    assert open_storage().folder == tmp_path / "named"
    assert open_storage("~/board").folder == Path("~/board").expanduser()
    assert not (tmp_path / "named").exists()
    monkeypatch.setenv("VL_ASSAY_STORAGE", "hf://datasets/owner/board")
    assert isinstance(open_storage(), HubStorage)
    for location in ("hf://owner/board", "hf://models/owner/board", "s3://bucket/board", "http://x/y"):
        with pytest.raises(StorageError, match=r"cannot store at .*; give a folder, or hf://datasets/owner/name"):
            open_storage(location)


def test_a_folder_that_was_moved_away_is_told_of_and_not_begun_again(tmp_path):
    storage = FolderStorage(tmp_path / "storage")
    storage.add(OLD, "first")
    (tmp_path / "storage").rename(tmp_path / "elsewhere")
    for call in (storage.paths, lambda: storage.add(NEW, "second")):
        with pytest.raises(StorageError, match="was there and is gone: it was moved, deleted or unmounted"):
            call()
    assert not (tmp_path / "storage").exists()
    (tmp_path / "storage").mkdir()  # as the place of a disk that is not mounted
    with pytest.raises(StorageError, match="was there and is gone"):
        storage.paths()
    (tmp_path / "storage").rmdir()
    (tmp_path / "elsewhere").rename(tmp_path / "storage")
    assert storage.paths() == [*OLD]


def test_the_last_file_is_written_when_the_others_are_on_the_disk(tmp_path, monkeypatch):
    events = []
    for name in ("write_atomically", "sync_folder"):
        done = getattr(folder_storage, name)
        monkeypatch.setattr(
            folder_storage, name, lambda path, *content, done=done: (events.append(path.name), done(path, *content))
        )
    FolderStorage(tmp_path / "storage").add(NEW, "an addition")
    last = events.index("submission.json")
    assert {"1.parquet", "2.json", "new", "reviews", "requests"} == {*events[:last]} - {"storage"}
    assert {"new", "requests"} <= {*events[last:]}


@pytest.fixture
def read_only():
    """A folder with one file, which this process may read and not write."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "storage"
        FolderStorage(folder).add(OLD, "first")
        (folder / ".lock").unlink()
        folder.chmod(0o555)
        is_root = os.geteuid() == 0
        os.seteuid(65534) if is_root else None
        try:
            yield folder
        finally:
            os.seteuid(0) if is_root else None
            folder.chmod(0o755)


def test_a_folder_that_may_not_be_written_is_read_and_the_board_opens(read_only):
    storage = FolderStorage(read_only)
    assert contents(storage) == OLD
    assert Catalogue(storage).board.columns
    with pytest.raises(StorageError, match="cannot be used as storage"):
        storage.add(NEW, "second")
