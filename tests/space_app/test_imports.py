"""Published tables of others: imported with a map of their columns, shown as published, and removed again."""

from __future__ import annotations

import csv
import io
import json
import random
import tracemalloc
from itertools import pairwise

import pytest
import yaml
from console import invoke

from vl_assay.metrics.common.errors import DataError, UnknownNameError, VLAssayError
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import PUBLISHED, RECOMPUTED, Column
from vl_assay.space_app.board.imports import imported_tables, remove_table, store_table
from vl_assay.space_app.board.table_maps import read_table
from vl_assay.space_app.storage.folder import FolderStorage

SWAP = {"task": "sugarcrepe/itm", "metric": "sugarcrepe_itm", "score": "accuracy"} | {"average": "category"}
CIFAR = {"benchmark": "CIFAR10", "score": "top 1", "average": "micro"}
MAP = {
    "source": "A paper, 2026-11-01",
    "unit": "percent",
    "model": ["arch", "weights"],
    "family": "family",
    "columns": {
        "swap": SWAP | {"category": "swap_obj"},
        "all": SWAP | {"average": "macro", "source": "Table 2"},
        "cifar": {"benchmark": "CIFAR10", "score": "accuracy", "average": "micro"},
    },
    "skip": ["notes"],
}
ROWS = [
    ["arch", "weights", "family", "swap", "all", "cifar", "notes"],
    ["ViT-B-32", "openai", "clip", "61.5", "75", "-", "=1+1"],
    ["ViT-B-32", "laion2b", "", "71.5%", "", "93.4", ""],
]
ALL = Column("sugarcrepe", "itm", "sugarcrepe_itm", "macro_accuracy")


@pytest.fixture
def read(tmp_path):
    """Reads rows of cells with a map of these changes; texts are written as they are."""

    def read(rows=ROWS, table_map=None, **changes):
        if not isinstance(rows, str):
            file = io.StringIO()
            csv.writer(file).writerows(rows)
            rows = file.getvalue()
        (tmp_path / "table.csv").write_text(rows, encoding="utf-8")
        (tmp_path / "map.yaml").write_text(table_map or json.dumps(MAP | changes), encoding="utf-8")
        return read_table(tmp_path / "table.csv", tmp_path / "map.yaml")

    return read


def cell(row, column, value):
    changed = [list(each) for each in ROWS]
    changed[row][column] = value
    return changed


def test_values_are_placed_with_their_sources_and_never_joined_with_recomputed_ones(read, tmp_path):
    storage = FolderStorage(tmp_path / "board")
    assert store_table(storage, read())
    [first, second, third, fourth] = [
        entry for table in imported_tables(storage)[0] for entry in table.entries()
    ]  # by row: the cells - and "" are no values
    assert (first.model, first.family, first.value) == ("ViT-B-32 openai", "clip", 0.615)
    assert first.column == ALL._replace(score="accuracy", category="swap_obj")
    assert (second.column, second.source) == (ALL, "A paper, 2026-11-01, Table 2")
    assert (third.model, third.value, third.source) == ("ViT-B-32 laion2b", 0.715, "A paper, 2026-11-01")
    assert (fourth.column.benchmark, fourth.value) == ("CIFAR10", 0.934)
    rows = cell(1, 0, "demo-clip")
    rows[1][1] = ""
    assert store_table(storage, read(rows, source="Another paper", skip_models=["ViT-B-32 laion2b"]))
    board = Catalogue(storage).board
    assert {row.origin for row in board.rows([ALL]) if row.model == "demo-clip"} == {PUBLISHED}
    assert board.entry(ALL, "demo-clip", PUBLISHED).value == 0.75
    assert board.entry(ALL, "demo-clip", RECOMPUTED) is None


def test_the_same_table_is_stored_once_a_new_one_replaces_it_and_it_can_be_removed(read, tmp_path):
    storage = FolderStorage(tmp_path / "board")
    table = read()
    assert [store_table(storage, each) for each in (table, table)] == [True, False]
    assert store_table(storage, read(cell(1, 4, "76")))
    [stored], problems = imported_tables(storage)
    assert (len(stored.models), stored.values[0][1], problems) == (2, 0.76, [])
    assert remove_table(storage, table.id).values == stored.values
    assert imported_tables(storage) == ([], [])
    with pytest.raises(UnknownNameError, match="unknown imported table"):
        remove_table(storage, table.id)
    assert store_table(storage, table)
    assert [each.id for each in imported_tables(storage)[0]] == [table.id]


def test_a_damaged_table_is_reported_and_leaves_the_others(read, tmp_path):
    storage = FolderStorage(tmp_path / "board")
    for source in ("One", "Two"):
        store_table(storage, read(source=source))
    [path, _] = storage.paths("requests/imports/")
    file = tmp_path / "board" / path
    file.write_text(file.read_text("utf-8").replace("0.75", "0.95"), encoding="utf-8")
    catalogue = Catalogue(FolderStorage(tmp_path / "board"))
    [problem] = catalogue.problems
    assert path in problem
    assert "changed since it was written" in problem
    assert catalogue.board.entry(ALL, "ViT-B-32 openai", PUBLISHED).value == 0.75


@pytest.mark.parametrize(
    ("rows", "changes", "error", "message"),
    [
        (cell(2, 3, "712"), {}, DataError, r"line 3 \(ViT-B-32 laion2b\), column 'swap': 712 lies outside 0 to 100"),
        (ROWS, {"unit": "fraction"}, DataError, r"line 2 .*, column 'swap': 61.5 lies outside 0 to 1\b"),
        (cell(1, 3, "6_1"), {}, DataError, "line 2 .*'6_1' is no number"),
        (cell(1, 3, "inf"), {}, DataError, "line 2 .*'inf' is no number"),
        ([ROWS[0], ["m", "", "", ".5", ".7", ".9", ""]], {}, DataError, "no value is above 1, .* is it fraction"),
        (ROWS, {"unit": "percents"}, UnknownNameError, "unknown unit .*Did you mean 'percent'"),
        (ROWS, {"unit": None}, DataError, "does not state 'unit'"),
        (ROWS, {"source": ""}, DataError, "does not state 'source'"),
        (ROWS, {"skip": []}, DataError, r"says nothing of 1 columns \(notes\)"),
        (ROWS, {"skip": ["note", "notes"]}, UnknownNameError, "unknown column of the table 'note'.*'notes'"),
        (ROWS, {"columns": MAP["columns"] | {"swap": SWAP}}, DataError, "'category' is stated exactly where"),
        (ROWS, {"columns": MAP["columns"] | {"swap": {}}}, DataError, "column 'swap' does not state score"),
        (ROWS, {"columns": MAP["columns"] | {"swap": MAP["columns"]["all"]}}, DataError, "'swap' and 'all' are both"),
        (
            ROWS,
            {"columns": MAP["columns"] | {"all": CIFAR, "cifar": CIFAR | {"score": "top_1"}}},
            DataError,
            "'all' and",
        ),
        (ROWS, {"columns": MAP["columns"] | {"cifar": CIFAR | {"metric": "a"}}}, DataError, "leave 'metric' out"),
        (ROWS, {"weight": 1}, UnknownNameError, "unknown key in .*'weight'"),
        (cell(2, 1, "openai"), {}, DataError, "lines 2 and 3 are both of 'ViT-B-32 openai'"),
        (cell(1, 0, "a\u200bb"), {}, DataError, "line 2, the model's name.*printable"),
        ([ROWS[0], ["Human", "", "", "1", "1", "1", ""]], {}, DataError, "looks like 'Human'.*skip_models"),
        (ROWS[:1], {}, DataError, "has no rows"),
        ([*ROWS, ["short"]], {}, DataError, "line 4 has 1 cells, and the table 7 columns"),
        ([[*ROWS[0][:-1], "all"], *ROWS[1:]], {}, DataError, "2 columns with the name 'all'"),
        ([["m"], *([str(n)] for n in range(2001))], {}, DataError, "2,001 rows .* split it"),
        ('a,"b\n', {}, DataError, "not a table that can be read"),
        ("a" * 2**24 + "\n1\n", {}, DataError, "larger than 16 MB"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_place(read, rows, changes, error, message):
    with pytest.raises(error, match=message):
        read(rows, **changes)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"task": "sugarcrep/itm"}, "unknown benchmark 'sugarcrep'.*Did you mean 'sugarcrepe'"),
        ({"task": "sugarcrepe/imt"}, "unknown task of sugarcrepe 'imt'.*Did you mean 'itm'"),
        ({"metric": "aro_itm"}, "unknown metric of sugarcrepe/itm 'aro_itm'; known: sugarcrepe_itm"),
        ({"score": "acuracy"}, "unknown score of sugarcrepe_itm 'acuracy'.*Did you mean 'accuracy'"),
        ({"score": "macro_accuracy"}, "unknown score of sugarcrepe_itm 'macro_accuracy'"),
        ({"average": "marco"}, "unknown average 'marco'.*Did you mean 'macro'"),
        ({"category": "swap_objs"}, "unknown category of sugarcrepe/itm 'swap_objs'.*Did you mean 'swap_obj'"),
        ({"categry": "swap_obj"}, "unknown key .*'categry'.*Did you mean 'category'"),
        ({"benchmark": "x"}, "either task or benchmark"),
        ({"task": "", "benchmark": "Sugar-Crepe"}, "is 'sugarcrepe', which is here; give its task"),
        ({"source": "a\nb"}, "printable characters"),
    ],
)
def test_unknown_places_are_refused_with_what_may_be_meant(read, place, message):
    columns = MAP["columns"] | {"swap": SWAP | {"category": "swap_obj"} | place}
    with pytest.raises(VLAssayError, match=message):
        read(columns=columns)


def test_maps_that_attack_the_reader_are_refused(read):
    for text in ("[" * 10_000, "!!python/object/apply:os.getcwd []", "source: [", "- 1", "\0"):
        with pytest.raises(VLAssayError, match=r"neither YAML nor JSON|no keys and values"):
            read(table_map=text)


@pytest.mark.parametrize("place", ["source", "unit", "model", "family", "columns", "skip", "swap", "score"])
def test_a_map_whose_aliases_stand_for_millions_of_elements_is_refused_without_writing_them_out(read, place):
    lists = [f"&{b} [{', '.join([f'*{a}'] * 20)}]" for a, b in pairwise("abcdef")]  # 20 ** 5 elements
    many = f"[&a [x], {', '.join(lists)}]"
    columns = {"swap": f"{{swap: {many}}}", "score": f"{{swap: {{score: {many}}}}}"}
    texts = {key: json.dumps(value) for key, value in MAP.items()}
    texts |= {"columns": columns[place], "skip": "[all, cifar, notes]"} if place in columns else {place: many}
    tracemalloc.start()
    with pytest.raises(DataError, match=f"{place}.*(is no |must give)"):
        read(table_map="\n".join(f"{key}: {text}" for key, text in texts.items()))
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


def test_the_command_makes_a_map_imports_lists_and_removes_a_table_of_the_size_of_public_ones(tmp_path):
    rng = random.Random(0)
    names = [f"sugarcrepe::{each}" for each in ("swap_obj", "swap_att", "add_att")]
    names += [f"winoground::{each}" for each in ("text", "image", "group")]
    names += [f"elsewhere::{number}" for number in range(136 - 1 - len(names))]
    with (tmp_path / "table.csv").open("w", encoding="utf-8", newline="") as file:
        lines = ([f"model {number}", *(f"{rng.uniform(0, 100)}" for _ in names)] for number in range(202))
        csv.writer(file).writerows([["model", *names], *lines])
    started = invoke("leaderboard", "import", "table.csv", "--template", folder=tmp_path).stdout
    (tmp_path / "map.yaml").write_text(started, encoding="utf-8")
    words = ("leaderboard", "import", "table.csv", "--map", "map.yaml", "--storage", "board")
    assert "does not state 'source'" in str(invoke(*words, folder=tmp_path).exception)
    table_map = yaml.safe_load(started.replace('  # "', '  "')) | {"source": "A paper", "unit": "percent"}
    assert list(table_map["columns"]) == names[:6]
    assert table_map["columns"][names[0]] == SWAP | {"category": "swap_obj"}
    columns = {name: {"benchmark": name, "score": "accuracy", "average": "micro"} for name in table_map.pop("skip")}
    table_map["columns"] |= columns
    (tmp_path / "map.yaml").write_text(json.dumps(table_map), encoding="utf-8")
    assert "can be imported: 202 models, 135 columns" in invoke(*words, "--dry-run", folder=tmp_path).stdout
    assert imported_tables(FolderStorage(tmp_path / "board")) == ([], [])
    for said in ("imported as", "already imported as"):
        assert invoke(*words, folder=tmp_path).stdout.startswith(said)
    board = Catalogue(FolderStorage(tmp_path / "board")).board
    shown = [column for column in board.columns if column.benchmark in columns]
    assert (len(shown), len(board.rows(shown))) == (129, 202)
    listed = invoke("leaderboard", "--storage", "board", "import", folder=tmp_path).stdout
    assert "202 models, 135 columns, 27,270 values of A paper" in listed
    removed = invoke(*words[:2], "--remove", listed.split()[0], "--storage", "board", folder=tmp_path).stdout
    assert removed.startswith("removed: 202 models")
    assert invoke(*words[:2], "--storage", "board", folder=tmp_path).stdout == "no table was imported\n"
