"""Files of answers that strangers wrote: read as what they are, or refused with the line."""

from __future__ import annotations

import pytest

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.precomputed.files import read_records


@pytest.mark.parametrize(
    ("ending", "text", "message"),
    [
        (".csv", "", "its first line must name the columns"),
        (".csv", "id,answer\n\n", "has no records"),
        (".csv", "id,id\na,b", "must name the columns, each once"),
        (".csv", "id,answer\na,b\nc", "line 3 has 1 cells, not 2"),
        (".csv", "id,answer\na,b\nc,d,e", "line 3 has 3 cells, not 2"),
        (".csv", 'id,answer\na,"b', "line 2: unexpected end of data"),
        (".csv", f"id,answer\na,{'b' * 200_000}", "line 2: field larger.*long cells are for JSON lines"),
        (".jsonl", '{"id": 1, "answer": 0}\n{"id"', "line 2: Expecting"),
        (".jsonl", '{"id": 1, "answer": 0}\n[1]', r"line 2: \[1\] is not a record"),
        (".jsonl", '{"id": 1, "answer": 0}\n{"id": 1, "id": 2, "answer": 0}', "line 2: the key 'id' is there twice"),
        (".json", '{"1": {"answer": 0}, "1": {"answer": 1}}', "the key '1' is there twice"),
        (".json", '[{"id": 1, "answer": 0}, 7]', "entry 2: 7 is not a record"),
        (".json", "7", "must be a list of records, or an object of them by id"),
        (".json", "id,answer", "Expecting value"),
        (".json", "[" * 100_000, "too deeply nested"),
        (".jsonl", '{"id": ' + "[" * 100_000, "too deeply nested"),
        (".jsonl", '{"id": 1, "answer": ' + "9" * 5000 + "}", "line 1: Exceeds the limit"),
        (".json", "[]", "has no records"),
    ],
)  # fmt: skip
def test_files_that_are_not_what_they_say_are_refused(ending, text, message, tmp_path):
    (tmp_path / f"a{ending}").write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match=rf"a\{ending}.*{message}"):
        _ = load_model(f"precomputed:{tmp_path}/a{ending}"), list(read_records(tmp_path / f"a{ending}"))


def test_other_encodings_folders_and_endless_files_are_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes("id,answer\nä,0".encode("latin-1"))
    with pytest.raises(ModelError, match=r"a\.csv cannot be read: 'utf-8' codec"):
        load_model(f"precomputed:{tmp_path}/a.csv")
    for name in (str(tmp_path), "/dev/zero"):
        with pytest.raises(ModelError, match="there is no file"):
            load_model(f"precomputed:{name}")


def test_lines_and_files_too_long_are_refused(tmp_path, monkeypatch):
    from vl_assay.model_wrappers.precomputed import files as _answer_files

    monkeypatch.setattr(_answer_files, "_LINE_LIMIT", 100)
    monkeypatch.setattr(_answer_files, "_JSON_LIMIT", 100)
    for ending, message in (
        (".csv", "a line is longer"),
        (".jsonl", "a line is longer"),
        (".json", "larger than 100 ch"),
    ):
        (tmp_path / f"a{ending}").write_text(f'{{"id": "{"x" * 200}"}}', encoding="utf-8")
        with pytest.raises(ModelError, match=message):
            list(read_records(tmp_path / f"a{ending}"))


def test_what_spreadpredictions_and_other_systems_write_is_read(tmp_path):
    expected = [{"id": "a", "answer": "yes, \nit is"}]
    for name, text in {
        "bom.csv": '\ufeffid,answer\r\na,"yes, \nit is"\r\n\r\n',
        "tabs.tsv": 'id\tanswer\na\t"yes, \nit is"\n',
        "lines.json": '{"id": "a", "answer": "yes, \\nit is"}\n{"id": "a", "answer": "yes, \\nit is"}',
        "bom.json": '\ufeff  [{"id": "a", "answer": "yes, \\nit is"}]',
        "content.out": 'id , answer\na,"yes, \nit is"',
        "keyed.out": '\n{"a": {"answer": "yes, \\nit is"}}',
        "bare.json": '{"a": "yes, \\nit is"}',
    }.items():
        (tmp_path / name).write_bytes(text.encode())
        records = [record.fields for record in read_records(tmp_path / name)]
        assert records == expected * (2 if name == "lines.json" else 1), name
