"""The Cola builder: what a row holds, where its files come from, and how it names what is wrong."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import datasets
import pytest
import sources_cola as sources
from builder_support import Small, card_table

from vl_assay.hub_datasets import load_examples
from vl_assay.hub_datasets.cola import builder as module

FOLDER = Path(module.__file__).parent
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small("cola", tmp_path)


def test_columns_and_types_are_the_documented_ones(small):
    features = small.build().features
    assert list(features) == [
        "id", "image_0", "filename_0", "caption_0", "image_1", "filename_1", "caption_1",
    ]  # fmt: skip
    assert all(isinstance(features.pop(f"image_{side}"), datasets.Image) for side in "01")
    assert set(map(repr, features.values())) == {repr(datasets.Value("string"))}


def test_each_image_stands_beside_its_own_caption_in_the_order_of_the_file(small):
    dataset = small.build()
    assert dataset["id"][:] == [f"multiobjects/{number}" for number in range(5)]
    columns = ("filename_0", "caption_0", "filename_1", "caption_1")
    assert [tuple(row[column] for column in columns) for row in dataset] == list(sources.GROUPS)


def test_image_bytes_are_those_of_the_file(small):
    for row in small.rows():
        for side in "01":
            name = row[f"filename_{side}"]
            assert row[f"image_{side}"] == {"path": name, "bytes": (small.folder / "images" / name).read_bytes()}


URL = sources.SERVER
ROW = [f"{URL}/1.jpg", "a", f"{URL}/2.jpg", "b"]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'[["', "not valid JSON"),
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
def test_damaged_annotations_are_an_error_that_names_file_and_row(small, content, found):
    path = small.folder / sources.ANNOTATIONS
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    message = small.error(ValueError, "Expected")
    assert str(path) in message
    assert found in message


def test_images_of_a_group_are_scored_with_both_captions(small):
    [task] = load_examples("cola", data_dir=small.folder, options={"verify": False})
    assert [example.captions for example in task.examples] == [group[1::2] for group in sources.GROUPS]
    assert {len(example.images) for example in task.examples} == {2}


@pytest.fixture
def released(small, shared_data: Path):
    """The rows of the real annotation file, its checksum verified."""
    return small.rows(data_dir=shared_data / "data" / "cola", with_images=False, verify=True)


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


def test_card_counts_are_those_of_the_file(released):
    images = {row[column] for row in released for column in ("filename_0", "filename_1")}
    captions = {row[column] for row in released for column in ("caption_0", "caption_1")}
    cells = ["test", f"{len(released):,}", f"{len(images):,}", f"{len(captions):,}"]
    assert card_table("cola", "counts") == {"multiobjects": cells}
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
    assert card_table("cola", "facts") == {name: [str(value)] for name, value in facts.items()}


def test_card_shows_a_row_of_the_file(released):
    row = released[108]
    assert all(repr(value) in CARD for value in row.values())


def test_released_images_all_come_from_one_server(shared_data):
    rows = json.loads((shared_data / "data" / "cola" / Path(sources.ANNOTATIONS).name).read_text("utf-8"))
    assert {row[place].rsplit("/", 1)[0] for row in rows for place in (0, 2)} == {sources.SERVER}
    assert sources.SERVER in CARD
