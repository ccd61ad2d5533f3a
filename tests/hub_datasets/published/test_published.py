"""The papers' tables: typed twice from the papers, with scores and models that exist."""

import re

import pytest
from published_again import AGAIN, as_typed_again

from vl_assay.hub_datasets import get_benchmark
from vl_assay.hub_datasets.core.benchmarks import get_task
from vl_assay.hub_datasets.published.inventory import STATES, paper_names, read_inventory
from vl_assay.hub_datasets.published.tables import STATISTIC, all_tables, get_table
from vl_assay.metrics.functional.aro import SPATIAL, VERBS
from vl_assay.model_wrappers import family_names

TABLES = list(all_tables().values())


def test_every_table_was_typed_a_second_time_and_is_equal_cell_by_cell():
    assert set(AGAIN) == {table.name for table in TABLES}
    for table in TABLES:
        again = {place: text for place, text in AGAIN[table.name].items() if place[1] != "# Samples"}
        assert as_typed_again(table) == again, table.name


def test_tables_name_scores_models_and_folders_that_exist():
    for table in TABLES:
        assert len({column.name for column in table.columns}) == len(table.columns)
        assert len({row.folder for row in table.rows}) == len({row.name for row in table.rows}) == len(table.rows)
        for column in table.columns:
            assert bool(column.task) != bool(column.reason)
            for benchmark, task in (each.split("/") for each in column.tasks):
                assert column.average == STATISTIC or column.metric in get_task(benchmark, task).metrics
                assert [name for name, _ in get_benchmark(benchmark).select(benchmark, task)]
        for row in table.rows:
            assert bool(row.run.model) != bool(row.run.reason)
            assert bool(row.run.weights) == bool(row.run.source)
            if row.run.model:
                assert row.run.model.partition(":")[0] in family_names()
    assert {column.name for column in get_table("aro-2").columns[3:]} == SPATIAL | VERBS
    for number, score in (("3", "ap"), ("5", "recall_at_1"), ("6", "recall_at_1"), ("8", "ap")):
        paths = {column.name: column.score for column in get_table(f"tricd-{number}").columns if column.task}
        assert paths == {
            "COCO objects": ("per_category", "object", score),
            "COCO relations": ("per_category", "relation", score),
            "All": (score,),
        }


def test_every_table_and_figure_of_the_papers_has_a_state(shared_data):
    if not (shared_data / "papers").is_dir():
        pytest.skip(f"the texts of the papers are not in {shared_data}")
    files = {"000": "sugarcrepe", "001": "sugarcrepe", "002": "tricd", "003": "hard-positives", "004": "aro"}
    printed = {
        (paper, f"{kind} {number}")
        for start, paper in files.items()
        for text in (shared_data / "papers").glob(f"{start}_*.txt")
        for kind, number in re.findall(r"^(Table|Figure) (\d+)[.:] ", text.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(printed) > 60
    assert {(item.paper, item.item) for item in read_inventory() if "," not in item.item} == printed


def test_items_of_the_inventory_have_known_states_and_name_typed_tables():
    items = read_inventory()
    assert {item.state for item in items} <= STATES.keys()
    assert all(item.what and item.how for item in items)
    assert {item.paper for item in items} == paper_names().keys()
    states = {f"{item.paper}-{item.item.removeprefix('Table ')}": item.state for item in items}
    for table in TABLES:
        if not table.is_comparable:
            expected = {"not comparable"}
        elif table.is_statistics:
            expected = {"here"}
        else:
            # Those that `reproduce` cannot make may have a command of their own.
            expected = {"cannot", "implemented", "not comparable"} if table.why_not() else {"command"}
        assert states[table.name] in expected, table.name
    for item in items:
        if match := re.match(r"vl-assay reproduce ([a-z-]+\d+)", item.how):
            assert match[1] in all_tables()
