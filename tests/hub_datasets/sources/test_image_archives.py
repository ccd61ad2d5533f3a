"""Images out of an archive on a server: only what is needed, kept once, verified, continued after any fault."""

import functools
import io
import math
import multiprocessing
import random
import shutil
import time
import tracemalloc
import zipfile
from pathlib import Path

import huggingface_hub.constants
import pytest
from file_server import serving

from vl_assay.hub_datasets.sources import image_archives
from vl_assay.hub_datasets.sources.downloads import DownloadError
from vl_assay.hub_datasets.sources.image_archives import ImageArchive, fetch_images

NAMES = [f"{number:012}.jpg" for number in range(200)]
NEEDED = NAMES[3::7]


@functools.cache
def photograph(name):
    """Content that looks like a JPEG file and cannot be compressed."""
    noise = random.Random(name)
    return b"\xff\xd8\xff" + noise.randbytes(noise.randrange(15_000, 25_000)) + b"\xff\xd9"


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The archive, of which every other file is compressed."""
    path = tmp_path_factory.mktemp("released") / "val2017.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, name in enumerate(NAMES):
            method = zipfile.ZIP_STORED if number % 2 else zipfile.ZIP_DEFLATED
            archive.writestr(f"val2017/{name}", photograph(name), method)
    return path


@pytest.fixture
def server(released, tmp_path, monkeypatch):
    """A server of val2017.zip; the cache is empty."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(image_archives, "SECONDS_BEFORE_RETRY", 0.01)
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "remote").mkdir()
    shutil.copy(released, tmp_path / "remote")
    with serving(tmp_path / "remote") as server:
        yield server


@pytest.fixture
def archive(server):
    return ImageArchive("coco/val2017", f"{server.url}/val2017.zip", "val2017/")


def fetched(archive, names=NEEDED):
    return fetch_images(names, [archive], "pass data_dir")


def are_right(found, names=NEEDED):
    return list(found) == list(names) and all(Path(found[name]).read_bytes() == photograph(name) for name in names)


def kept(archive):
    """The images that are kept, each of which must be whole."""
    paths = [path for path in archive.folder.glob("*") if not path.name.startswith(".")]
    names = [path.name.split(".", 1)[1] for path in paths]
    assert all(path.read_bytes() == photograph(name) for path, name in zip(paths, names, strict=True))
    return names


def test_only_the_needed_members_are_fetched(server, archive):
    assert are_right(fetched(archive))
    with zipfile.ZipFile(Path(server.RequestHandlerClass.keywords["directory"]) / "val2017.zip") as whole:
        needed = sum(whole.getinfo(f"val2017/{name}").compress_size for name in NEEDED)
        directory = 100 * len(NAMES)
    assert server.sent["val2017.zip"] <= 1.05 * needed + directory
    assert server.sent["val2017.zip"] < 0.2 * sum(len(photograph(name)) for name in NAMES)


def test_what_another_benchmark_fetched_is_not_fetched_again(server, archive):
    fetched(archive, NAMES[:20])
    server.sent.clear()
    assert are_right(fetched(archive, NAMES[10:21]), NAMES[10:21])
    assert server.sent["val2017.zip"] < 50_000 + 100 * len(NAMES)
    server.requests.clear()
    fetched(archive, NAMES[:21])
    assert not server.requests


def test_a_kept_image_that_has_changed_is_fetched_again(archive):
    paths = [Path(path) for path in fetched(archive).values()]
    paths[0].write_bytes(b"something else")
    paths[1].unlink()
    assert are_right(fetched(archive))


def test_a_fetch_that_is_killed_at_any_of_three_moments_continues(server, archive):
    fork = multiprocessing.get_context("fork")
    before = 0
    for moment in (2, 5, 9):
        server.requests.clear()
        server.limit = 4 + moment  # so that the process waits for its end
        process = fork.Process(target=fetched, args=(archive,), daemon=True)
        process.start()
        while server.requests["GET", "val2017.zip"] < server.limit and process.is_alive():
            time.sleep(0.0005)
        process.kill()
        process.join()
        assert len(kept(archive)) >= before
        before = len(kept(archive))
    server.limit = math.inf
    time.sleep(0.1)  # until the server has met the last requests of the killed process
    server.requests.clear()
    assert are_right(fetched(archive))
    assert 0 < before < len(NEEDED)
    assert server.requests["GET", "val2017.zip"] <= len(NEEDED) - before + 5


def test_what_arrives_damaged_is_named_and_not_kept(server, archive):
    server.altered = {"val2017.zip"}
    with pytest.raises(DownloadError, match=r"val2017\.zip .*damaged.*pass data_dir"):
        fetched(archive)
    assert kept(archive) == []
    server.altered = set()
    assert are_right(fetched(archive))


@pytest.mark.parametrize(("answers", "tries"), [([429, 503, 500], image_archives.TRIES), ([403], 1)])
def test_a_busy_server_is_asked_again_and_one_that_refuses_is_not(answers, tries, server, archive):
    server.down = {"val2017.zip": answers}
    with pytest.raises(DownloadError, match=rf"val2017\.zip .*{answers[-1]}.*pass data_dir"):
        fetched(archive)
    assert server.requests["GET", "val2017.zip"] == tries
    server.down = {"val2017.zip": [429, 503, 200]}
    assert are_right(fetched(archive))


def test_an_archive_that_was_moved_is_followed_to_its_new_address(server, archive, tmp_path):
    (tmp_path / "remote" / "val2017.zip").rename(tmp_path / "remote" / "new.zip")
    server.moved = {"val2017.zip": f"{server.url}/new.zip"}
    assert are_right(fetched(archive))


def test_images_are_looked_for_in_several_archives_and_one_that_none_has_is_none(server, archive, tmp_path):
    with zipfile.ZipFile(tmp_path / "remote" / "more.zip", "w") as more:
        more.writestr("VG/more.jpg", photograph("more.jpg"))
    second = ImageArchive("vg", f"{server.url}/more.zip", "VG/")
    found = fetch_images([NAMES[0], "more.jpg", "absent.jpg"], [archive, second], "pass data_dir")
    assert found.pop("absent.jpg") is None
    assert are_right(found, [NAMES[0], "more.jpg"])


def test_a_server_that_does_not_send_parts_is_named(server, archive):
    server.has_ranges = False
    with pytest.raises(DownloadError, match=r"val2017\.zip .*does not send parts"):
        fetched(archive)


def test_an_archive_that_is_none_and_one_with_huge_files_are_refused(server, archive, tmp_path, monkeypatch):
    (tmp_path / "remote" / "page.zip").write_text("<html>" * 100)
    with pytest.raises(DownloadError, match=r"page\.zip .*not a zip"):
        fetched(ImageArchive("page", f"{server.url}/page.zip", ""))
    monkeypatch.setattr(image_archives, "MOST_BYTES", 1_000)
    with pytest.raises(DownloadError, match="files of more than 1,000 bytes"):
        fetched(archive)


@pytest.mark.parametrize(
    ("method", "told"), [(zipfile.ZIP_DEFLATED, "damaged .*changed meanwhile"), (zipfile.ZIP_LZMA, "method 14, not")]
)
def test_a_member_that_unpacks_to_more_than_its_directory_says_is_not_unpacked(method, told):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("bomb.jpg", bytes(20_000_000))
        [info] = archive.infolist()
    info.file_size = 100
    tracemalloc.start()
    with pytest.raises(ValueError, match=told):
        image_archives._unpacked(file.getvalue(), info)
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_an_archive_that_is_replaced_during_a_fetch_is_told(server, archive, tmp_path):
    path = tmp_path / "remote" / "val2017.zip"
    content = path.read_bytes()
    size = image_archives._size

    def replaced(url):
        found = size(url)
        path.write_bytes(content + b"\0" * 100)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_archives, "_size", replaced)
        with pytest.raises(DownloadError, match="changed meanwhile"):
            fetched(archive)


def test_offline_nothing_is_asked(server, archive, monkeypatch):
    fetched(archive)
    server.requests.clear()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert are_right(fetched(archive))
    with pytest.raises(DownloadError, match="offline"):
        fetched(archive, NAMES)
    assert not server.requests


def test_a_disk_that_cannot_be_written_is_told_as_such(archive, tmp_path):
    (tmp_path / "cache").write_text("a file in the way")
    with pytest.raises(OSError, match="cache") as caught:
        fetched(archive)
    assert not isinstance(caught.value, DownloadError)
