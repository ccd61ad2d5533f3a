"""Builders on Parquet files with images inside: from the user's folder, and from a server that acts as the Hub."""

import shutil
import zipfile
from typing import ClassVar

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builder_support import Small, raw
from hub_server import COMMIT, HubServer, serving_hub
from parquet_sources import noise_files, stored_images, write_parquet

from vl_assay.hub_datasets.core.benchmarks import get_builder
from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.sources.builders import HubConfig, ReleasedRows, Rows, make_configs
from vl_assay.hub_datasets.sources.columns import columns
from vl_assay.hub_datasets.sources.downloads import DownloadError
from vl_assay.hub_datasets.sources.hub_tables import HubTable
from vl_assay.hub_datasets.sources.stored_images import image_address, read_stored
from vl_assay.metrics.common.errors import DataError

REVISION = "a" * 40
TABLE = HubTable("someone/pairs", "data/test-*.parquet", {"image": "{id}.png", "other": "{row:02}_other.png"}, REVISION)
FILES = noise_files(14)
ROWS = [
    {"id": f"x{n}", "image": FILES[2 * n], "caption": f"one {n}", "other": FILES[2 * n + 1], "unknown": n}
    for n in range(7)
]


class Pairs(ReleasedRows):
    BUILDER_CONFIGS: ClassVar = make_configs(HubConfig, "Pairs", ["pairs"])
    BUILDER_CONFIG_CLASS = HubConfig
    IS_DOWNLOADED = True
    ROWS: ClassVar = {"pairs": Rows(TABLE, {"id": str, "image": str, "caption": str, "other": str}, 7)}

    def _columns(self):
        return columns("id image_0 filename_0 image_1 filename_1 caption")

    def _rows(self, part, key, record):
        yield {
            "id": f"{part}/{key}",
            "filename_0": record["image"],
            "filename_1": record["other"],
            "caption": record["caption"],
        }


@pytest.fixture
def repository(tmp_path):
    """A dataset in three files on the Hub, in row groups of two."""
    folder = tmp_path / "hub" / "someone" / "pairs"
    write_parquet(folder / "data", "test", ROWS, ["image", "other"], shards=3)
    write_parquet(folder / "data", "train", ROWS[:1], ["image", "other"])
    return folder


@pytest.fixture
def hub(repository, monkeypatch):
    with serving_hub(repository.parents[1], monkeypatch) as server:
        yield server


@pytest.fixture
def builder(tmp_path):
    return lambda data_dir=None, **options: Pairs(
        cache_dir=str(tmp_path / "cache"), data_dir=None if data_dir is None else str(data_dir), **options
    )


def rows_of(builder):
    return raw(builder.as_streaming_dataset(split="test"))


@pytest.mark.parametrize("place", ["pairs/data", "."])
def test_rows_have_the_bytes_in_the_files_and_the_declared_names(place, repository, tmp_path, builder):
    target = tmp_path / "copy" / place
    target.parent.mkdir(parents=True, exist_ok=True)
    (repository / "data").rename(target)
    rows = rows_of(builder(tmp_path / "copy"))
    assert [row["id"] for row in rows] == [f"pairs/{n}" for n in range(7)]
    assert [row["image_0"] for row in rows] == [{"path": f"x{n}.png", "bytes": FILES[2 * n]} for n in range(7)]
    assert [row["image_1"] for row in rows] == [
        {"path": f"{n:02}_other.png", "bytes": FILES[2 * n + 1]} for n in range(7)
    ]


def test_files_of_the_hub_are_fetched_at_the_pinned_revision_once_and_then_found_offline(
    hub, repository, builder, monkeypatch
):
    expected = rows_of(builder(repository))
    assert hub.requests == {}
    assert rows_of(builder()) == expected
    assert hub.revisions == [REVISION]
    fetched = {name for method, name in hub.requests if method == "GET"}
    assert fetched == {f"test-{n:05}-of-00003.parquet" for n in range(3)}  # not those of another split
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    before = hub.requests.copy()
    assert rows_of(builder()) == expected
    assert hub.requests == before


def test_what_has_arrived_is_kept_when_a_download_fails(hub, builder):
    hub.down = {"test-00002-of-00003.parquet": [404]}
    with pytest.raises(DownloadError, match=r"someone/pairs .*data_dir, a folder with the files data/test") as caught:
        rows_of(builder())
    assert caught.value.url == f"{hub.url}/datasets/someone/pairs"
    hub.down = {}
    before = hub.requests["GET", "test-00000-of-00003.parquet"]
    assert len(rows_of(builder())) == 7
    assert hub.requests["GET", "test-00000-of-00003.parquet"] == before == 1


def test_a_gated_dataset_needs_a_login_which_is_explained_and_works(hub, builder, monkeypatch):
    hub.gated = {"someone/pairs"}
    with pytest.raises(
        MissingSourceError, match=rf"log in at {hub.url}/datasets/someone/pairs and accept its terms.*hf auth login"
    ):
        rows_of(builder())
    with pytest.raises(MissingSourceError):
        builder().download_and_prepare(download_config=datasets.DownloadConfig(token="hf_of_nobody"))
    builder().download_and_prepare(download_config=datasets.DownloadConfig(token=HubServer.TOKEN))
    monkeypatch.setenv("HF_TOKEN", HubServer.TOKEN)
    assert len(rows_of(builder())) == 7


def test_a_hub_that_is_offline_or_lacks_the_files_is_a_failed_download(hub, repository, builder, monkeypatch):
    (repository / "data").rename(repository / "old")
    with pytest.raises(DownloadError, match=r"no files data/test.* pass another revision"):
        rows_of(builder())
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match="pass data_dir") as caught:
        rows_of(builder(revision="never-fetched"))
    assert "no files" not in str(caught.value)


def test_a_copy_that_lacks_one_of_several_files_is_refused(repository, builder):
    (repository / "data" / "test-00001-of-00003.parquet").unlink()
    for options in ({}, {"verify": False}):
        with pytest.raises(DataError, match=r"holds 2 Parquet files and lacks test-00001-of-00003.parquet"):
            rows_of(builder(repository, **options))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"caption": None}, r"has the columns id, image, other, unknown, and lacks caption"),
        ({"image": pa.array(["a.png"] * 7)}, r"the column image is of the type string. Expected images: a struct"),
        ({"caption": pa.array(["a"] * 6 + [None])}, r"row 6: caption is None. Expected \{id: str"),
        ({"id": pa.array(["x"] * 7)}, r"row 1: the image x.png occurs twice"),
        ({"id": pa.array([f"../{n}" for n in range(7)])}, r"does not lead to a file in a folder"),
    ],
)
def test_a_table_of_another_form_is_named(changes, message, tmp_path, builder):
    write_parquet(tmp_path / "data", "test", ROWS, ["image", "other"])
    [path] = (tmp_path / "data").iterdir()
    table = pq.read_table(path)
    for name, column in changes.items():
        index = table.schema.get_field_index(name)
        table = table.remove_column(index) if column is None else table.set_column(index, name, column)
    pq.write_table(table, path)
    with pytest.raises(DataError, match=message) as caught:
        rows_of(builder(tmp_path))
    assert str(path) in str(caught.value)


def test_a_column_of_lists_with_one_image_each_is_read_too(tmp_path, builder):
    write_parquet(tmp_path, "test", ROWS, ["image", "other"])
    [path] = tmp_path.glob("*.parquet")
    expected = rows_of(builder(tmp_path))
    table = pq.read_table(path)
    cells = pa.array([[cell] for cell in table["image"].to_pylist()], pa.list_(table.schema.field("image").type))
    pq.write_table(table.set_column(table.schema.get_field_index("image"), "image", cells), path)
    assert rows_of(builder(tmp_path)) == expected


def test_images_without_bytes_are_named_with_their_rows(repository, builder):
    stored_images(repository / "data", TABLE.images, "test-*")[4].unlink()
    with pytest.raises(DataError, match=r"1 images are damaged: x2.png \(for pairs/2\)"):
        rows_of(builder(repository))
    rows = rows_of(builder(repository, allow_missing=True))
    assert [row["id"] for row in rows if row["image_0"] is None] == ["pairs/2"]


def test_a_file_that_is_replaced_is_read_anew(tmp_path):
    for rows in (ROWS, ROWS[::-1]):
        write_parquet(tmp_path, "test", rows, ["image", "other"])
        [path] = tmp_path.glob("*.parquet")
        assert read_stored(image_address(path, "image", 0)) == rows[0]["image"]


@pytest.mark.parametrize("name", ["mmvp_vlm/pairs", "conme/replace_rel", "coco_cf/pairs", "spec/count_t2i"])
def test_a_release_on_the_hub_is_fetched_and_unpacked_as_far_as_it_is_read(name, tmp_path, monkeypatch):
    name, config = name.split("/")
    small = Small(name, tmp_path, config)
    release = get_builder(name).RELEASE
    folder = tmp_path / "hub" / release.repository
    shutil.copytree(small.folder, folder)
    (folder / "unread.pkl").touch()
    for pattern in (release.rows, release.images):
        if pattern.endswith(".zip"):
            inner = {"data/images.zip": "data/images"}.get(pattern)
            files = sorted(path for path in (folder / inner if inner else folder).rglob("*") if path.is_file())
            with zipfile.ZipFile(folder / pattern, "w") as archive:
                for path in files:
                    archive.write(path, path.relative_to((folder / pattern).parent))
                    path.unlink()
    expected = raw(small.builder().as_streaming_dataset(split="test"))
    with serving_hub(tmp_path / "hub", monkeypatch) as hub:
        text = small.builder(data_dir=None, with_images=False)
        text.download_and_prepare()
        assert list(text.as_dataset(split="test")["id"]) == [row["id"] for row in expected]
        builder = small.builder(data_dir=None)
        builder.download_and_prepare()
        requested = {path for method, path in hub.requests if method == "GET"}
    assert raw(builder.as_dataset(split="test")) == expected
    assert "unread.pkl" not in requested
    commit = release.revision if len(release.revision) == 40 else COMMIT
    assert builder.sources == [
        f"rows and images: {hub.url}/datasets/{release.repository}/tree/{commit}".replace("datasets/conme", "conme")
    ]


def test_images_of_a_folder_without_annotations_are_read_and_not_fetched(tmp_path, monkeypatch):
    small = Small("coco_cf", tmp_path, "pairs")
    expected = raw(small.builder().as_streaming_dataset(split="test"))
    released = tmp_path / "hub" / get_builder("coco_cf").RELEASE.repository / "data"
    released.mkdir(parents=True)
    shutil.move(small.folder / "data" / "examples.jsonl", released)
    with serving_hub(tmp_path / "hub", monkeypatch):
        builder = small.builder()
        builder.download_and_prepare()
    assert raw(builder.as_dataset(split="test")) == expected
