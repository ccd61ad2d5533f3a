"""Pairs of a caption and a hard negative: where they come from, what is refused, and that what is written is read."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vl_assay.hub_datasets import build, get_benchmark
from vl_assay.hub_datasets.authoring.data.pairs import Pair, has_pairs, read_pairs, write_pairs
from vl_assay.hub_datasets.authoring.text.normalising import normalise
from vl_assay.metrics.common.errors import DataError, UnknownNameError

ROWS = [
    {"filename": "a.jpg", "caption": " A cat on a mat.", "negative_caption": "A mat on a cat."},
    {"filename": "b.jpg", "caption": "A dog\tby a car", "negative_caption": 'A car, by "a" dog.'},
]
EXPECTED = [
    Pair(f"swap/{n}", row["filename"], row["caption"], row["negative_caption"], "swap") for n, row in enumerate(ROWS)
]


def write_csv(delimiter):
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(ROWS[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(ROWS)
    return buffer.getvalue().encode()


def parquet(rows):
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue().to_pybytes()


FILES = {
    "swap.json": json.dumps({"0": ROWS[0], "1": ROWS[1]}).encode(),
    "swap.jsonl": "\n".join(map(json.dumps, ROWS)).encode(),
    "swap.csv": write_csv(","),
    "swap.tsv": write_csv("\t"),
    "swap.parquet": parquet(ROWS),
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_pairs_exactly_as_typed(name, tmp_path):
    (tmp_path / name).write_bytes(FILES[name])
    assert read_pairs(tmp_path / name) == EXPECTED


def test_a_list_of_rows_in_json_is_read_as_well(tmp_path):
    (tmp_path / "swap.json").write_text(json.dumps(ROWS))
    assert read_pairs(tmp_path / "swap.json") == EXPECTED


def test_a_folder_of_files_has_a_category_for_each(tmp_path):
    for name in ("swap.json", "add.json"):
        (tmp_path / name).write_bytes(FILES["swap.json"])
    pairs = read_pairs(tmp_path)
    assert [(pair.id, pair.category) for pair in pairs] == [
        ("add/0", "add"), ("add/1", "add"), ("swap/0", "swap"), ("swap/1", "swap"),
    ]  # fmt: skip


def test_columns_are_mapped_by_hand_where_their_names_say_nothing(tmp_path):
    rows = [{"right": "a cat", "wrong": ["a dog", "a cow"], "photo": 7, "what": "noun", "key": "x"}]
    (tmp_path / "mine.json").write_text(json.dumps(rows))
    columns = {"positive": "right", "negative": "wrong", "image": "photo", "category": "what", "id": "key"}
    assert read_pairs(tmp_path / "mine.json", columns=columns) == [
        Pair("x#0", "7", "a cat", "a dog", "noun"),
        Pair("x#1", "7", "a cat", "a cow", "noun"),
    ]


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (
            [{"sense": "a", "other": "b"}],
            {},
            "columns sense, other, and none is known to be the positive or the negative",
        ),
        ([{"caption": "a", "negative": "b"}], {"positive": "title"}, "no column 'title'; it has caption, negative"),
        ([{"caption": "a", "negative": None}], {}, "row 0 has None in 'negative'"),
        ([{"caption": "a"}, {"caption": "a", "negative": "b"}], {}, "row 0 has None in 'negative'"),
        ([{"caption": "a", "negative": float("nan")}], {}, "row 0 has nan in 'negative'"),
        ([{"caption": "a", "negative": []}], {}, r"row 0 has \[\] in 'negative'"),
        ([{"caption": ["a", "b"], "negative": "c"}], {}, "row 0 has several captions"),
        ([{"caption": " ", "negative": "b"}], {}, "row 0 has ' ' in 'caption'"),
        ([{"id": 1, "caption": "a", "negative": "b"}] * 2, {}, "the id comes more than once in 1"),
        ([{"id": 1, "caption": "a", "negative": "b"}, {"caption": "a", "negative": "b"}], {}, "row 1 has no 'id'"),
        ([{"id": None, "caption": "a", "negative": "b"}], {}, "row 0 has no 'id'"),
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


def test_damaged_and_unknown_files_are_errors(tmp_path):
    (tmp_path / "x.json").write_text('{"0": {}, "0": {}}')
    with pytest.raises(DataError, match="key '0' comes twice"):
        read_pairs(tmp_path / "x.json")
    (tmp_path / "x.parquet").write_bytes(b"no table")
    with pytest.raises(DataError, match="cannot be read"):
        read_pairs(tmp_path / "x.parquet")
    (tmp_path / "x.jsonl").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        read_pairs(tmp_path / "x.jsonl")
    (tmp_path / "x.xml").write_text("<x/>")
    with pytest.raises(DataError, match=r"ends in '\.xml'; captions are read from \.json"):
        read_pairs(tmp_path / "x.xml")
    with pytest.raises(DataError, match="no benchmark, file or folder"):
        read_pairs(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"expected hf://datasets/OWNER/NAME"):
        read_pairs("hf://owner/name")
    (tmp_path / "x.json").write_text(json.dumps(ROWS))
    with pytest.raises(UnknownNameError, match="positive"):
        read_pairs(tmp_path / "x.json", columns={"caption": "a"})


def test_a_benchmark_gives_its_pairs_with_the_ids_of_its_predictions():
    pairs = read_pairs("toy_scenes/itm")
    assert len(pairs) == 7000
    assert pairs[0].id == "test-000000/add_att"
    assert len({pair.image for pair in pairs}) == 1000
    assert {pair.category for pair in pairs} == {
        "add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj",
    }  # fmt: skip


def test_a_row_with_several_negatives_or_true_captions_gives_several_pairs():
    order = read_pairs("toy_scenes/order")
    assert [pair.id for pair in order[:4]] == [f"test-000000#{number}" for number in range(4)]
    assert len({pair.positive for pair in order[:4]}) == 1
    hard = read_pairs("toy_scenes/hard_positives")
    # Both true captions are set against the one negative.
    assert hard[0].negative == hard[1].negative
    assert hard[0].positive != hard[1].positive
    assert len(hard) == 8000


def test_a_whole_benchmark_leaves_out_what_has_no_pairs_and_says_so():
    with pytest.warns(UserWarning, match="left out, as they have no pairs: groups, detection, vqa"):
        pairs = read_pairs("toy_scenes")
    assert len(pairs) == 7000 + 8000 + 4000
    assert {pair.id.partition("/")[0] for pair in pairs} == {"itm", "hard_positives", "order"}
    assert {pair.category for pair in pairs if "/" not in pair.category} == {"order"}


@pytest.mark.parametrize("part", ["groups", "vqa", "detection", "retrieval"])
def test_tasks_that_are_no_blind_pairs_are_refused(part):
    with pytest.raises(DataError, match=f"toy_scenes/{part} has no pairs of a caption"):
        read_pairs(f"toy_scenes/{part}")


def test_columns_of_a_benchmark_cannot_be_mapped():
    with pytest.raises(DataError, match="leave out --column positive"):
        read_pairs("toy_scenes/itm", columns={"positive": "caption"})


def test_a_built_folder_is_read_as_the_benchmark(tmp_path):
    build("toy_scenes", tmp_path / "toy", configs=["itm"], options={"train_scenes": 0})
    assert read_pairs(tmp_path / "toy") == read_pairs("toy_scenes/itm")


def test_files_of_the_release_are_read_as_the_benchmark_is(shared_data):
    folder = shared_data / "data" / "sugarcrepe"
    of_files = read_pairs(folder / "data")
    assert len(of_files) == 7511
    assert sorted(of_files) == sorted(read_pairs("sugarcrepe", data_dir=folder))


def test_which_tasks_have_pairs():
    tasks = {task.name: has_pairs(task) for task in get_benchmark("toy_scenes").tasks}
    assert tasks == {
        "itm": True, "hard_positives": True, "order": True, "groups": False, "detection": False, "vqa": False,
        "retrieval": False, "sets": True,
    }  # fmt: skip


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)


@settings(max_examples=30)
@given(st.lists(st.tuples(TEXT, TEXT, st.text("abc./", max_size=5)), min_size=1, max_size=5))
@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "swap.json"])
def test_what_is_written_is_read_again(name, tmp_path_factory, texts):
    pairs = [Pair(f"swap/{n}", image, *captions, "swap") for n, (*captions, image) in enumerate(texts)]
    path = tmp_path_factory.mktemp("pairs") / name
    write_pairs(pairs, path)
    assert read_pairs(path) == pairs


def test_sugarcrepes_layout_is_written_without_the_name_in_the_keys(tmp_path):
    write_pairs(EXPECTED, tmp_path / "swap.json")
    assert json.loads((tmp_path / "swap.json").read_text("utf-8")) == {"0": ROWS[0], "1": ROWS[1]}
    with pytest.raises(DataError, match="2 came; write a file for each"):
        write_pairs([EXPECTED[0], EXPECTED[1]._replace(category="add")], tmp_path / "swap.json")
    with pytest.raises(DataError, match="2 pairs came with 1 different ids"):
        write_pairs([EXPECTED[0], EXPECTED[1]._replace(id="0")], tmp_path / "swap.json")
    with pytest.raises(DataError, match=r"ends in '\.xlsx'"):
        write_pairs(EXPECTED, tmp_path / "swap.xlsx")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("  A dog , by a  “red” car.\n", 'a dog, by a "red" car'),
        ("TV on a stand.", "TV on a stand"),
        ("What? A cat!", "what? A cat"),
        ("a dog – a cat...", "a dog - a cat"),
        ("A", "a"),
        ("", ""),
        ("It’s 5.5 metres", "it's 5.5 metres"),
    ],
)
def test_normalisation_is_the_documented_one(typed, expected):
    assert normalise(typed) == expected


@given(st.text(max_size=40))
def test_normalisation_changes_nothing_twice(text):
    assert normalise(normalise(text)) == normalise(text)


def test_a_row_with_more_cells_than_columns_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("positive,negative\na cat,a dog\na cat, sitting,a dog\n")
    with pytest.raises(DataError, match=r"row 1 has more cells than there are columns \('a dog' is beyond"):
        read_pairs(tmp_path / "x.csv")


def test_json_that_is_too_deep_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match="cannot be read"):
        read_pairs(tmp_path / "x.json")


def test_a_category_of_zero_is_a_category(tmp_path):
    rows = [{"positive": "a", "negative": "b", "category": category} for category in (0, 1, None, "")]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    assert [pair.category for pair in read_pairs(tmp_path / "x.json")] == ["0", "1", "x", "x"]
