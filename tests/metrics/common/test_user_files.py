"""Files that people make: each reader of tables and JSON reads the same encodings and refuses the same defects."""

import io
import json
import tarfile

import pytest

from vl_assay.hub_datasets.authoring.data.pairs import read_pairs
from vl_assay.hub_datasets.corpora.shards import find_shards, read_rows
from vl_assay.hub_datasets.sources.hub_tables import HubTable
from vl_assay.hub_datasets.sources.records import parse_records
from vl_assay.metrics.common.errors import VLAssayError
from vl_assay.metrics.common.user_files import list_files
from vl_assay.metrics.records.predictions import prediction_files
from vl_assay.model_wrappers.finetune.data.coco import open_coco
from vl_assay.model_wrappers.precomputed.other_tools import orders_of
from vl_assay.model_wrappers.precomputed.records import read_records
from vl_assay.space_app.board.imports import COLUMNS, EXAMPLE, read_table

# A record that every reader knows, and a reader for each place that takes a table of the user's own.
ROW = {"id": "ä/1", "answer": "A", "positive": "a, b", "negative": "b"} | dict(
    zip(COLUMNS, EXAMPLE.replace('"', "").replace(", Table", " Table").split(","), strict=True)
)
READERS = {
    "predictions": (lambda path: [each.fields for each in read_records(path)], (".csv", ".jsonl")),
    "captions": (read_pairs, (".csv", ".tsv", ".jsonl", ".json")),
    "sources": (lambda path: parse_records(path.read_bytes(), str(path)), (".csv", ".tsv", ".jsonl", ".json")),
    "published values": (lambda path: read_table(path).entries, (".csv",)),
    "annotations": (open_coco, (".json",)),
}
PLACES = [(name, suffix) for name, (_, suffixes) in READERS.items() for suffix in suffixes]


def text_of(row, suffix, reader):
    if suffix in (".json", ".jsonl"):
        text = json.dumps(row, ensure_ascii=False)
        return f"[{text}]" if suffix == ".json" else f"{text}\r\n"
    chosen = COLUMNS if reader == "published values" else row
    separator = "\t" if suffix == ".tsv" else ","
    return "\r\n".join(map(separator.join, (chosen, [f'"{row[name]}"' for name in chosen])))


def read(tmp_path, content, reader, suffix):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(content)
    return READERS[reader][0](path)


@pytest.mark.parametrize(("reader", "suffix"), PLACES)
def test_every_reader_takes_utf_8_and_what_a_byte_order_mark_announces(reader, suffix, tmp_path):
    text = text_of(ROW, suffix, reader)
    plain = read(tmp_path, text.encode(), reader, suffix)
    for encoding, mark in (("utf-8", "\ufeff"), ("utf-16", ""), ("utf-16-be", "\ufeff"), ("utf-32-le", "\ufeff")):
        assert read(tmp_path, (mark + text).encode(encoding), reader, suffix) == plain


OTHER_FILES = (
    (b"PK\3\4" + bytes(99), "a zip archive or a spreadsheet"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save it as CSV"),
    (b"\x93NUMPY\1\0v\0{'descr': '<f8'}", "NumPy array"),
    (b"PAR1\x15", "a Parquet file"),
    (b"\x80\4\x95", "a pickle"),
    (b"\x1f\x8b\x08\0", "gzip"),
    (b"<!DOCTYPE html><html>", "a page of HTML"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "git lfs pull"),
    ("id,é".encode("cp1252"), "not text in UTF-8"),
    ("id,a".encode("utf-16-le"), "UTF-16 without a byte order mark"),
)


@pytest.mark.parametrize(("reader", "suffix"), PLACES)
def test_every_reader_names_a_file_that_is_something_else(reader, suffix, tmp_path):
    for content, message in OTHER_FILES:
        with pytest.raises(VLAssayError, match=rf"file\{suffix}.*{message}"):
            read(tmp_path, content, reader, suffix)


DEFECTS = {
    ".csv": {
        "id;answer\na;0": "its columns are separated by semicolons; save it with commas",
        "id\tanswer\na\t0": "separated by tabs; save it with commas",
        "id,answer,id\na,0,b": "name the columns, each once",
        "id,answer\na,0\nb": "line 3 has 1 cells, not 2",
        "id,answer\na,0\nb,c,d": "line 3 has 3 cells, not 2",
        'id,answer\na,"0': "line 2: unexpected end of data; close the quotation mark",
    },
    ".tsv": {"id,answer\na,0": "separated by commas; save it with tabs", "id\tanswer\na": "line 2 has 1 cells"},
    ".jsonl": {
        '{"id": "a", "id": "b", "answer": "A"}': "line 1: the key 'id' comes twice",
        '{"id": "a", "answer": "A"}\n\n{"id"': "line 3: it is not JSON",
        '{"id": ' + "[" * 100_000: "line 1: it is too deeply nested",
    },
    ".json": {
        '{"1": {"id": "a"}, "1": {"id": "b"}}': "the key '1' comes twice",
        '{"1": {"id": "a", "id": "b"}}': "the key 'id' comes twice",
        '{"id": "a"}\n{"id": "b"}': r"a file with a value in each line ends in \.jsonl",
        "[" * 100_000: "it is too deeply nested",
    },
}


@pytest.mark.parametrize(("reader", "suffix"), PLACES)
def test_every_reader_refuses_what_would_lose_a_value(reader, suffix, tmp_path):
    for text, message in DEFECTS[suffix].items():
        with pytest.raises(VLAssayError, match=message):
            read(tmp_path, text.encode(), reader, suffix)


def test_blank_rows_of_a_spreadsheet_are_skipped(tmp_path):
    assert parse_records(b"id,answer\n,\na,0\n,\n", "a.csv") == [("row 0", "0", {"id": "a", "answer": "0"})]


def test_what_systems_leave_behind_in_a_folder_is_not_listed(tmp_path):
    left = (".DS_Store", "._1.jpg", "Thumbs.db", "desktop.ini", "__MACOSX/a/1.jpg", ".cache/1.jpg", "@eaDir/1")
    for name in ("1.jpg", "a/2.jpg", *left):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert [path.name for path in list_files(tmp_path)] == ["1.jpg", "a"]
    assert [path.name for path in list_files(tmp_path, "**/*.jpg")] == ["1.jpg", "2.jpg"]


ANSWERS = b'{"1": {"answer": {"multiple_choice_answer": "A"}}}'
LISTINGS = {
    "tables of captions": ("a.csv", b"positive,negative\na,b", lambda folder: [pair.id for pair in read_pairs(folder)]),
    "answers of GPT-4V": ("gpt4v-swap_obj.json", ANSWERS, lambda folder: list(read_records(orders_of(folder)[0]))),
    "predictions": ("a.parquet", b"", prediction_files),
    "shards of a corpus": ("a.parquet", b"", lambda folder: list(find_shards([str(folder)]))),
    "a dataset's files": ("a.parquet", b"1", HubTable("o/n", "*.parquet", {}).find),
}


@pytest.mark.parametrize("kind", LISTINGS)
def test_every_reader_of_a_folder_skips_them(kind, tmp_path):
    name, content, listed = LISTINGS[kind]
    (tmp_path / name).write_bytes(content)
    found = listed(tmp_path)
    (tmp_path / "__MACOSX").mkdir()
    for other in (f"._{name}", f"__MACOSX/._{name}", f"__MACOSX/{name}", ".DS_Store", "Thumbs.db"):
        (tmp_path / other).write_bytes(b"\0\5\x16\7")
    assert len(found) == 1
    assert listed(tmp_path) == found


def test_members_of_an_archive_that_systems_left_are_no_rows(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in ("./._1.txt", "1.txt", "__MACOSX/1.txt"):
            member = tarfile.TarInfo(name)
            member.size = 5
            archive.addfile(member, io.BytesIO(b"a cat"))
    assert list(read_rows(str(tmp_path / "a.tar"), "caption")) == [("a cat", None)]
