"""Tables of captions: every format gives the same rows, columns are found, and what cannot be used is named."""

import json

import pytest
from audit_support import write_table

from vl_assay.hub_datasets.authoring.data.pairs import Pair, read_pairs
from vl_assay.hub_datasets.authoring.data.sources import Captioned, read_captions
from vl_assay.metrics.common.errors import DataError, UnknownNameError

ROWS = [
    {"filename": "a.jpg", "caption": " A cat on a mat.", "negative_caption": "A mat on a cat."},
    {"filename": "sub/b.jpg", "caption": "A dog\tby\na car", "negative_caption": 'A car, by "a" dog.'},
]


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl", "x.parquet", "list.json", "x.json"])
def test_every_format_gives_the_same_texts_exactly_as_typed(name, tmp_path):
    path = write_table(tmp_path / name, ROWS)
    assert read_pairs(path) == [
        Pair(f"{path.stem}/{n}", row["filename"], row["caption"], row["negative_caption"], path.stem)
        for n, row in enumerate(ROWS)
    ]
    captions = [Captioned(str(n), str(tmp_path / row["filename"]), row["caption"]) for n, row in enumerate(ROWS)]
    assert read_captions(path) == captions
    assert read_captions(path, limit=1) == captions[:1]


def test_a_folder_of_files_has_a_category_for_each_and_its_name_in_the_ids(tmp_path):
    for name in ("swap.json", "add.csv"):
        write_table(tmp_path / name, ROWS)
    pairs = read_pairs(tmp_path)
    names = ["add/0", "add/1", "swap/0", "swap/1"]
    assert [(pair.id, pair.category) for pair in pairs] == [(name, name.partition("/")[0]) for name in names]
    assert [caption.id for caption in read_captions(tmp_path)] == names


def test_columns_are_the_users_where_they_are_named(tmp_path):
    rows = [{"right": "a cat", "wrong": ["a dog", "a cow"], "photo": 7, "what": "noun", "key": "x", "caption": "z"}]
    path = write_table(tmp_path / "list.json", rows)
    columns = {"positive": "right", "negative": "wrong", "image": "photo", "category": "what", "id": "key"}
    pairs = [Pair(f"x#{n}", "7", "a cat", text, "noun") for n, text in enumerate(["a dog", "a cow"])]
    assert read_pairs(path, columns=columns) == pairs
    columns = {"caption": "wrong", "id": "key"}
    assert read_captions(path, columns=columns) == [Captioned("x#0", "", "a dog"), Captioned("x#1", "", "a cow")]


def test_a_column_is_of_one_field_and_images_may_be_addresses(tmp_path):
    rows = [{"positive_caption": "a cat", "hard_negative": "a dog", "image": "https://x.org/1.jpg"}]
    path = write_table(tmp_path / "x.jsonl", rows)
    assert read_pairs(path) == [Pair("x/0", "https://x.org/1.jpg", "a cat", "a dog", "x")]
    assert read_captions(path) == [Captioned("0", "https://x.org/1.jpg", "a cat")]
    path = write_table(tmp_path / "y.jsonl", [{"caption": "a dog", "text": "a cat"}])
    assert read_pairs(path, columns={"negative": "caption"}) == [Pair("y/0", "", "a cat", "a dog", "y")]


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([{"sense": "a", "other": "b"}], {}, "columns sense, other, and none .* positive or the negative; .*=sense"),
        ([{"caption": "a", "negative": "b"}], {"positive": "title"}, "no column 'title'; it has caption, negative"),
        ([{"caption": "a", "negative": None}], {}, "row 0 has None in 'negative'"),
        ([{"caption": "a"}, {"caption": "a", "negative": "b"}], {}, "row 0 has None in 'negative'"),
        ([{"caption": "a", "negative": float("nan")}], {}, "row 0 has nan in 'negative'"),
        ([{"caption": "a", "negative": []}], {}, r"row 0 has \[\] in 'negative'"),
        ([{"caption": ["a", "b"], "negative": "c"}], {}, "row 0 has several captions"),
        ([{"caption": " ", "negative": "b"}], {}, "row 0 has ' ' in 'caption'"),
        ([{"id": 1, "caption": "a", "negative": "b"}] * 2, {}, "the id comes more than once in 1"),
        ([{"id": 1, "caption": "a", "negative": "b"}, {"caption": "a", "negative": "b"}], {}, "row 1 has no 'id'"),
        ([{"caption": "a \ud83d", "negative": "b"}], {}, r"'x/0' has '\\ud83d', which is half a character"),
        (["a", "b"], {}, "row 0 is 'a'; expected an object"),
        ([], {}, "has no row"),
        (7, {}, "holds a int at the top"),
    ],
)
def test_what_cannot_be_used_is_named_and_never_dropped(rows, columns, message, tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(rows))
    with pytest.raises(DataError, match=message):
        read_pairs(tmp_path / "x.json", columns=columns)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.parquet", b"no table", "cannot be read"),
        ("x.csv", b'positive,negative\n"' + b"a " * 100_000, "line 2: field larger .*; close the quotation mark"),
        ("x.xml", b"<x/>", r"ends in '\.xml'; captions are read from \.json"),
    ],
)
def test_damaged_and_unknown_files_are_errors(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    for read in (read_pairs, read_captions):
        with pytest.raises(DataError, match=message):
            read(tmp_path / name)


def test_what_is_not_there_is_told_with_what_may_be_named(tmp_path):
    path = write_table(tmp_path / "x.json", ROWS)
    (tmp_path / "empty").mkdir()
    for read in (read_pairs, read_captions):
        with pytest.raises(DataError, match="no benchmark, file or folder"):
            read(tmp_path / "nothing")
        with pytest.raises(DataError, match=r"has no metadata\.csv"):
            read(tmp_path / "empty")
        with pytest.raises(DataError, match="expected hf://datasets/OWNER/NAME"):
            read("hf://owner/name")
        with pytest.raises(UnknownNameError, match=r"unknown column 'title'; known: .*image"):
            read(path, columns={"title": "caption"})
    with pytest.raises(DataError, match="which has no split"):
        read_captions(path, split="test")
