"""The Winoground builder: what a row holds, how it gets at gated files, and how it names what is wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sources_winoground as sources
from huggingface_hub import DatasetCard
from huggingface_hub.utils import GatedRepoError, RepositoryNotFoundError

from vl_assay.hub_datasets import judge, load_examples
from vl_assay.hub_datasets.repository import build as build_repository
from vl_assay.hub_datasets.winoground import builder as module
from vl_assay.hub_datasets.winoground.builder import Winoground, WinogroundConfig
from vl_assay.metrics.errors import DataError
from vl_assay.model_wrappers import score

FOLDER = Path(module.__file__).parent
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")
TAGS_FILE = "new_tag_assignments.json"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A user's own copy: JSON lines, a folder of images, and the file of tags."""
    folder = tmp_path / "release"
    sources.make(folder)
    return folder


@pytest.fixture
def make(tmp_path: Path):
    """Make a builder; the small files of these tests have not as many examples as the released ones."""

    def make(data_dir: Path | str | None = None, **options: Any) -> Winoground:
        return Winoground(
            cache_dir=str(tmp_path / "cache"),
            dataset_name="winoground",
            data_dir=None if data_dir is None else str(data_dir),
            **{"verify": False, **options},
        )

    return make


@pytest.fixture
def build(make):
    def build(*args: Any, **options: Any) -> datasets.Dataset:
        builder = make(*args, **options)
        builder.download_and_prepare()
        return builder.as_dataset(split="test")

    return build


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

    monkeypatch.setattr(module, "_TAGS_CHECKSUM", hashlib.sha256(payload).hexdigest())
    monkeypatch.setattr(datasets.DownloadManager, "download", download)
    return asked


def refusal(kind: Any) -> Any:
    """An error of the Hub without the response that its constructor asks for."""
    return type(kind.__name__, (kind,), {"__init__": Exception.__init__})("403 Client Error")


def files_of(dataset: datasets.Dataset) -> list[tuple[Any, Any]]:
    raw = dataset
    for side in "01":
        raw = raw.cast_column(f"image_{side}", datasets.Image(decode=False))
    return [(row["image_0"], row["image_1"]) for row in raw]  # type: ignore[index]


EXPECTED_FILES = [
    tuple({"path": f"ex_{number}_img_{side}.png", "bytes": content[f"ex_{number}_img_{side}.png"]} for side in "01")
    for content in [sources.images()]
    for number in range(len(sources.PAIRS))
]


# What a row holds


def test_columns_and_types_are_the_documented_ones(build, release):
    features = build(release).features
    assert list(features) == [
        "id", "category", "image_0", "filename_0", "caption_0", "image_1", "filename_1", "caption_1",
        "tag", "secondary_tag", "num_main_preds", "tags",
    ]  # fmt: skip
    assert all(isinstance(features[f"image_{side}"], datasets.Image) for side in "01")
    assert features["num_main_preds"] == datasets.Value("int32")


def test_each_image_stands_beside_its_own_caption_with_both_sets_of_tags(build, release):
    rows = list(build(release))
    assert [row["id"] for row in rows] == [f"winoground/{number}" for number in range(5)]
    assert [(r["caption_0"], r["caption_1"], r["category"], r["tags"]) for r in rows] == list(sources.PAIRS)
    assert [(r["filename_0"], r["filename_1"]) for r in rows][3] == ("ex_3_img_0.png", "ex_3_img_1.png")
    assert [r["secondary_tag"] for r in rows] == ["", "", "", "", "Pragmatics"]
    assert [r["num_main_preds"] for r in rows] == [1, 2, 1, 2, 1]
    assert files_of(build(release)) == EXPECTED_FILES


def test_streaming_gives_the_same_rows(make, build, release):
    assert list(make(release).as_streaming_dataset(split="test")) == list(build(release))


@pytest.mark.parametrize("place", ["data", "."])
@pytest.mark.parametrize("layout", ["parquet", "archive", "flat archive", "folder", "unpacked archive"])
def test_every_layout_of_a_copy_gives_the_same_rows(build, release, tmp_path, place, layout):
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
    found = build(copy)
    assert list(found.remove_columns(["image_0", "image_1"])) == list(
        build(release).remove_columns(["image_0", "image_1"])
    )
    assert files_of(found) == EXPECTED_FILES


def test_parquet_without_paths_gives_the_images_the_names_of_the_release(build, tmp_path):
    sources.write_parquet(tmp_path / "copy", shards=1)
    path = tmp_path / "copy" / "test-00000-of-00001.parquet"
    records = pq.read_table(path).to_pylist()
    for record in records:
        record["image_0"]["path"] = None
        record["image_1"]["path"] = "somewhere/ex_1.png"
    schema = pq.read_schema(path)
    pq.write_table(pa.Table.from_pylist(records, schema=schema), path)
    sources.write_tags(tmp_path / "copy")
    row = build(tmp_path / "copy")[2]
    assert (row["filename_0"], row["filename_1"]) == ("ex_2_img_0.png", "ex_1.png")


def test_text_only_needs_no_images_and_has_no_image_columns(build, release):
    shutil.rmtree(release / "data" / "images")
    dataset = build(release, with_images=False)
    assert not {"image_0", "image_1"} & set(dataset.column_names)
    assert len(dataset) == 5


def test_without_tags_no_file_of_tags_is_needed(build, release):
    (release / TAGS_FILE).unlink()
    dataset = build(release, with_tags=False)
    assert "tags" not in dataset.column_names
    assert dataset["category"][4] == "Both"


# From the Hub


def test_without_a_copy_the_examples_come_from_the_hub_at_the_pinned_revision(build, hub, tags_online):
    sources.write_parquet(hub.root / "data")
    assert files_of(build()) == EXPECTED_FILES
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


def test_a_revision_without_parquet_is_read_in_its_older_layout(build, hub, tags_online, tmp_path):
    sources.write_texts(hub.root / "data")
    sources.write_images(tmp_path / "photos" / "images")
    shutil.make_archive(str(hub.root / "data" / "images"), "zip", tmp_path / "photos")
    assert files_of(build(revision="main")) == EXPECTED_FILES
    assert [call["allow_patterns"] for call in hub.calls] == [
        ["data/test-*.parquet"],
        ["data/examples.jsonl", "data/images.zip"],
    ]
    assert {call["revision"] for call in hub.calls} == {"main"}


def test_the_token_of_load_dataset_is_passed_on(make, hub, tags_online):
    sources.write_parquet(hub.root / "data")
    make().download_and_prepare(download_config=datasets.DownloadConfig(token="hf_mine"))
    assert hub.calls[0]["token"] == "hf_mine"


def test_a_copy_with_only_the_tags_is_completed_from_the_hub(build, hub, release):
    shutil.rmtree(release / "data")
    sources.write_parquet(hub.root / "data")
    assert build(release)["tags"][:] == [pair[3] for pair in sources.PAIRS]


def test_a_local_copy_asks_nothing_of_the_hub(build, hub, release):
    build(release)
    assert hub.calls == []


@pytest.mark.parametrize("kind", [GatedRepoError, RepositoryNotFoundError])
def test_without_access_the_error_says_exactly_what_to_do(make, hub, tags_online, kind):
    hub.refusal = refusal(kind)
    with pytest.raises(PermissionError) as caught:
        make().download_and_prepare()
    message = str(caught.value)
    assert "https://huggingface.co/datasets/facebook/winoground and accept its terms" in message
    assert "hf auth login" in message
    assert "pass data_dir, a folder that holds data/test-*.parquet, or data/examples.jsonl" in message


def test_a_build_without_access_fails_with_the_same_words(hub, tags_online, tmp_path):
    hub.refusal = refusal(GatedRepoError)
    with pytest.raises(DataError, match=r"winoground/winoground: The Hub gives no access.*accept its terms.*login"):
        build_repository("winoground", tmp_path / "built")


def test_failed_download_is_told_from_a_lack_of_access(make, hub, tags_online):
    hub.refusal = OSError("no route to host")
    with pytest.raises(ConnectionError, match=r"Could not download facebook/winoground .*OSError: no route.*data_dir"):
        make().download_and_prepare()


def test_offline_without_a_cache_is_a_failed_download(make, release):
    shutil.rmtree(release / "data")
    with pytest.raises(ConnectionError, match=r"Could not download facebook/winoground at revision 5a77092"):
        make(release).download_and_prepare()


def test_a_revision_with_neither_layout_is_an_error(make, hub, tags_online):
    with pytest.raises(ConnectionError, match=r"at revision main has neither data/test-\*\.parquet nor data/examples"):
        make(revision="main").download_and_prepare()


def test_a_download_cut_between_two_files_is_an_error(make, hub, tags_online):
    sources.write_parquet(hub.root / "data")
    (hub.root / "data" / "test-00001-of-00002.parquet").unlink()
    with pytest.raises(ConnectionError, match="1 of 2 Parquet files"):
        make().download_and_prepare()


def test_failed_download_of_tags_says_what_to_do(make, release, monkeypatch):
    (release / TAGS_FILE).unlink()

    def download(self: Any, url: str) -> str:
        raise OSError("no route to host")

    monkeypatch.setattr(datasets.DownloadManager, "download", download)
    with pytest.raises(ConnectionError, match=r"why-winoground-hard.*holds new_tag_assignments\.json, or with_tags"):
        make(release).download_and_prepare()


def test_altered_download_of_tags_is_an_error_whatever_verify_says(make, release, tags_online, monkeypatch):
    (release / TAGS_FILE).unlink()
    monkeypatch.setattr(module, "_TAGS_CHECKSUM", "0" * 64)
    with pytest.raises(ValueError, match=r"raw\.githubusercontent.* has SHA-256 .*force_redownload"):
        make(release, verify=False).download_and_prepare()


# Missing images


def test_missing_image_is_an_error_that_names_it_its_example_and_the_cure(make, release):
    (release / "data" / "images" / "ex_1_img_1.png").unlink()
    (release / "data" / "images" / "ex_2_img_0.png").write_bytes(b"")
    with pytest.raises(FileNotFoundError) as caught:
        make(release).download_and_prepare()
    message = str(caught.value)
    assert "2 of 10 images are missing" in message
    assert "ex_1_img_1.png (for example 1), ex_2_img_0.png (for example 2)" in message
    assert "allow_missing=True" in message
    assert "with_images=False" in message


def test_missing_images_of_parquet_are_seen_before_anything_is_written(make, tmp_path):
    copy = tmp_path / "copy"
    sources.write_parquet(copy, shards=1)
    sources.write_tags(copy)
    path = copy / "test-00000-of-00001.parquet"
    table = pq.read_table(path)
    records = table.to_pylist()
    records[4]["image_1"] = None
    pq.write_table(pa.Table.from_pylist(records, schema=table.schema), path)
    builder = make(copy)
    with pytest.raises(FileNotFoundError, match=r"1 of 10 .*ex_4_img_1\.png"):
        builder.download_and_prepare()
    assert not Path(builder.cache_dir).exists()


def test_many_missing_images_are_counted_after_the_first_five(make, release):
    shutil.rmtree(release / "data" / "images")
    with pytest.raises(FileNotFoundError, match=r"10 of 10 .*, and 5 more"):
        make(release).download_and_prepare()


def test_allowed_missing_image_keeps_its_row(build, release):
    (release / "data" / "images" / "ex_1_img_1.png").unlink()
    dataset = build(release, allow_missing=True)
    assert [image is None for image in dataset["image_1"]] == [False, True, False, False, False]
    assert None not in dataset["image_0"][:]


# Damaged and altered files


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"id": "1"}, "id is '1', no whole number from 0"),
        ({"id": 0}, "id 0 occurs twice"),
        ({"id": -1}, "id is -1, no whole number from 0"),
        ({"caption_0": None}, "caption_0 is None, not text"),
        ({"caption_1": ""}, "caption_1 is empty"),
        ({"num_main_preds": True}, "num_main_preds is True, no whole number"),
        ({"image_0": "../ex_1_img_0"}, "image_0 '../ex_1_img_0' names no file"),
        ({"collapsed_tag": None}, "collapsed_tag is None, not text"),
    ],
)
def test_a_damaged_example_is_an_error_that_names_file_and_row(make, release, change, found):
    path = release / "data" / "examples.jsonl"
    lines = sources.examples()
    lines[1] |= change
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with pytest.raises(ValueError, match="row 1: ") as caught:
        make(release).download_and_prepare()
    assert str(path) in str(caught.value)
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "holds no example"),
        (b"[1]", "row 0: found list instead of an example"),
        (b'{"id": 0}', "row 0: num_main_preds is missing; caption_0 is missing"),
        (b'{"id"', "is no file of JSON lines"),
        (b"\xff", "is no file of JSON lines"),
    ],
)
def test_damaged_texts_are_an_error_that_names_the_file(make, release, content, found):
    (release / "data" / "examples.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=r"Expected|Get it") as caught:
        make(release).download_and_prepare()
    assert "examples.jsonl" in str(caught.value)
    assert found in str(caught.value)


@pytest.mark.parametrize(("name", "found"), [("test-0.parquet", "no Parquet file"), ("images.zip", "no zip archive")])
def test_a_file_of_another_format_is_an_error_that_names_it(make, release, name, found):
    shutil.rmtree(release / "data" / "images")
    (release / "data" / name).write_bytes(b"<html>")
    with pytest.raises(ValueError, match=rf"{name} is {found}.*Get it from https"):
        make(release).download_and_prepare()


def test_verify_asks_for_all_examples_and_known_categories(make, release, monkeypatch):
    with pytest.raises(ValueError, match=r"SHA-256 .*8a635dac.*verify=False"):
        make(release, verify=True).download_and_prepare()
    with pytest.raises(ValueError, match=r"5 examples, but the release has 400.*verify=False"):
        make(release, verify=True, with_tags=False).download_and_prepare()
    lines = sources.examples()
    lines[2]["collapsed_tag"] = "Neither"
    (release / "data" / "examples.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with pytest.raises(ValueError, match=r"row 2: collapsed_tag is 'Neither', not one of Object, Relation, Both"):
        make(release, verify=True, with_tags=False).download_and_prepare()


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ([], "list at the top level"),
        ({"0": "Unusual Text"}, "'0': found 'Unusual Text'"),
        ({"0": ["Unusual"]}, "'0': found ['Unusual']"),
        ({"0": [], "1": []}, "lacks 3 of 5 examples, such as 2, 3, 4"),
    ],
)
def test_damaged_tags_are_an_error(make, release, tags, found):
    (release / TAGS_FILE).write_text(json.dumps(tags), encoding="utf-8")
    with pytest.raises(ValueError, match=TAGS_FILE) as caught:
        make(release).download_and_prepare()
    assert found in str(caught.value)


def test_data_dir_that_is_no_folder_is_an_error(make, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
        make(tmp_path / "nowhere").download_and_prepare()


# From sources to results


def test_repository_is_built_loaded_scored_and_judged_by_both_sets_of_tags(release, tmp_path):
    out = build_repository("winoground", tmp_path / "built", data_dir=release, options={"verify": False})
    loaded = datasets.load_dataset(str(out), "winoground", split="test")
    streamed = datasets.load_dataset(str(out), "winoground", split="test", streaming=True)
    assert list(streamed) == list(loaded)
    [path] = score("mock:shuffled", [str(out)], out=tmp_path / "sheets", progress=False)
    [result] = judge([path], resamples=100)
    assert result.metric == "group_match"
    assert result.scores["n"] == 5
    assert {"text_score", "image_score", "group_score"} <= set(result.scores)
    assert {name: part["n"] for name, part in result.scores["per_category"].items()} == {
        "Object": 3, "Relation": 1, "Both": 1, **dict.fromkeys(module.TAGS[1:], 1),
    }  # fmt: skip


def test_a_constant_model_wins_no_group(release, tmp_path):
    options = {"verify": False}
    [path] = score("mock:constant", ["winoground"], data_dir=release, options=options, out=tmp_path, progress=False)
    [result] = judge([path], resamples=100)
    assert [result.scores[f"{name}_score"] for name in ("text", "image", "group")] == [0, 0, 0]


def test_images_of_a_group_are_scored_with_both_captions(release):
    [task] = load_examples("winoground", data_dir=release, options={"verify": False})
    assert [example.captions for example in task.examples] == [pair[:2] for pair in sources.PAIRS]
    assert {len(example.images) for example in task.examples} == {2}


# The released file of tags and the card


@pytest.fixture
def released_tags(shared_data: Path) -> dict[str, list[str]]:
    """The real tags, their checksum verified."""
    path = shared_data / "data" / "winoground" / TAGS_FILE
    payload = path.read_bytes()
    module._check_sum(payload, str(path), "replace it")
    return module._parse_tags(payload, str(path))


def card_table(marker: str) -> dict[str, list[str]]:
    """The cells of the table between two markers of the card, by the first cell of each line."""
    inside = CARD.split(f"<!-- {marker} -->")[1].split(f"<!-- /{marker} -->")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in inside.split("\n") if line]
    return {cells[0]: cells[1:] for cells in lines[2:]}


def test_card_counts_are_those_of_the_released_tags(released_tags):
    counts = Counter(label for labels in released_tags.values() for label in labels)
    tagged = sum(map(bool, released_tags.values()))
    facts = {**counts, "at least one of them": tagged, "none": 400 - tagged, "all": len(released_tags)}
    assert card_table("tags") == {name: [str(value)] for name, value in facts.items()}
    assert set(counts) == set(module.TAGS)
    assert set(released_tags) == set(map(str, range(400)))
    assert repr(released_tags["36"]) in CARD
    assert f"Diwan et al. tag {tagged} of the 400 examples" in CARD


def test_the_released_tags_join_all_examples_of_a_whole_release(build, shared_data, tmp_path, released_tags):
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copyfile(shared_data / "data" / "winoground" / TAGS_FILE, copy / TAGS_FILE)
    [pattern] = sources.examples()[:1]
    lines = [json.dumps({**pattern, "id": number}) for number in range(400)]
    (copy / "examples.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows = build(copy, with_images=False, verify=True)
    assert rows["tags"][:] == [released_tags[str(number)] for number in range(400)]
    assert sum(map(bool, rows["tags"][:])) == 228


def test_card_is_valid_and_leaves_configs_to_the_build():
    metadata = DatasetCard.load(FOLDER / "README.md", ignore_metadata_errors=False).data.to_dict()
    assert metadata["license"] == "other"
    assert not {"configs", "dataset_info"} & set(metadata)


def test_card_lists_columns_options_and_sources(build, release):
    assert all(column in CARD for column in build(release).column_names)
    options = {field.name for field in dataclasses.fields(WinogroundConfig)} - {
        field.name for field in dataclasses.fields(datasets.BuilderConfig)
    }
    assert options == {"with_images", "with_tags", "allow_missing", "verify", "revision"}
    assert all(f"`{option}=" in CARD for option in options)
    assert all(fact in CARD for fact in (module._REVISION, module._TAGS_COMMIT, module._TAGS_CHECKSUM))
