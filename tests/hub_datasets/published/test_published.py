"""The papers' tables: typed twice from the papers, with scores and models that exist."""

import re
import unicodedata

import pytest
from published_again import AGAIN, as_typed_again

from vl_assay.hub_datasets import get_benchmark
from vl_assay.hub_datasets.core.benchmarks import get_task
from vl_assay.hub_datasets.published.inventory import STATES, paper_names, read_inventory
from vl_assay.hub_datasets.published.tables import NOTHING, STATISTIC, all_tables, get_table
from vl_assay.metrics.functional.aro import SPATIAL, VERBS
from vl_assay.model_wrappers import family_names

TABLES = list(all_tables().values())
# Tables whose text has tabs and no other numbers, such as sizes of models.
TABBED = [table for table in TABLES if not table.name.startswith("aro") and table.name != "sugarcrepe-6"]


@pytest.fixture(scope="module")
def papers(shared_data):
    """A function from a paper to the lines of its text."""
    folder = shared_data / "papers"
    if not folder.is_dir():
        pytest.skip(f"the texts of the papers are not in {folder}")
    listed = [line.split("|")[1:3] for line in (folder / "README.md").read_text().splitlines() if ".txt" in line]

    def lines(paper):
        [name] = [file.strip() for file, title in listed if title.strip().startswith(paper.title)]
        text = unicodedata.normalize("NFKC", (folder / name).read_text(encoding="utf-8"))
        return [*text.splitlines(), ""]

    return lines


def block(lines, number, below):
    """The cells of the lines with tabs that stand directly below or above the caption of a table."""
    [caption] = [n for n, line in enumerate(lines) if re.match(rf"Table {number}[:.] ", line)]
    place, step = (caption + 1, 1) if below else (caption - 1, -1)
    while "\t" not in lines[place]:
        place += step
    found = []
    while lines[place].strip():
        found.append(lines[place])
        place += step
    return [
        [re.sub(r"</?b>|\(-[\d.]+\)|^\([a-f]\) ", "", cell).strip() for cell in line.split("\t")]
        for line in (found if below else found[::-1])
    ]


def as_printed(table):
    """The values of a table in the paper's order, line by line, without labels."""
    rows = [row.printed for row in table.rows]
    lines = zip(*rows, strict=True) if table.transposed else rows
    return [value for line in lines for value in line if value != NOTHING]


def test_values_are_all_those_of_the_papers_lines_in_their_order(papers):
    for table in TABBED:
        lines = block(papers(table.paper), table.number, below=table.name.startswith("sugarcrepe"))
        if table.name == "tricd-1":  # the text has one column twice, under the two words of a header
            assert all(cells[3] == cells[4] for cells in lines[1:])
            lines = [[*cells[:4], *cells[5:]] for cells in lines]
        values = [cell for cells in lines for cell in cells if re.fullmatch(r"\d[\d,]*(\.\d+)?[kKMB]?", cell)]
        if table.name == "tricd-2":  # whose first column is text
            values = [cell for cells in lines[1:] for cell in cells[1:]]
        assert as_printed(table) == values, table.name


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


@pytest.mark.usefixtures("papers")
def test_every_table_and_figure_of_the_papers_has_a_state(shared_data):
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
