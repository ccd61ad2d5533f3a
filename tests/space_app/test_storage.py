"""Storage in a folder and on the Hub: additions are whole whatever happens, and paths stay where they belong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hub_stand_in import HubStandIn, hub_storage
from hypothesis import given, settings
from hypothesis import strategies as st

from vl_assay.metrics.common.errors import StorageError
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.storage import open_storage
from vl_assay.space_app.storage.folder import FolderStorage
from vl_assay.space_app.storage.hub import HubStorage
from vl_assay.space_app.storage.protocol import is_path

OLD = {"requests/old/submission.json": b"old"}
NEW = {f"requests/new/{name}": name.encode() * 100 for name in ("submission.json", "1.parquet", "reviews/2.json")}


def contents(storage, prefix=""):
    return {path: storage.read(path) for path in storage.paths(prefix)}


def visible_files(folder):
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} - {".journal/lock"}


# Both storages.


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
    ours.add(NEW, "Add a submission")
    ours.add({"results/new/1.json": b""}, "Add its results")
    assert contents(theirs) == NEW | {"results/new/1.json": b""}
    assert theirs.paths("requests/new/r") == ["requests/new/reviews/2.json"]
    assert theirs.paths("re") == theirs.paths() == sorted([*NEW, "results/new/1.json"])
    assert theirs.paths("results/") == ["results/new/1.json"]
    for prefix in ("requests/other/", "x", "models/", "../", "/", "requests/../results/", "requests//"):
        assert theirs.paths(prefix) == []


def test_the_same_files_again_change_nothing_and_other_content_is_refused_whole(connect):
    storage = connect()
    storage.add(NEW, "new")
    storage.add(NEW | OLD, "again, and one more")
    storage.add({}, "nothing")
    for path in NEW:
        with pytest.raises(StorageError, match=r"exists with other content.*another path"):
            storage.add({"requests/more.json": b"more", path: b"other"}, "other")
    for path in ("requests/new", "requests/new/1.parquet/2"):
        with pytest.raises(StorageError, match="other content"):
            storage.add({"requests/more.json": b"more", path: b""}, "a file for a folder, a folder for a file")
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
def test_files_that_do_not_fit_together_are_refused(files, message, error, connect):
    with pytest.raises(StorageError, match=error):
        connect().add(files, message)
    assert connect().paths() == []


def test_a_missing_file_is_a_storage_error(connect):
    storage = connect()
    with pytest.raises(StorageError, match=r"no file 'requests/a/x\.json' in "):
        storage.read("requests/a/x.json")
    storage.add(NEW, "new")
    for path in ("requests/x", "requests/new", "requests/new/1.parquet/x"):
        with pytest.raises(StorageError, match=f"there is no file '{path}' in "):
            storage.read(path)


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


@settings(max_examples=40)
@given(GOOD)
def test_good_paths_make_the_round_trip(tmp_path_factory, path):
    storage = FolderStorage(tmp_path_factory.mktemp("paths"))
    storage.add({path: path.encode()}, "one")
    assert contents(storage) == {path: path.encode()}
    assert visible_files(storage.folder) == {path}


@given(
    st.text() | GOOD | st.tuples(GOOD, BAD_MIX).map(lambda both: "/".join([both[0], *both[1]])) | BAD_MIX.map("/".join)
)
def test_a_path_is_refused_or_harmless(path):
    if is_path(path):
        parts = path.split("/")
        assert len(parts) > 1
        assert parts[0] in ("requests", "results")
        assert all(part[:1] not in ("", ".") for part in parts)
        assert all(" " < character <= "~" and character != "\\" for character in path)
        assert len(path) <= 200
    else:
        for use in (FolderStorage("/nowhere").read, lambda path: HubStorage("owner/board").add({path: b""}, "one")):
            with pytest.raises(StorageError, match="no file can be stored as"):
                use(path)


BAD = ["requests/../x", "/requests/x", "requests/x/", "requests//x", "requests/.x", "requests/a\\b", "requests"]


@pytest.mark.parametrize("path", [*BAD, "requests/a\n", "requests/" + "a" * 200])
def test_bad_paths_are_refused_by_name(path, tmp_path):
    with pytest.raises(StorageError, match="a path is relative"):
        FolderStorage(tmp_path).add({path: b""}, "one")
    assert visible_files(tmp_path) == set()


# The folder.


def test_files_of_others_in_the_folder_are_not_shown(tmp_path):
    storage = FolderStorage(tmp_path)
    storage.add(NEW, "new")
    for path in ("README.md", "requests/.hidden", "requests/.git/config", "requests/a b", "other/x"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"")
    assert contents(storage) == NEW


def test_threads_that_add_and_read_at_once_never_see_half_of_an_addition(tmp_path):
    def add_and_read(number):
        paths = [f"requests/{number:03}/{name}.json" for name in "abc"]
        storage = FolderStorage(tmp_path)
        storage.add({path: path.encode() * 1000 for path in paths}, "one")
        found = storage.paths()
        assert {*paths} <= {*found}
        assert all(storage.read(path) == path.encode() * 1000 for path in found[-3:])
        return len(found)

    with ThreadPoolExecutor(6) as pool:
        seen = list(pool.map(add_and_read, [*range(30), *range(30)]))
    assert all(count % 3 == 0 for count in seen)
    assert max(seen) == len(FolderStorage(tmp_path).paths()) == 90


CRASHING = """
import itertools, json, os, shutil, signal, sys
import filelock
from pathlib import Path
from vl_assay.space_app.storage.folder import FolderStorage

root, old, new = Path(sys.argv[1]), *({k: v.encode() for k, v in json.loads(each).items()} for each in sys.argv[2:])
CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir"}

def is_change(event, arguments):
    return event in CHANGES or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR))

def kill_at_every_step(name, prepare, act):
    for step in itertools.count():
        folder = root / f"{name}-{step:03}"
        prepare(folder)
        child = os.fork()
        if child == 0:
            left = step
            def count(event, arguments):
                nonlocal left
                if is_change(event, arguments):
                    left -= 1
                    if left < 0:
                        os.kill(os.getpid(), signal.SIGKILL)
            sys.addaudithook(count)
            act(FolderStorage(folder))
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return

kill_at_every_step("add", lambda f: FolderStorage(f).add(old, "old"), lambda storage: storage.add(new, "new"))
committed = [f for f in sorted(root.glob("add-*")) if (f / ".journal/committed/paths.json").exists()]
(root / "committed.txt").write_text("\\n".join(f.name for f in committed))
for number, crashed in enumerate((committed[0], committed[-1])):
    kill_at_every_step(f"again-{number}", lambda f: shutil.copytree(crashed, f), lambda storage: storage.paths())
"""


def test_a_process_killed_before_any_change_on_the_disk_leaves_all_or_nothing(tmp_path):
    arguments = [json.dumps({path: content.decode() for path, content in files.items()}) for files in (OLD, NEW)]
    subprocess.run([sys.executable, "-c", CRASHING, tmp_path, *arguments], check=True)
    committed = (tmp_path / "committed.txt").read_text().split()
    outcomes = defaultdict(list)
    for folder in sorted(path for path in tmp_path.iterdir() if path.is_dir()):
        storage = FolderStorage(folder)
        found = contents(storage)
        assert found in (OLD, OLD | NEW), folder.name
        outcomes[len(found)].append(folder.name)
        assert visible_files(folder) == set(found)
        storage.add(NEW, "again")
        assert contents(storage) == OLD | NEW
        assert visible_files(folder) == {*OLD, *NEW}
        assert [path.name for path in (folder / ".journal").iterdir()] == ["lock"]
    assert len(outcomes[1]) > 10
    assert len(committed) > 3
    assert set(committed) <= set(outcomes[4])
    assert [name for name in outcomes[1] if name.startswith("again")] == []


FULL = """
import resource, sys
from vl_assay.metrics.common.errors import StorageError
from vl_assay.space_app.storage.folder import FolderStorage

storage = FolderStorage(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    storage.add({"requests/a/small": b"x", "requests/a/large": b"x" * 100_000}, "one")
except StorageError as error:
    print(error)
print(sorted(path.name for path in storage.folder.glob(".journal/*")), storage.paths())
"""


def test_a_file_for_which_there_is_no_room_is_a_storage_error_and_leaves_what_was_there(tmp_path):
    storage = FolderStorage(tmp_path)
    storage.add(OLD, "old")
    output = subprocess.run([sys.executable, "-c", FULL, tmp_path], check=True, capture_output=True, text=True).stdout
    assert "File too large" in output
    assert "free some space" in output
    assert f"['lock'] {list(OLD)}" in output
    assert contents(storage) == OLD
    assert visible_files(tmp_path) == set(OLD)


def test_a_missing_permission_is_a_storage_error_and_leaves_what_was_there(tmp_path, monkeypatch):
    storage = FolderStorage(tmp_path)
    storage.add(OLD, "old")
    with monkeypatch.context() as patch:  # root may write anywhere
        patch.setattr(os, "access", lambda folder, mode: folder.name != "reviews")
        with pytest.raises(StorageError, match=r"no permission to write to .*reviews"):
            storage.add(NEW, "new")
    assert visible_files(tmp_path) == set(OLD)
    assert contents(storage) == OLD
    (tmp_path / "file").write_bytes(b"")
    for use in (FolderStorage.paths, lambda each: each.read("requests/a"), lambda each: each.add(NEW, "new")):
        with pytest.raises(StorageError, match="file cannot be used as storage: Not a directory"):
            use(FolderStorage(tmp_path / "file"))


def test_an_addition_that_cannot_be_moved_to_its_places_is_moved_by_the_next_process(tmp_path, monkeypatch):
    storage, replace = FolderStorage(tmp_path), os.replace

    def fail(source, target):
        if Path(target).name == "1.parquet":
            raise OSError(28, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        for use in (lambda: storage.add(NEW, "new"), storage.paths):
            with pytest.raises(StorageError, match="cannot be used as storage: No space left on device"):
                use()
    assert contents(FolderStorage(tmp_path)) == NEW
    assert visible_files(tmp_path) == set(NEW)


def test_a_folder_that_stays_locked_is_a_storage_error(tmp_path):
    from filelock import FileLock

    storage = FolderStorage(tmp_path, lock_timeout=0.05)
    storage.paths()
    with (
        FileLock(tmp_path / ".journal" / "lock"),
        ThreadPoolExecutor() as pool,
        pytest.raises(StorageError, match=r"another process has kept .* locked"),
    ):
        pool.submit(storage.paths).result()
    assert storage.paths() == []


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


def test_a_folder_is_opened_without_heavy_imports():
    code = "import sys; from vl_assay.space_app.storage import open_storage; open_storage('x'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert {"huggingface_hub", "pandas", "gradio", "datasets"} & set(loaded.split()) == set()


def test_a_folder_that_was_moved_away_is_told_of_and_not_begun_again(tmp_path):
    storage = FolderStorage(tmp_path / "storage")
    storage.add({"requests/0123456789abcdef/b.json": b"1"}, "first")
    (tmp_path / "storage").rename(tmp_path / "elsewhere")
    for call in (storage.paths, lambda: storage.add({"requests/0123456789abcdef/c.json": b"2"}, "second")):
        with pytest.raises(StorageError, match="was there and is gone: it was moved, deleted or unmounted"):
            call()
    assert not (tmp_path / "storage").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "storage")
    assert storage.paths() == ["requests/0123456789abcdef/b.json"]


@pytest.fixture
def read_only():
    """A folder with one file, which this process may read and not write."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "storage"
        FolderStorage(folder).add({"requests/0123456789abcdef/b.json": b"1"}, "first")
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
    assert storage.paths() == ["requests/0123456789abcdef/b.json"]
    assert storage.read("requests/0123456789abcdef/b.json") == b"1"
    assert Catalogue(storage).board.columns
    with pytest.raises(StorageError, match="cannot be used as storage"):
        storage.add({"requests/0123456789abcdef/c.json": b"2"}, "second")


JOURNALS = [
    "nothing", '["requests/a"', "3", '{"x": 1}', "null", "[" * 100_000, "[1, null]", '["../outside"]',
    '["/outside"]', '["requests/../../outside"]', '["requests/.git/config"]', '["secrets/a"]', '[".journal/lock"]',
    '["C:\\\\outside"]',
]  # fmt: skip


@pytest.mark.parametrize("text", JOURNALS, ids=lambda text: text[:30])
def test_a_damaged_journal_is_named_and_moves_nothing_out_of_the_folder(text, tmp_path):
    storage = FolderStorage(tmp_path / "storage")
    storage.add({"requests/a/b.json": b"1"}, "first")
    committed = tmp_path / "storage" / ".journal" / "committed"
    committed.mkdir()
    (committed / "paths.json").write_text(text)
    (committed / "0").write_bytes(b"evil")
    before = set(tmp_path.rglob("*"))
    for call in (lambda: storage.paths(), lambda: storage.add({"requests/c": b"2"}, "second")):
        with pytest.raises(StorageError, match=r"paths\.json is damaged .* nothing was moved"):
            call()
    assert set(tmp_path.rglob("*")) == before
    shutil.rmtree(committed)  # as the message says
    assert storage.paths() == ["requests/a/b.json"]
