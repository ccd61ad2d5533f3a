"""Published values of others: read from one CSV format, shown as published, and removed again."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from console import invoke
from submission_support import MemoryStorage

from vl_assay.metrics.common.errors import DataError, UnknownNameError
from vl_assay.space_app.board import imports
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import PUBLISHED, RECOMPUTED, BoardColumn
from vl_assay.space_app.board.imports import COLUMNS, EXAMPLE, imported_tables, parse_table, remove_table, store_table
from vl_assay.space_app.storage.folder import FolderStorage

HEAD = ",".join(COLUMNS)
ALL = BoardColumn("sugarcrepe", "itm", "sugarcrepe_itm", "macro_accuracy")
MACRO = "ViT,sugarcrepe,itm,,sugarcrepe_itm,macro_accuracy,0.75,Table 2"
CIFAR = "ViT,CIFAR10,,,,accuracy,1,Table 3"


def read(*lines, head=HEAD):
    return parse_table("\n".join([head, *lines]).encode(), "values.csv")


def changed(**cells):
    """The line `MACRO` with other cells."""
    values = dict(zip(COLUMNS, MACRO.split(","), strict=True)) | cells
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow(values.values())
    return file.getvalue()


def test_values_are_placed_with_their_sources_and_never_joined_with_recomputed_ones():
    readme = (Path(imports.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    documented = readme.partition("```csv\n")[2].partition("```")[0]
    assert EXAMPLE in documented
    assert len(parse_table(documented.encode(), "README.md").entries) == 3
    first, second, third = read(EXAMPLE, "", changed(model="demo-clip"), CIFAR).entries
    assert (first.model, first.value, first.source) == ("ViT-B-32 openai", 0.615, "The paper, Table 6")
    assert first.column == ALL._replace(score="accuracy", category="swap_obj")
    assert (third.column, third.value) == (BoardColumn("CIFAR10", "", "", "accuracy"), 1.0)
    assert second.origin == second.status == PUBLISHED
    turned = [",".join(reversed(line.split(","))) for line in (HEAD, MACRO)]
    assert parse_table("\r\n".join(turned).encode("utf-8-sig"), "x").entries == read(MACRO).entries
    storage = MemoryStorage()
    store_table(storage, read(changed(model="demo-clip")))
    board = Catalogue(storage).board
    assert {row.origin for row in board.rows([ALL]) if row.model == "demo-clip"} == {PUBLISHED}
    assert board.entry(ALL, "demo-clip", PUBLISHED).value == 0.75
    assert board.entry(ALL, "demo-clip", RECOMPUTED) is None


def test_a_table_is_stored_once_the_newest_value_counts_and_a_removed_table_can_come_back():
    storage, old, new = MemoryStorage(), read(MACRO), read(changed(value="0.76"))
    assert [store_table(storage, table) for table in (old, old, new)] == [True, False, True]

    def value():
        return Catalogue(storage).board.entry(ALL, "ViT", PUBLISHED).value

    assert (value(), imported_tables(storage)) == (0.76, ([new, old], []))
    remove_table(storage, new.id)
    assert (value(), imported_tables(storage)) == (0.75, ([old], []))
    for id in (new.id, "../x"):
        with pytest.raises(UnknownNameError, match=f"unknown imported table.*known: {old.id}"):
            remove_table(storage, id)
    assert store_table(storage, new)
    assert value() == 0.76


def test_a_damaged_table_is_reported_and_leaves_the_others(tmp_path):
    storage = FolderStorage(tmp_path)
    for line in (MACRO, CIFAR):
        store_table(storage, read(line))
    path, _ = storage.paths("requests/imports/")
    (tmp_path / path).write_text((tmp_path / path).read_text("utf-8").replace("0.75", "0.95"), encoding="utf-8")
    catalogue = Catalogue(FolderStorage(tmp_path))
    [damaged] = catalogue.problems
    assert f"{path} was changed since it was stored" in damaged
    assert catalogue.board.entry(ALL, "ViT", PUBLISHED) is None
    assert catalogue.board.entry(BoardColumn("CIFAR10", "", "", "accuracy"), "ViT", PUBLISHED).value == 1
    remove_table(storage, Path(path).stem.partition("-")[2])
    assert len(imported_tables(storage)[0]) == 1


WRONG = [
    *(({"value": text}, f"the value '{text}' is not a number from 0 to 1; write 61.5 % as 0.615")
      for text in ("61.5", "-0.1", "nan", "inf", "61.5%", "1.0000001")),
    *(({name: ""}, f"the {name} is empty") for name in ("model", "benchmark", "score", "value", "source")),
    ({"model": "a\u200bb"}, "the model 'a.*' is not a text of at most 200 printable characters"),
    ({"source": "x" * 201}, "the source 'x+' is not a text"),
    ({"model": "Human"}, "looks like 'Human'"),
    ({"benchmark": "sugarcrep"}, "unknown benchmark 'sugarcrep'.*Did you mean 'sugarcrepe'"),
    ({"task": ""}, "unknown task of sugarcrepe ''; known: itm"),
    ({"metric": "aro_itm"}, "unknown metric of sugarcrepe/itm 'aro_itm'; known: sugarcrepe_itm"),
    ({"score": "acuracy"}, "unknown score of sugarcrepe_itm 'acuracy'.*Did you mean 'accuracy'"),
    ({"score": "macro_macro_accuracy"}, "unknown score of sugarcrepe_itm"),
    ({"score": "accuracy", "category": "swap_objs"}, "unknown category .*Did you mean 'swap_obj'"),
    ({"category": "swap_obj"}, "'macro_accuracy' is the mean over categories, so its category is empty"),
    ({"benchmark": "Sugar-Crepe", "task": "", "metric": ""}, "the benchmark 'Sugar-Crepe' is 'sugarcrepe' here"),
    ({"benchmark": "CIFAR10", "task": ""}, "unknown benchmark 'CIFAR10'"),
]  # fmt: skip


def test_a_wrong_line_is_refused_by_its_number_with_a_right_line():
    for cells, message in WRONG:
        with pytest.raises(DataError, match=f"(?s)^values.csv, line [34]: .*{message}") as caught:
            read(CIFAR, changed(**cells))
        assert f"the columns are {HEAD}, and a valid line is: {EXAMPLE}" in str(caught.value)


def test_a_file_that_is_not_such_a_table_is_refused(monkeypatch, tmp_path):
    for text, message in (
        ("", "has no values: the columns are model,"),
        (HEAD, "has no values"),
        ("model,value\nViT,1", "has the columns 'model,value', but the columns are model,"),
        (f"{HEAD}\n{MACRO},more", "line 2 has 9 cells, not 8"),
        (f"{HEAD}\n{'x' * 200_000}", "line 2: field larger"),
        (f"{HEAD}\n{MACRO}\n{CIFAR}\n{MACRO}", "lines 2 and 4 give 'ViT' the same score; keep one of them"),
        (b"a" * (2**24 + 1), "is larger than 16 MB"),
    ):
        with pytest.raises(DataError, match=message):
            parse_table(text if isinstance(text, bytes) else text.encode(), "values.csv")
    monkeypatch.setattr(imports, "MAX_VALUES", 2)
    assert len(read(MACRO, CIFAR).entries) == 2
    with pytest.raises(DataError, match="more than 2 values; split it"):
        read(MACRO, CIFAR, EXAMPLE)
    with pytest.raises(DataError, match=r"no\.csv cannot be read: No such file"):
        imports.read_table(tmp_path / "no.csv")


def test_the_command_imports_lists_and_removes_a_table(tmp_path):
    lines = [f"model {n},set {place},,,,accuracy,0.{n},Table {place % 2}" for n in range(5) for place in range(20)]
    (tmp_path / "values.csv").write_text("\n".join([HEAD, *lines]), encoding="utf-8")
    words = ("leaderboard", "import", "values.csv", "--storage", "board")
    assert "can be imported: 100 values of 5 models" in invoke(*words, "--dry-run", folder=tmp_path).stdout
    assert imported_tables(FolderStorage(tmp_path / "board")) == ([], [])
    for start in ("imported as", "already imported as"):
        assert invoke(*words, folder=tmp_path).stdout.startswith(start)
    listed = invoke("leaderboard", "--storage", "board", "import", folder=tmp_path).stdout
    assert "100 values of 5 models, from Table 0 and 1 more sources" in listed
    id = listed.split()[0]
    assert invoke(*words[:2], "--remove", id, "--storage", "board", folder=tmp_path).stdout == f"removed: {id}\n"
    assert invoke(*words[:2], "--storage", "board", folder=tmp_path).stdout == "no table was imported\n"
    assert "--dry-run validates a file" in str(invoke(*words[:2], "--dry-run", folder=tmp_path).exception)
