"""The Cola builder: what a row holds, where its files come from, and how it names what is wrong."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
from collections import Counter
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import datasets
import pytest
import sources_cola as sources
from huggingface_hub import DatasetCard

from vl_assay.hub_datasets import judge, load_examples
from vl_assay.hub_datasets.cola import builder as module
from vl_assay.hub_datasets.cola.builder import Cola
from vl_assay.hub_datasets.repository import build as build_repository
from vl_assay.metrics.errors import DataError
from vl_assay.model_wrappers import score

FOLDER = Path(module.__file__).parent
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")
NAMES = sorted({name for group in sources.GROUPS for name in group[::2]})


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A user's own copy: the annotations and a folder of images."""
    folder = tmp_path / "release"
    sources.make(folder)
    return folder


@pytest.fixture
def make(tmp_path: Path):
    """Make a builder; the small files of these tests do not have the sum of the released one."""

    def make(data_dir: Path | str | None = None, **options: Any) -> Cola:
        return Cola(
            cache_dir=str(tmp_path / "cache"),
            dataset_name="cola",
            data_dir=None if data_dir is None else str(data_dir),
            **{"verify": False, **options},
        )

    return make


@pytest.fixture
def build(make, tmp_path):
    def build(*args: Any, **options: Any) -> datasets.Dataset:
        builder = make(*args, **options)
        config = datasets.DownloadConfig(cache_dir=str(tmp_path / "downloads"))
        builder.download_and_prepare(download_config=config)
        return builder.as_dataset(split="test")

    return build


class Server(SimpleHTTPRequestHandler):
    """Serves a folder, counts the files it sends, and can break off or fail."""

    def do_GET(self):
        name = self.path.rsplit("/", 1)[-1]
        state = self.server.state
        state["sent"][name] += 1
        if name in state["cut"]:
            content = Path(self.translate_path(self.path)).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        elif name in state["down"]:
            self.send_error(503)
        else:
            super().do_GET()

    def do_HEAD(self):
        if self.path.rsplit("/", 1)[-1] in self.server.state["down"]:
            self.send_error(503)
        else:
            super().do_HEAD()

    def log_message(self, *args):
        pass


@pytest.fixture
def remote(tmp_path: Path, release: Path, monkeypatch: pytest.MonkeyPatch):
    """A web server with the files of both real ones, and its state: what it sent and what it shall spoil."""
    root = tmp_path / "remote"
    handler = partial(Server, directory=str(root))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.state = {"sent": Counter(), "cut": set(), "down": set(), "root": root}
        url = f"http://127.0.0.1:{server.server_port}"
        sources.write_images(root / "vg")
        annotations = root / sources.ANNOTATIONS
        annotations.parent.mkdir()
        annotations.write_text(json.dumps(sources.rows(f"{url}/vg")), encoding="utf-8")
        monkeypatch.setattr(module, "_CHECKSUM", hashlib.sha256(annotations.read_bytes()).hexdigest())
        monkeypatch.setattr(module, "_REPOSITORY_URL", url)
        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server.state
        server.shutdown()


# What a row holds


def test_columns_and_types_are_the_documented_ones(build, release):
    features = build(release).features
    assert list(features) == [
        "id", "image_0", "filename_0", "caption_0", "image_1", "filename_1", "caption_1",
    ]  # fmt: skip
    assert all(isinstance(features.pop(f"image_{side}"), datasets.Image) for side in "01")
    assert set(map(repr, features.values())) == {repr(datasets.Value("string"))}


def test_each_image_stands_beside_its_own_caption_in_the_order_of_the_file(build, release):
    dataset = build(release)
    assert dataset["id"][:] == [f"multiobjects/{number}" for number in range(5)]
    columns = ("filename_0", "caption_0", "filename_1", "caption_1")
    assert [tuple(row[column] for column in columns) for row in dataset] == list(sources.GROUPS)


def test_image_bytes_are_those_of_the_file(build, release):
    rows = build(release)
    for side in "01":
        for row in rows.cast_column(f"image_{side}", datasets.Image(decode=False)):
            name = row[f"filename_{side}"]
            assert row[f"image_{side}"] == {"path": name, "bytes": (release / "images" / name).read_bytes()}


def test_streaming_gives_the_rows_of_the_prepared_dataset(build, make, release):
    assert list(make(release).as_streaming_dataset(split="test")) == list(build(release))


# Where files are looked for


@pytest.mark.parametrize("place", ["images", "vg_gqa_images", "VG_100K", "VG_100K_2", "."])
def test_images_are_found_in_each_documented_place(build, release, place):
    moved = release.with_name("moved")
    shutil.copytree(release / "data", moved / "data")
    shutil.copytree(release / "images", moved / place, dirs_exist_ok=True)
    assert [image.size for image in build(moved)["image_0"]] == [(32, 24)] * 5


def test_annotations_may_lie_beside_the_images(build, release):
    (release / sources.ANNOTATIONS).rename(release / Path(sources.ANNOTATIONS).name)
    assert len(build(release)) == 5


def test_data_dir_that_is_not_a_folder_is_named(make, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data_dir .*nowhere is not a folder"):
        make(tmp_path / "nowhere").download_and_prepare()


def test_without_data_dir_everything_is_downloaded_and_only_once(build, release, remote):
    first = build()
    assert remote["sent"] == Counter([*NAMES, Path(sources.ANNOTATIONS).name])
    assert [row["filename_0"] for row in first] == [group[0] for group in sources.GROUPS]
    raw = first.cast_column("image_1", datasets.Image(decode=False))
    assert raw[0]["image_1"]["bytes"] == (remote["root"] / "vg" / "12.jpg").read_bytes()
    shutil.rmtree(first.cache_files[0]["filename"].rsplit("/", 1)[0])
    assert list(build()) == list(first)
    assert max(remote["sent"].values()) == 1


def test_data_dir_without_any_image_falls_back_on_the_urls(build, release, remote):
    shutil.rmtree(release / "images")
    shutil.copy(remote["root"] / sources.ANNOTATIONS, release / sources.ANNOTATIONS)
    assert len(build(release)["image_0"]) == 5
    assert set(remote["sent"]) == set(NAMES)


def test_images_stream_from_their_urls(make, build, remote):
    assert list(make().as_streaming_dataset(split="test")) == list(build())


def test_a_download_cut_in_the_middle_is_an_error_and_done_again_next_time(build, remote):
    remote["cut"] = {"14.jpg"}
    with pytest.raises(ConnectionError, match=r"Could not download .*14\.jpg.*Try again"):
        build()
    remote["cut"] = set()
    complete = {name for name in NAMES if remote["sent"][name] == 1}
    raw = build().cast_column("image_1", datasets.Image(decode=False))
    assert raw[1]["image_1"]["bytes"] == (remote["root"] / "vg" / "14.jpg").read_bytes()
    assert complete
    assert all(remote["sent"][name] == 1 for name in complete)


def test_failed_download_says_what_to_do(make, remote):
    remote["down"] = {Path(sources.ANNOTATIONS).name}
    with pytest.raises(ConnectionError, match=r"Could not download .*COLA_.*\.json.*503.*pass data_dir"):
        make().download_and_prepare()


def test_a_server_that_is_down_is_not_taken_for_missing_images(build, remote):
    remote["down"] = {"15.jpg"}
    with pytest.raises(ConnectionError, match=r"Could not download .*15\.jpg.*503"):
        build(allow_missing=True)


def test_altered_download_is_an_error_that_names_it_whatever_verify_says(make, remote):
    with (remote["root"] / sources.ANNOTATIONS).open("a") as file:
        file.write("\n")
    with pytest.raises(ValueError, match=r"COLA_multiobjects_matching_benchmark\.json has SHA-256 .*remove /"):
        make(verify=False).download_and_prepare()


def test_a_page_in_place_of_an_image_is_an_error_that_names_both(make, remote):
    (remote["root"] / "vg" / "16.jpg").write_text("<html>Moved.</html>")
    with pytest.raises(ValueError, match=r"/16\.jpg sent is no JPEG or PNG file.*<html>.*Remove /"):
        make().download_and_prepare()


# Missing images


def test_missing_image_is_an_error_that_names_it_its_rows_and_the_cure(make, release):
    (release / "images" / "14.jpg").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        make(release).download_and_prepare()
    message = str(caught.value)
    assert "1 of 7 images are missing" in message
    assert "14.jpg (for multiobjects/1, multiobjects/3)" in message
    assert "allow_missing=True" in message
    assert "with_images=False" in message


def test_image_gone_from_the_server_is_an_error_that_names_it(make, remote):
    (remote["root"] / "vg" / "13.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of 7 images .* their URLs.*13\.jpg \(for multiobjects/1\)"):
        make().download_and_prepare()


def test_image_gone_from_the_server_may_be_allowed(build, remote):
    (remote["root"] / "vg" / "13.jpg").unlink()
    assert [image is None for image in build(allow_missing=True)["image_0"]] == [False, True, False, False, False]


def test_empty_image_file_counts_as_missing(make, release):
    (release / "images" / "12.jpg").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"12\.jpg"):
        make(release).download_and_prepare()


def test_many_missing_images_are_counted_after_the_first_five(make, release):
    for image in (release / "images").iterdir():
        image.unlink()
    with pytest.raises(FileNotFoundError, match=r"7 of 7 .*, and 2 more"):
        make(release).download_and_prepare()


def test_allowed_missing_image_keeps_its_row(build, release):
    (release / "images" / "14.jpg").unlink()
    dataset = build(release, allow_missing=True)
    assert [image is None for image in dataset["image_0"]] == [False, False, False, True, False]
    assert [image is None for image in dataset["image_1"]] == [False, True, False, False, False]


def test_text_only_needs_no_images_and_has_no_image_columns(build, release):
    shutil.rmtree(release / "images")
    dataset = build(release, with_images=False)
    assert dataset.column_names == ["id", "filename_0", "caption_0", "filename_1", "caption_1"]
    assert len(dataset) == 5


# Damaged and altered annotations


URL = sources.SERVER
ROW = [f"{URL}/1.jpg", "a", f"{URL}/2.jpg", "b"]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'[["', "not valid JSON"),
        (b'["\xff"]', "not valid JSON"),
        ({}, "dict at the top level"),
        ([], "an empty list"),
        ([ROW, ROW[:3]], "row 1: found a list of 3 instead of a row"),
        ([ROW, "text"], "row 1: found str instead of a row"),
        ([[*ROW[:3], None]], "row 0: caption_1 is NoneType, not text"),
        ([[ROW[0], " ", *ROW[2:]]], "row 0: caption_0 is empty"),
        ([[*ROW[:2], "file:///etc/hosts", "b"]], "row 0: url_1 'file:///etc/hosts' is not the http(s) URL"),
        ([[f"{URL}/..", *ROW[1:]]], "row 0: url_0"),
        ([ROW, ["https://elsewhere.org/1.jpg", *ROW[1:]]], "have the same file name"),
    ],
)
def test_damaged_annotations_are_an_error_that_names_file_and_row(make, release, content, found):
    path = release / sources.ANNOTATIONS
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(ValueError, match="Expected") as caught:
        make(release).download_and_prepare()
    assert str(path) in str(caught.value)
    assert found in str(caught.value)


def test_altered_local_file_is_an_error_with_both_sums_and_the_cure(make, release):
    payload = (release / sources.ANNOTATIONS).read_bytes()
    with pytest.raises(ValueError, match="damaged or of another release") as caught:
        make(release, verify=True).download_and_prepare()
    message = str(caught.value)
    assert str(release / sources.ANNOTATIONS) in message
    assert hashlib.sha256(payload).hexdigest() in message
    assert module._CHECKSUM in message
    assert "verify=False" in message


def test_errors_come_before_anything_is_written(make, release):
    (release / "images" / "11.jpg").unlink()
    builder = make(release)
    with pytest.raises(FileNotFoundError):
        builder.download_and_prepare()
    assert not Path(builder.cache_dir).exists()


# From sources to results


def test_repository_is_built_loaded_scored_and_judged(release, tmp_path):
    out = build_repository("cola", tmp_path / "built", data_dir=release, options={"verify": False})
    loaded = datasets.load_dataset(str(out), "multiobjects", split="test")
    streamed = datasets.load_dataset(str(out), "multiobjects", split="test", streaming=True)
    assert list(streamed) == list(loaded)
    [path] = score("mock:shuffled", [str(out)], out=tmp_path / "sheets", progress=False)
    [result] = judge([path], resamples=100)
    assert result.metric == "group_match"
    assert result.scores["n"] == 5
    assert {"text_score", "image_score", "group_score"} <= set(result.scores)


def test_a_constant_model_wins_no_group(release, tmp_path):
    options = {"verify": False}
    [path] = score("mock:constant", ["cola"], data_dir=release, options=options, out=tmp_path, progress=False)
    [result] = judge([path], resamples=100)
    assert [result.scores[f"{name}_score"] for name in ("text", "image", "group")] == [0, 0, 0]


def test_a_build_names_what_is_missing(release, tmp_path):
    (release / "images" / "17.jpg").unlink()
    with pytest.raises(DataError, match=r"cola/multiobjects: .*17\.jpg"):
        build_repository("cola", tmp_path / "built", data_dir=release, options={"verify": False})


def test_images_of_a_group_are_scored_with_both_captions(release):
    [task] = load_examples("cola", data_dir=release, options={"verify": False})
    assert [example.captions for example in task.examples] == [group[1::2] for group in sources.GROUPS]
    assert {len(example.images) for example in task.examples} == {2}


# The released file and the card


@pytest.fixture
def released(shared_data: Path, make) -> list[dict[str, str]]:
    """The rows of the real annotation file, its checksum verified."""
    builder = make(shared_data / "data" / "cola", with_images=False, verify=True)
    return list(builder.as_streaming_dataset(split="test"))


def card_table(marker: str) -> dict[str, list[str]]:
    """The cells of the table between two markers of the card, by the first cell of each line."""
    inside = CARD.split(f"<!-- {marker} -->")[1].split(f"<!-- /{marker} -->")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in inside.split("\n") if line]
    return {cells[0]: cells[1:] for cells in lines[2:]}


def bag(text: str) -> Counter[str]:
    return Counter(re.findall(r"[a-z0-9']+", text.lower()))


def linked(groups: list[set[str]]) -> list[int]:
    """Sizes of the sets of rows that hang together by shared images."""
    parts: list[tuple[set[str], int]] = []
    for images in groups:
        touching = [part for part in parts if part[0] & images]
        parts = [part for part in parts if not part[0] & images]
        parts.append((images.union(*(part[0] for part in touching)), 1 + sum(part[1] for part in touching)))
    return [size for _, size in parts]


def test_card_is_valid_and_leaves_configs_to_the_build():
    metadata = DatasetCard.load(FOLDER / "README.md", ignore_metadata_errors=False).data.to_dict()
    assert metadata["license"] == "mit"
    assert not {"configs", "dataset_info"} & set(metadata)


def test_card_counts_are_those_of_the_file(released):
    images = {row[column] for row in released for column in ("filename_0", "filename_1")}
    captions = {row[column] for row in released for column in ("caption_0", "caption_1")}
    cells = ["test", f"{len(released):,}", f"{len(images):,}", f"{len(captions):,}"]
    assert card_table("counts") == {"multiobjects": cells}
    assert len(released) == 210


def test_card_states_how_rows_share_images_and_words(released):
    pairs = Counter((row["filename_0"], row["filename_1"]) for row in released)
    uses = Counter(row[column] for row in released for column in ("filename_0", "filename_1"))
    parts = linked([{row["filename_0"], row["filename_1"]} for row in released])
    captions = Counter(row[column] for row in released for column in ("caption_0", "caption_1"))
    right = {(row[f"filename_{side}"], row[f"caption_{side}"]) for row in released for side in "01"}
    wrong = {(row[f"filename_{side}"], row[f"caption_{1 - int(side)}"]) for row in released for side in "01"}
    texts = Counter(image for image, _ in right)
    facts = {
        "different pairs of images": len(pairs),
        "rows whose pair of images occurs once": sum(count == 1 for count in pairs.values()),
        "most rows with the same pair of images": max(pairs.values()),
        "rows that share an image with another row": sum(
            max(uses[row["filename_0"]], uses[row["filename_1"]]) > 1 for row in released
        ),
        "most rows with the same image": max(uses.values()),
        "sets of rows that hang together by shared images": len(parts),
        "rows in the largest such set": max(parts),
        "images described by more than one caption": sum(count > 1 for count in texts.values()),
        "most places with the same caption": max(captions.values()),
        "rows whose captions are the same bag of words": sum(
            bag(row["caption_0"]) == bag(row["caption_1"]) for row in released
        ),
        "captions right for an image in one row and wrong in another": len(right & wrong),
        "rows that occur twice, in either order": len(released)
        - len({frozenset((row[f"filename_{s}"], row[f"caption_{s}"]) for s in "01") for row in released}),
    }
    assert card_table("facts") == {name: [str(value)] for name, value in facts.items()}


def test_card_shows_a_row_of_the_file(released):
    row = released[108]
    assert all(repr(value) in CARD for value in row.values())


def test_released_file_is_prepared_as_well_as_streamed(build, shared_data, released):
    assert list(build(shared_data / "data" / "cola", with_images=False, verify=True)) == released


def test_released_images_all_come_from_one_server(shared_data):
    rows = json.loads((shared_data / "data" / "cola" / Path(sources.ANNOTATIONS).name).read_text("utf-8"))
    assert {row[place].rsplit("/", 1)[0] for row in rows for place in (0, 2)} == {sources.SERVER}
    assert sources.SERVER in CARD
