"""Builds that download: nothing twice, a cut transfer starts anew, a wrong file is named; served by a local server."""

import hashlib
import json
import shutil
import zipfile
from dataclasses import replace
from functools import partial

import datasets
import huggingface_hub
import pytest
import sources_cola
import sources_sugarcrepe
from builder_support import Small, raw
from file_server import serving

from vl_assay.hub_datasets import build
from vl_assay.hub_datasets.cola import builder as cola
from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.sources import availability, image_archives
from vl_assay.hub_datasets.sources.downloads import DownloadError
from vl_assay.hub_datasets.sugarcrepe import builder as sugarcrepe
from vl_assay.hub_datasets.sugarcrepe import release
from vl_assay.hub_datasets.whats_up import builder as whats_up
from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A web server for `tmp_path/remote`, which counts its requests, and caches of our own."""
    (tmp_path / "remote").mkdir()
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(image_archives, "SECONDS_BEFORE_RETRY", 0.01)
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "DOWNLOADED_DATASETS_PATH", tmp_path / "downloads")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(tmp_path / "remote") as server:
        yield server


@pytest.fixture
def remote_sugarcrepe(server, tmp_path, monkeypatch):
    """SugarCrepe's two servers; the annotation files have the sums that the builder expects."""
    root = tmp_path / "remote"
    sources_sugarcrepe.make(root)
    with zipfile.ZipFile(root / "val2017.zip", "w") as archive:
        for path in sorted((root / "val2017").iterdir()):
            archive.write(path, f"val2017/{path.name}")
    shutil.rmtree(root / "val2017")
    sums = {f"data/{path.name}": sha256(path) for path in (root / "data").iterdir()}
    monkeypatch.setattr(release, "SHA256", release.SHA256 | sums)
    monkeypatch.setattr(release, "ANNOTATIONS_URL", server.url)
    archive = replace(image_archives.COCO_VAL2017, url=f"{server.url}/val2017.zip")
    images = replace(sugarcrepe.SugarCrepe.IMAGES, archives=(archive,))
    monkeypatch.setattr(sugarcrepe.SugarCrepe, "IMAGES", images)
    return partial(build, "sugarcrepe", configs=["swap_obj"])


@pytest.fixture
def remote_cola(server, tmp_path, monkeypatch):
    """Cola's two servers in one."""
    annotations = tmp_path / "remote" / sources_cola.ANNOTATIONS
    annotations.parent.mkdir()
    annotations.write_text(json.dumps(sources_cola.rows(f"{server.url}/vg")), encoding="utf-8")
    sources_cola.write_images(tmp_path / "remote" / "vg")
    url, checksum = f"{server.url}/{sources_cola.ANNOTATIONS}", f"sha256:{sha256(annotations)}"
    [(part, rows)] = cola.Cola.ROWS.items()
    there = replace(cola.ANNOTATIONS, url=url, checksum=checksum)
    monkeypatch.setattr(cola.Cola, "ROWS", {part: replace(rows, file=there)})
    return partial(build, "cola")


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def content(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*.parquet")}


@pytest.mark.parametrize("name", ["sugarcrepe", "cola"])
def test_a_second_build_asks_the_server_for_nothing(name, request, server, tmp_path):
    make = request.getfixturevalue(f"remote_{name}")
    first = content(make(tmp_path / "first"))
    asked = {name: count for (method, name), count in server.requests.items() if method == "GET"}
    assert {count for name, count in asked.items() if not name.endswith(".zip")} == {1}
    server.requests.clear()
    assert content(make(tmp_path / "second")) == first
    assert server.requests == {}


@pytest.mark.parametrize(
    ("name", "file"),
    [("sugarcrepe", "swap_obj.json"), ("sugarcrepe", "val2017.zip"), ("cola", "14.jpg")],
)
def test_a_download_cut_in_the_middle_is_an_error_that_names_it_and_starts_anew(name, file, request, server, tmp_path):
    make = request.getfixturevalue(f"remote_{name}")
    server.cut = {file}
    with pytest.raises(DataError, match=rf"Could not download .*{file}"):
        make(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    server.cut = set()
    whole = {key for key, count in server.requests.items() if key[0] == "GET" and key[1] != file and count == 1}
    assert content(make(tmp_path / "out"))
    assert all(server.requests[key] == 1 for key in whole)


def test_a_downloaded_file_with_another_sum_is_an_error_whatever_verify_says(remote_sugarcrepe, tmp_path):
    with (tmp_path / "remote" / "data" / "swap_obj.json").open("a") as altered:
        altered.write("\n")
    with pytest.raises(DataError, match=r"data/swap_obj\.json has SHA-256 [0-9a-f]{64}, but .* has [0-9a-f]{64}"):
        remote_sugarcrepe(tmp_path / "out", options={"verify": False})
    assert not (tmp_path / "out").exists()


def test_the_list_knows_what_was_downloaded_and_downloads_nothing(remote_sugarcrepe, server, tmp_path):
    def state():
        [found] = availability.list_benchmarks(["sugarcrepe"])
        return next(entry.state for entry in found.configs if entry.name == "swap_obj")

    assert state() == availability.TO_DOWNLOAD
    assert server.requests == {}
    remote_sugarcrepe(tmp_path / "out")
    server.requests.clear()
    assert state() == availability.READY
    assert server.requests == {}


def missing(rows, column):
    return [row["id"] for row in rows if row[column] is None]


@pytest.mark.parametrize("status", [404, 503])
def test_a_server_that_refuses_or_is_down_is_told_with_what_to_do(status, remote_sugarcrepe, server, tmp_path):
    server.down = {"add_att.json": [status]}
    told = rf"Could not download .*data/add_att\.json .*{status}.*pass data_dir"
    Small("sugarcrepe", tmp_path).error(DownloadError, told, data_dir=None)


def test_an_image_of_cola_that_is_gone_is_missing_and_a_server_that_is_down_is_not(server, remote_cola, tmp_path):
    small = Small("cola", tmp_path)
    (tmp_path / "remote" / "vg" / "13.jpg").unlink()
    found = r"1 of 7 images .* their URLs.*13\.jpg \(for multiobjects/1\)"
    small.error(MissingSourceError, found, data_dir=None)
    assert missing(raw(small.build(data_dir=None, allow_missing=True)), "image_0") == ["multiobjects/1"]
    server.down = {"15.jpg": [503]}
    small.error(DownloadError, r"Could not download .*15\.jpg.*503", data_dir=None, allow_missing=True)


def test_a_page_in_place_of_an_image_of_cola_is_an_error_that_names_both(remote_cola, tmp_path):
    (tmp_path / "remote" / "vg" / "16.jpg").write_text("<html>Moved.</html>")
    message = r"/16\.jpg sent is not a JPEG or PNG file.*<html>.*Remove /"
    Small("cola", tmp_path).error(DataError, message, data_dir=None)


def test_annotations_beside_the_images_are_not_taken_for_unrefined_ones(remote_sugarcrepe, tmp_path):
    small = Small("sugarcrepe", tmp_path)
    shutil.copy(small.folder / "data" / "swap_obj.json", small.folder)
    found = r"data_unrefined/swap_obj\.json.*pass data_dir"
    small.error(DownloadError, found, "unrefined_swap_obj")


def test_an_archive_of_google_drive_is_unpacked_and_a_file_without_a_name_is_read(server, tmp_path, monkeypatch):
    small = Small("whats_up", tmp_path, "controlled_a")
    shutil.copy(small.folder / "controlled_images_dataset.json", tmp_path / "remote" / "download")
    shutil.make_archive(str(tmp_path / "remote" / "images"), "tar", small.folder, "controlled_images")
    rows, images = whats_up.WhatsUp.ROWS["controlled_a"], small.builder()._images()
    file = replace(rows.file, url=f"{server.url}/download?id=1")
    monkeypatch.setattr(whats_up.WhatsUp, "ROWS", {"controlled_a": replace(rows, file=file)})
    monkeypatch.setattr(whats_up.WhatsUp, "_images", lambda self: replace(images, url=f"{server.url}/images.tar"))
    assert raw(small.build(data_dir=None)) == raw(small.build())
    server.down = {"images.tar": [404]}
    monkeypatch.setattr(datasets.config, "DOWNLOADED_DATASETS_PATH", tmp_path / "empty")
    small.error(DownloadError, r"Could not download .*images\.tar .*get the archive with `gdown", data_dir=None)
    # Neither a page in its place nor half of it is kept.
    server.down, path = {}, tmp_path / "remote" / "images.tar"
    whole = path.read_bytes()
    for content, told in ((b"\n<!DOCTYPE html>", "a page in place"), (whole[:700], "images.tar"), (b"x", "no archive")):
        path.write_bytes(content)
        small.error(DownloadError, rf"Could not download .*{told}.*get the archive with `gdown", data_dir=None)
    path.write_bytes(whole)
    assert raw(small.build(data_dir=None)) == raw(small.build())
