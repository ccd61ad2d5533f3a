"""The Winoground builder: what a row holds, how it gets at gated files, and how it names what is wrong."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sources_winoground as sources
from builder_support import Small, raw
from huggingface_hub.utils import GatedRepoError, RepositoryNotFoundError

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.core.build import build as build_repository
from vl_assay.hub_datasets.winoground import builder as module
from vl_assay.model_wrappers import score

TAGS_FILE = "new_tag_assignments.json"


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small("winoground", tmp_path)


class Hub:
    """Stands for the gated repository: what lies there, what was asked of it, and how it refuses."""

    def __init__(self, root: Path) -> None:
        self.root, self.cache = root, root.parent / "hub-cache"
        self.calls: list[dict[str, Any]] = []
        self.refusal: Exception | None = None

    def snapshot_download(self, repo_id: str, *, allow_patterns: list[str], **options: Any) -> str:
        self.calls.append({"repo_id": repo_id, "allow_patterns": allow_patterns, **options})
        if self.refusal is not None:
            raise self.refusal
        self.cache.mkdir(exist_ok=True)
        for pattern in allow_patterns:
            for path in self.root.glob(pattern):
                (self.cache / "data").mkdir(exist_ok=True)
                shutil.copyfile(path, self.cache / "data" / path.name)
        return str(self.cache)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub(tmp_path / "hub")
    hub.root.mkdir()
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
    return hub


@pytest.fixture
def tags_online(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Downloads of tags give the small file; the list grows by what is asked for."""
    sources.write_tags(tmp_path)
    payload = (tmp_path / TAGS_FILE).read_bytes()
    asked: list[str] = []

    def download(self: Any, url: str) -> str:
        asked.append(url)
        return str(tmp_path / TAGS_FILE)

    checksum = f"sha256:{hashlib.sha256(payload).hexdigest()}"
    monkeypatch.setattr(module, "TAGS_FILE", replace(module.TAGS_FILE, checksum=checksum))
    monkeypatch.setattr(datasets.DownloadManager, "download", download)
    return asked


def refusal(kind: Any) -> Any:
    """An error of the Hub without the response that its constructor asks for."""
    return type(kind.__name__, (kind,), {"__init__": Exception.__init__})("403 Client Error")


def files_of(rows: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(row["image_0"], row["image_1"]) for row in rows]


EXPECTED_FILES = [
    tuple({"path": f"ex_{number}_img_{side}.png", "bytes": content[f"ex_{number}_img_{side}.png"]} for side in "01")
    for content in [sources.images()]
    for number in range(len(sources.PAIRS))
]


def test_each_image_stands_beside_its_own_caption_with_both_sets_of_tags(small):
    rows = list(small.build())
    assert [row["id"] for row in rows] == [f"winoground/{number}" for number in range(5)]
    assert [(r["caption_0"], r["caption_1"], r["category"], r["tags"]) for r in rows] == list(sources.PAIRS)
    assert [(r["filename_0"], r["filename_1"]) for r in rows][3] == ("ex_3_img_0.png", "ex_3_img_1.png")
    assert [r["secondary_tag"] for r in rows] == ["", "", "", "", "Pragmatics"]
    assert [r["num_main_preds"] for r in rows] == [1, 2, 1, 2, 1]
    assert files_of(small.rows()) == EXPECTED_FILES


@pytest.mark.parametrize("place", ["data", "."])
@pytest.mark.parametrize("layout", ["parquet", "archive", "flat archive", "folder", "unpacked archive"])
def test_every_layout_of_a_copy_gives_the_same_rows(small, tmp_path, place, layout):
    copy = tmp_path / "copy"
    folder = copy / place
    if layout == "parquet":
        sources.write_parquet(folder)
    else:
        sources.write_texts(folder)
    if "archive" in layout:
        sources.write_images(tmp_path / "photos" / "images")
        root = tmp_path / "photos" / ("images" if layout == "flat archive" else "")
        shutil.make_archive(str(folder / "images"), "zip", root)
    if layout == "folder":
        sources.write_images(folder / "images")
    if layout == "unpacked archive":
        with zipfile.ZipFile(folder / "images.zip") as archive:
            archive.extractall(folder / "images")
        (folder / "images.zip").unlink()
    sources.write_tags(copy)
    assert small.rows(data_dir=copy) == small.rows()


def test_parquet_without_paths_gives_the_images_the_names_of_the_release(small, tmp_path):
    sources.write_parquet(tmp_path / "copy", shards=1)
    path = tmp_path / "copy" / "test-00000-of-00001.parquet"
    records = pq.read_table(path).to_pylist()
    for record in records:
        record["image_0"]["path"] = None
        record["image_1"]["path"] = "somewhere/ex_1.png"
    schema = pq.read_schema(path)
    pq.write_table(pa.Table.from_pylist(records, schema=schema), path)
    sources.write_tags(tmp_path / "copy")
    row = small.build(data_dir=tmp_path / "copy")[2]
    assert (row["filename_0"], row["filename_1"]) == ("ex_2_img_0.png", "ex_1.png")


def test_without_tags_no_file_of_tags_is_needed(small):
    (small.folder / TAGS_FILE).unlink()
    dataset = small.build(with_tags=False)
    assert "tags" not in dataset.column_names
    assert dataset["category"][4] == "Both"


def test_without_a_copy_the_examples_come_from_the_hub_at_the_pinned_revision(small, hub, tags_online):
    sources.write_parquet(hub.root / "data")
    assert files_of(raw(small.build(data_dir=None))) == EXPECTED_FILES
    [call] = hub.calls
    assert call == {
        "repo_id": "facebook/winoground",
        "repo_type": "dataset",
        "revision": "5a77092c28e51558c5586e9c5eb71a7e17a5e43f",
        "allow_patterns": ["data/test-*.parquet"],
        "token": None,
    }
    assert tags_online == [
        "https://raw.githubusercontent.com/ajd12342/why-winoground-hard/"
        "2b1611c419ba3b9d0029dd4b64a315f3ef778c4e/new_tag_assignments.json"
    ]


def test_a_revision_without_parquet_is_read_in_its_older_layout(small, hub, tags_online, tmp_path):
    sources.write_texts(hub.root / "data")
    sources.write_images(tmp_path / "photos" / "images")
    shutil.make_archive(str(hub.root / "data" / "images"), "zip", tmp_path / "photos")
    assert files_of(raw(small.build(data_dir=None, revision="main"))) == EXPECTED_FILES
    assert [call["allow_patterns"] for call in hub.calls] == [
        ["data/test-*.parquet"],
        ["data/examples.jsonl", "data/images.zip"],
    ]
    assert {call["revision"] for call in hub.calls} == {"main"}


def test_the_token_of_load_dataset_is_passed_on(small, hub, tags_online):
    sources.write_parquet(hub.root / "data")
    small.builder(data_dir=None).download_and_prepare(download_config=datasets.DownloadConfig(token="hf_mine"))
    assert hub.calls[0]["token"] == "hf_mine"


def test_a_copy_with_only_the_tags_is_completed_from_the_hub(small, hub):
    shutil.rmtree(small.folder / "data")
    sources.write_parquet(hub.root / "data")
    assert small.build()["tags"][:] == [pair[3] for pair in sources.PAIRS]


@pytest.mark.parametrize("kind", [GatedRepoError, RepositoryNotFoundError])
def test_without_access_the_error_says_exactly_what_to_do(small, hub, tags_online, kind):
    hub.refusal = refusal(kind)
    message = small.error(PermissionError, None, data_dir=None)
    assert "https://huggingface.co/datasets/facebook/winoground and accept its terms" in message
    assert "hf auth login" in message
    assert "pass data_dir, a folder that holds data/test-*.parquet, or data/examples.jsonl" in message


def test_failed_download_is_told_from_a_lack_of_access(small, hub, tags_online):
    hub.refusal = OSError("no route to host")
    small.error(
        ConnectionError, r"Could not download .*facebook/winoground .*OSError: no route.*data_dir", data_dir=None
    )


def test_offline_without_a_cache_is_a_failed_download(small):
    shutil.rmtree(small.folder / "data")
    small.error(ConnectionError, r"Could not download .*facebook/winoground at revision 5a77092")


def test_a_revision_with_neither_layout_is_an_error(small, hub, tags_online):
    small.error(
        ConnectionError,
        r"at revision main has neither data/test-\*\.parquet nor data/examples",
        data_dir=None,
        revision="main",
    )


def test_a_download_cut_between_two_files_is_an_error(small, hub, tags_online):
    sources.write_parquet(hub.root / "data")
    (hub.root / "data" / "test-00001-of-00002.parquet").unlink()
    small.error(ConnectionError, "1 of 2 Parquet files", data_dir=None)


def test_altered_download_of_tags_is_an_error_whatever_verify_says(small, tags_online, monkeypatch):
    (small.folder / TAGS_FILE).unlink()
    monkeypatch.setattr(module, "TAGS_FILE", replace(module.TAGS_FILE, checksum="sha256:0"))
    small.error(ValueError, r"raw\.githubusercontent.* has SHA-256 ", verify=False)


def test_missing_images_of_parquet_are_seen_before_anything_is_written(small, tmp_path):
    copy = tmp_path / "copy"
    sources.write_parquet(copy, shards=1)
    sources.write_tags(copy)
    path = copy / "test-00000-of-00001.parquet"
    table = pq.read_table(path)
    records = table.to_pylist()
    records[4]["image_1"] = None
    pq.write_table(pa.Table.from_pylist(records, schema=table.schema), path)
    builder = small.builder(data_dir=copy)
    with pytest.raises(FileNotFoundError, match=r"1 of 10 .*ex_4_img_1\.png"):
        builder.download_and_prepare()
    assert not Path(builder.cache_dir).exists()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"id": "1"}, "id is '1'"),
        ({"id": 0}, "id 0 occurs twice"),
        ({"id": -1}, "id is empty or negative"),
        ({"caption_0": None}, "caption_0 is None"),
        ({"caption_1": ""}, "caption_1 is empty"),
        ({"num_main_preds": True}, "num_main_preds is True"),
        ({"image_0": "../ex_1_img_0"}, "image_0 '../ex_1_img_0' names no file"),
        ({"collapsed_tag": None}, "collapsed_tag is None"),
    ],
)
def test_a_damaged_example_is_an_error_that_names_file_and_row(small, change, found):
    path = small.folder / "data" / "examples.jsonl"
    lines = sources.examples()
    lines[1] |= change
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    message = small.error(ValueError, "row 1: ")
    assert str(path) in message
    assert found in message


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "holds 0 examples"),
        (b"[1]", "row 0: found [1]"),
        (b'{"id": 0}', "row 0: num_main_preds is None"),
        (b'{"id"', "is not a JSON-lines file"),
        (b"\xff", "is not a JSON-lines file"),
    ],
)
def test_damaged_texts_are_an_error_that_names_the_file(small, content, found):
    (small.folder / "data" / "examples.jsonl").write_bytes(content)
    assert found in small.error(ValueError, r"examples\.jsonl.*(Expected|[Gg]et it)")


@pytest.mark.parametrize(
    ("name", "found"), [("test-0.parquet", "not a Parquet file"), ("images.zip", "not a zip archive")]
)
def test_a_file_of_another_format_is_an_error_that_names_it(small, name, found):
    shutil.rmtree(small.folder / "data" / "images")
    (small.folder / "data" / name).write_bytes(b"<html>")
    small.error(ValueError, rf"{name} is {found}.*Get it from https")


def test_verify_asks_for_all_examples_and_known_categories(small, monkeypatch):
    small.error(ValueError, r"SHA-256 .*8a635dac.*verify=False", verify=True)
    small.error(ValueError, r"5 examples, but the release has 400.*verify=False", verify=True, with_tags=False)
    lines = sources.examples()
    lines[2]["collapsed_tag"] = "Neither"
    (small.folder / "data" / "examples.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    small.error(
        ValueError,
        r"row 2: collapsed_tag is 'Neither', not one of Object, Relation, Both",
        verify=True,
        with_tags=False,
    )


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ([], "holds nothing"),
        ({"0": "Unusual Text"}, "0 is 'Unusual Text'"),
        ({"0": ["Unusual"]}, "found the tag 'Unusual'"),
        ({"0": [], "1": []}, "lacks 3 of 5 examples, such as 2, 3, 4"),
    ],
)
def test_damaged_tags_are_an_error(small, tags, found):
    (small.folder / TAGS_FILE).write_text(json.dumps(tags), encoding="utf-8")
    assert found in small.error(ValueError, TAGS_FILE)


def test_a_repository_is_scored_and_judged_by_both_sets_of_tags(small, tmp_path):
    out = build_repository("winoground", tmp_path / "built", data_dir=small.folder, options={"verify": False})
    [path] = score("mock:shuffled", [str(out)], out=tmp_path / "predictions", progress=False)
    [result] = report([path], resamples=100)
    assert result.metric == "group_match"
    assert result.scores["n"] == 5
    assert {"text_score", "image_score", "group_score"} <= set(result.scores)
    assert {name: part["n"] for name, part in result.scores["per_category"].items()} == {
        "Object": 3, "Relation": 1, "Both": 1, **dict.fromkeys(module.TAGS[1:], 1),
    }  # fmt: skip


@pytest.fixture
def released_tags(shared_data: Path) -> dict[str, list[str]]:
    """The released tags, verified by their checksum."""
    payload, _ = module.TAGS_FILE.read(shared_data / "data" / "winoground")
    return json.loads(payload)


def test_the_released_tags_join_all_examples_of_a_whole_release(small, shared_data, tmp_path, released_tags):
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copyfile(shared_data / "data" / "winoground" / TAGS_FILE, copy / TAGS_FILE)
    [pattern] = sources.examples()[:1]
    lines = [json.dumps({**pattern, "id": number}) for number in range(400)]
    (copy / "examples.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows = small.build(data_dir=copy, with_images=False, verify=True)
    assert rows["tags"][:] == [released_tags[str(number)] for number in range(400)]
    assert sum(map(bool, rows["tags"][:])) == 228
