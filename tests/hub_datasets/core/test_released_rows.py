"""Files of rows in each format, as builders read them."""

from __future__ import annotations

import pytest

from vl_assay.hub_datasets.core.released_rows import parse_records

ROWS = [{"caption": 'a "red" cup, a table', "label": "1"}, {"caption": "zwei\nZeilen, ö", "label": "2"}]
FILES = {
    "a.json": '[{"caption": "a \\"red\\" cup, a table", "label": "1"}, {"caption": "zwei\\nZeilen, ö", "label": "2"}]',
    "a.jsonl": '{"caption": "a \\"red\\" cup, a table", "label": "1"}\n\n{"caption": "zwei\\nZeilen, ö", "label": "2"}',
    "a.csv": '\ufeffcaption,label\r\n"a ""red"" cup, a table",1\r\n"zwei\nZeilen, ö",2\r\n',
    "a.tsv": 'caption\tlabel\n"a ""red"" cup, a table"\t1\n"zwei\nZeilen, ö"\t2\n',
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_rows(name):
    found = parse_records(FILES[name].encode(), f"https://example.org/{name}?download=true")
    assert found == [("row 0", "0", ROWS[0]), ("row 1", "1", ROWS[1])]


def test_rows_of_an_object_have_its_keys():
    assert parse_records(b' {"7": {"a": 1}}', "x.json") == [("key '7'", "7", {"a": 1})]


@pytest.mark.parametrize(
    ("name", "payload", "message"),
    [
        ("a.json", b"[", "a.json is not valid JSON"),
        ("a.json", b"[]", "a.json holds nothing"),
        ("a.jsonl", b'{"a": 1}\n{', "a.jsonl, line 2: not JSON"),
        ("a.jsonl", b"\n", "a.jsonl holds no rows"),
        ("a.csv", b"caption,label\n", "a.csv holds no rows"),
        ("a.csv", b"caption\n\xff\xfe", "a.csv is not text in UTF-8"),
        ("a.csv", b'caption\n"a', "a.csv is not a table: unexpected end of data"),
        ("a.csv", b"caption,label\na,1\nb\n", "a.csv, row 1: it has not as many fields as the header"),
        ("a.tsv", b"caption\tlabel\na\t1\t2\n", "a.tsv, row 0: it has not as many fields as the header"),
    ],
)
def test_a_file_that_is_not_of_its_format_is_named(name, payload, message):
    with pytest.raises(ValueError, match=message):
        parse_records(payload, name)
