"""Sources in order: the next is taken where one fails, with the reason; mirrors of the Hub give the release's rows."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import sources_aro
from builder_support import Small, raw
from file_server import FileServer, serving
from hub_server import HubServer, serving_hub
from parquet_sources import noise_files, stored_images, write_parquet

from vl_assay.hub_datasets import build
from vl_assay.hub_datasets.aro.release import FILES, MIRRORS
from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.core.repository import read_build
from vl_assay.hub_datasets.retrieval.karpathy import SOURCES
from vl_assay.hub_datasets.sources import image_archives
from vl_assay.hub_datasets.sources.downloads import DownloadError, NoSourceError
from vl_assay.hub_datasets.sugarcrepe.builder import SugarCrepe
from vl_assay.hub_datasets.sugarcrepe.release import MIRROR
from vl_assay.metrics.common.errors import DataError

CONFIG = "swap_obj"


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A web server of `tmp_path/remote`; nothing is kept yet."""
    monkeypatch.setattr(image_archives, "SECONDS_BEFORE_RETRY", 0.01)
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    (tmp_path / "remote").mkdir()
    with serving(tmp_path / "remote") as server:
        yield server


@pytest.fixture
def hub(tmp_path, monkeypatch, server):
    (tmp_path / "hub").mkdir()
    with serving_hub(tmp_path / "hub", monkeypatch) as hub:
        yield hub


@pytest.fixture
def small(tmp_path, server, hub, monkeypatch) -> Small:
    """SugarCrepe's captions in a folder, its photographs in an archive on a server, and both in a mirror."""
    small = Small("sugarcrepe", tmp_path, CONFIG)
    with zipfile.ZipFile(tmp_path / "remote" / "val2017.zip", "w") as archive:
        for path in sorted((small.folder / "val2017").iterdir()):
            archive.write(path, f"val2017/{path.name}")
    rows = [
        {"images": (small.folder / "val2017" / row["filename"]).read_bytes(), **row}
        for path in sorted((small.folder / "data").iterdir())
        for row in json.loads(path.read_text()).values()
    ]
    write_parquet(hub.folder / MIRROR.table.repository / "data", "train", rows[::-1], ["images"], shards=2)
    (small.folder / "val2017").rename(tmp_path / "photographs")
    archive = image_archives.ImageArchive("coco/val2017", f"{server.url}/val2017.zip", "val2017/")
    monkeypatch.setattr(SugarCrepe, "IMAGES", replace(SugarCrepe.IMAGES, archives=(archive,)))
    return small


def mirrored(hub: HubServer) -> list[Any]:
    return stored_images(hub.folder / MIRROR.table.repository, {"images": "{filename}"})


def fail_to_be_had(hub: HubServer) -> None:
    hub.down = {path.name: [404] for path in (hub.folder / MIRROR.table.repository / "data").iterdir()}


@pytest.mark.parametrize("status", [403, 404, 429])
def test_a_mirror_takes_the_place_of_an_archive_that_cannot_be_had_and_gives_the_same_rows(
    status: int, small: Small, server: FileServer, hub: HubServer
):
    expected = raw(small.build())
    assert not hub.requests
    shutil.rmtree(image_archives.images_folder())
    server.down = {"val2017.zip": [status]}
    told = rf"images: Could not download .*val2017\.zip .*{status}.* Taken from {MIRROR.table.source} instead\."
    with pytest.warns(UserWarning, match=told):
        assert raw(small.build()) == expected
    assert hub.revisions == [MIRROR.table.revision]


def test_if_no_source_can_be_had_every_one_is_told_with_its_reason(small, server, hub):
    server.down = {"val2017.zip": [404]}
    fail_to_be_had(hub)
    listed = (
        rf"None of the 2 sources of images .*\(1\) {server.url}/val2017\.zip: .*404.*\(2\) {MIRROR.table.source}: .*"
    )
    with pytest.raises(NoSourceError, match=listed) as caught:
        small.rows()
    assert caught.value.url == f"{server.url}/val2017.zip or {MIRROR.table.source}"
    assert "pass data_dir" in str(caught.value)


def test_an_image_of_which_the_mirror_has_no_text_is_missing(small, server, hub):
    server.down = {"val2017.zip": [404]}
    data = small.folder / "data" / f"{CONFIG}.json"
    records = json.loads(data.read_text())
    for record in records.values():
        if record["filename"] == "000000000003.jpg":
            record["caption"] = "words that the mirror lacks"
    data.write_text(json.dumps(records))
    with (
        pytest.warns(UserWarning, match="Taken from"),
        pytest.raises(MissingSourceError, match=r"1 of 6 images .*000000000003\.jpg"),
    ):
        small.rows()
    with pytest.warns(UserWarning, match="Taken from"):
        assert [row["filename"] for row in small.rows(allow_missing=True) if row["image"] is None] == [
            "000000000003.jpg"
        ]


def test_a_build_records_its_sources_and_what_is_different_in_a_mirror(small, server, hub, tmp_path):
    def made(name: str) -> tuple[list[str], str]:
        options = {"data_dir": small.folder, "options": small.options}
        out = build("sugarcrepe", tmp_path / name, configs=[CONFIG], **options)
        return read_build(out)["sources"][CONFIG], (out / "README.md").read_text()

    sources, card = made("archive")
    assert sources == [f"images: the archive {server.url}/val2017.zip"]
    assert f"- {sources[0]} (`{CONFIG}`)" in card
    # Two of the six photographs that are kept have other pixels in the mirror, and one text has another form there.
    for image, content in zip(mirrored(hub)[:2], noise_files(2, "JPEG"), strict=True):
        image.write_bytes(content)
    data = small.folder / "data" / f"{CONFIG}.json"
    data.write_text(data.read_text().replace("a ", "A ", 1))
    server.down = {"val2017.zip": [404]}
    [kept] = image_archives.images_folder().rglob("*.000000000000.jpg")
    kept.write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="Taken from"):
        [source], card = made("mirror")
    assert source in card
    assert source == (
        f"images: {MIRROR.table.source}, by the texts of their rows (of 6 rows 5 have the same text there, 1 the same "
        "but for cleaning, 0 none; of 5 images that were also fetched from the release 2 have other pixels)"
    )


def test_the_users_own_images_are_no_source_to_record(small, tmp_path):
    (tmp_path / "photographs").rename(small.folder / "val2017")
    out = build("sugarcrepe", tmp_path / "out", configs=[CONFIG], data_dir=small.folder, options=small.options)
    assert "sources" not in read_build(out)
    assert str(tmp_path) not in (out / "README.md").read_text() + (out / "build.json").read_text()


# The order tasks and retrieval: cleaned captions


def cleaned(caption: str) -> str:
    """As the code of retrieval cleans captions, before it cuts them."""
    return " ".join(caption.lower().replace(".", " ").split())


@pytest.mark.parametrize(("config", "name"), [("coco_order", "coco"), ("flickr30k_order", "flickr30k")])
def test_photographs_of_the_order_tasks_are_found_by_their_cleaned_captions(
    config, name, tmp_path, server, hub, monkeypatch
):
    small, mirror = Small("aro", tmp_path, config), SOURCES[name].mirror
    expected = small.rows()
    entries = json.loads((small.folder / SOURCES[name].file.name).read_text())
    rows = [
        {"images": (small.folder / entry["image"]).read_bytes(), "correct_caption": cleaned(caption)}
        for entry in entries
        for caption in entry["caption"]
    ]
    write_parquet(hub.folder / mirror.table.repository / "data", "test", rows, ["images"])
    shutil.rmtree(small.folder / Path(entries[0]["image"]).parent)
    archives = [replace(archive, url=f"{server.url}/none.zip", singly="") for archive in SOURCES[name].archives]
    monkeypatch.setitem(SOURCES, name, SOURCES[name]._replace(archives=tuple(archives)))
    if archives:
        with pytest.warns(UserWarning, match=r"none\.zip .*404"):
            assert small.rows() == expected
    else:
        assert small.rows() == expected


# ARO's relations and attributes: rows and photographs


@pytest.fixture
def aro(tmp_path, hub) -> Small:
    """ARO's small release, and mirrors of it, whose rows have other numbers and whose images no names."""
    small = Small("aro", tmp_path)
    for config, table in MIRRORS.items():
        rows = [
            {
                "image": (small.folder / "images" / row["image_path"]).read_bytes(),
                "bbox": {side: float(row[f"bbox_{side}"]) for side in "xywh"},
                **{
                    key: row[key]
                    for key in ("true_caption", "false_caption", "relation_name", "attributes")
                    if key in row
                },
            }
            for row in json.loads((small.folder / FILES[config]).read_text())
        ]
        write_parquet(hub.folder / table.repository / "data", "test", rows, ["image"], shards=3)
    return small


def clusters(rows: list[dict[str, Any]]) -> list[int]:
    """Of each row the number of its photograph, in the order in which they come."""
    seen: dict[str, int] = {}
    return [seen.setdefault(row["filename"], len(seen)) for row in rows]


@pytest.mark.parametrize("config", ["vg_relation", "vg_attribution"])
@pytest.mark.parametrize("crop", [True, False])
def test_a_mirror_of_aro_gives_the_rows_crops_and_clusters_of_the_release(config, crop, aro):
    expected, found = aro.rows(config, crop=crop), aro.rows(config, crop=crop, data_dir=None)
    assert [row["image"]["bytes"] for row in found] == [row["image"]["bytes"] for row in expected]
    assert clusters(found) == clusters(expected)
    assert len(set(clusters(found))) == sources_aro.IMAGES
    other = ("image", "filename")
    assert [{k: v for k, v in row.items() if k not in other} for row in found] == [
        {k: v for k, v in row.items() if k not in other} for row in expected
    ]


def test_a_mirror_of_aro_of_another_form_or_number_of_rows_is_named(aro, hub):
    message = r"ARO-Visual-Relation.* has 12 rows, but the release has 23,937"
    aro.error(DataError, message, data_dir=None, verify=True)
    hub.down = {path.name: [404] for path in (hub.folder / "mteb" / "ARO-Visual-Attribution" / "data").iterdir()}
    aro.error(DownloadError, r"ARO-Visual-Attribution .*pass data_dir", "vg_attribution", data_dir=None)


def test_an_image_that_a_mirror_of_aro_lacks_is_named_by_its_rows(aro, hub):
    stored_images(hub.folder / "mteb" / "ARO-Visual-Relation", {"image": "x"})[2].unlink()
    aro.error(MissingSourceError, r"1 of 6 images are missing .*\(for vg_relation/2\)", data_dir=None)
    rows = aro.rows(data_dir=None, allow_missing=True)
    assert [row["id"] for row in rows if row["image"] is None] == ["vg_relation/2"]
