"""Reproducing the papers' tables: what is published stands in the papers, and ours is set beside it rightly."""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from itertools import groupby

import pytest
import sources_aro
import sources_hard_positives
import sources_sugarcrepe
import sources_tricd
from tiny_models import tiny_blip, tiny_owlvit
from typer.testing import CliRunner

from vl_assay.hub_datasets import get_benchmark, judge
from vl_assay.hub_datasets.benchmarks import get_task
from vl_assay.metrics.aro import SPATIAL, VERBS
from vl_assay.metrics.console import build_app
from vl_assay.metrics.errors import DataError, ModelError, SheetError, UnknownNameError
from vl_assay.metrics.sheet_rows import MatchingRow
from vl_assay.metrics.sheets import Sheet, read_sheet, write_sheet
from vl_assay.model_wrappers import _reproduce as module
from vl_assay.model_wrappers import family_names
from vl_assay.model_wrappers._published import NOTHING, all_tables, get_table
from vl_assay.model_wrappers._reproduce import reproduce, status
from vl_assay.model_wrappers._reproduce_report import Comparison, as_json, to_markdown

TABLES = list(all_tables().values())
QUIET = {"progress": False}


# --- what is published ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def papers(shared_data):
    """A function from a paper to the lines of its text."""
    folder = shared_data / "papers"
    listed = [line.split("|")[1:3] for line in (folder / "README.md").read_text().splitlines() if ".txt" in line]

    def lines(paper):
        [name] = [file.strip() for file, title in listed if title.strip().startswith(paper.title)]
        text = unicodedata.normalize("NFKC", (folder / name).read_text(encoding="utf-8"))
        return [line.strip("\n") for line in text.splitlines()]

    return lines


def block(lines, number, below):
    """The cells of the lines with tabs that stand directly below or above the caption of a table."""
    [caption] = [n for n, line in enumerate(lines) if re.match(rf"Table {number}[:.] ", line)]
    place, step = (caption + 1, 1) if below else (caption - 1, -1)
    while not lines[place].strip():
        place += step
    found = []
    while lines[place].strip():
        found.append(lines[place])
        place += step
    return [
        [re.sub(r"</?b>|\(-[\d.]+\)|^\([a-f]\) ", "", cell).strip() for cell in line.split("\t")]
        for line in (found if below else found[::-1])
    ]


def numbers(cells):
    return [cell for cell in cells if re.fullmatch(r"\d+(\.\d+)?", cell)]


TABBED = [table for table in TABLES if not table.name.startswith("aro")]


@pytest.mark.parametrize("table", TABBED, ids=lambda table: table.name)
def test_values_are_those_of_the_papers_table_row_by_row(table, papers):
    lines = block(papers(table.paper), table.number, below=table.name == "sugarcrepe-6")
    rows = [cells for cells in lines if len(numbers(cells)) > 1]
    assert len(rows) == len(table.rows)
    for cells, row in zip(rows, table.rows, strict=True):
        values = [value for value in row.printed if value != NOTHING]
        assert row.label in cells
        # SugarCrepe's rows have the model's size before its values.
        assert numbers(cells[cells.index(row.label) + 1 :])[-len(values) :] == values, row.label
        assert len(row.printed) == len(table.columns)


@pytest.mark.parametrize("table", TABBED, ids=lambda table: table.name)
def test_columns_are_in_the_order_of_the_papers_headers(table, papers):
    lines = block(papers(table.paper), table.number, below=table.name == "sugarcrepe-6")
    headers = [re.sub(r" ?\(.*\)", "", cell) for cell in lines[1] if cell]
    assert len(headers) >= len(table.columns) - 1  # the Average of SugarCrepe stands a line higher
    for header, column in zip(headers, table.columns, strict=False):
        assert column.name.endswith(header)
    sides = [cell.replace("Re1", "Rel") for cell in lines[0] if cell.startswith(("REPLACE", "SWAP", "ADD"))]
    order = [side for side, _ in groupby(column.name.split()[0] for column in table.columns)]
    assert sides == [side for side in order if side.isupper() or side.startswith("REPLACE")] or not sides


def test_values_of_aros_table_2_are_the_papers_word_by_word(papers):
    table = get_table("aro-2")
    lines = papers(table.paper)
    start = next(n for n, line in enumerate(lines) if line.startswith("Table 2:"))
    words = lines[start + 1 : lines.index("MODELS", start) - 1]  # before "B", "MODELS"
    # In the paper the averages of the spatial relations and of the verbs stand at the head of their groups.
    average, spatial, verbs, *relations = range(len(table.columns))
    expected = [*(row.label for row in table.rows), "# Samples"]
    for place in (average, spatial, *relations[:13], verbs, *relations[13:]):
        column = table.columns[place]
        group, _, name = column.name.rpartition(" ") if column.n is None else ("", "", column.name)
        count = [] if column.n is None else [str(column.n)]
        expected += [*([group] if group else []), name, *(row.printed[place] for row in table.rows), *count]
    assert words == expected
    assert sum(column.n or 0 for column in table.columns) == 21_917


def test_values_of_aros_table_5_are_the_papers(papers):
    table = get_table("aro-5")
    lines = papers(table.paper)
    start = next(n for n, line in enumerate(lines) if line.startswith("Table 5:"))
    words = lines[lines.index("Accuracy", start) + 1 :]
    expected = []
    for row in table.rows:
        [value] = [value for value in row.printed if value != NOTHING]
        expected += [row.group, row.label, value.replace("±", " ± ")]
    assert words[: len(expected)] == expected
    assert not words[len(expected)].endswith("-PRC")


def test_numbers_of_examples_are_those_of_sugarcrepes_table_2(papers):
    table = get_table("sugarcrepe-6")
    [line] = [line for line in papers(table.paper) if line.startswith("# negative captions")]
    assert [int(cell.replace(",", "")) for cell in line.split("\t")[1:]] == [c.n for c in table.columns if c.n]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_tables_name_scores_models_and_folders_that_exist(table):
    assert len({column.name for column in table.columns}) == len(table.columns)
    assert len({row.folder for row in table.rows}) == len({row.name for row in table.rows}) == len(table.rows)
    for column in table.columns:
        assert bool(column.task) != bool(column.reason)
        if column.task:
            benchmark, _, task = column.task.partition("/")
            assert column.metric in get_task(benchmark, task).metrics
            assert [name for name, _ in get_benchmark(benchmark).select(benchmark, task)]
    for row in table.rows:
        assert bool(row.run.model) != bool(row.run.reason)
        assert bool(row.run.weights) == bool(row.run.source)
        if row.run.model:
            assert row.run.model.partition(":")[0] in family_names()
    assert {column.name for column in get_table("aro-2").columns[3:]} == SPATIAL | VERBS


@pytest.mark.parametrize(
    ("name", "metric", "score"),
    [
        ("tricd-3", "cpd_ap", "ap"),
        ("tricd-5", "grounding_recall", "recall_at_1"),
        ("tricd-6", "group_recall_at_1", "recall_at_1"),
        ("tricd-8", "cpd_ap", "ap"),
    ],
)
def test_tables_of_detection_take_the_score_that_the_paper_prints(name, metric, score):
    paths = {column.name: column.score for column in get_table(name).columns if column.task}
    assert get_table(name).metrics == {metric}
    assert paths == {
        "COCO objects": ("per_category", "object", score),
        "COCO relations": ("per_category", "relation", score),
        "All": (score,),
    }


def test_the_tables_of_the_issue_are_there_and_others_are_refused_by_name():
    for paper, numbers in (("sugarcrepe", "6"), ("aro", "25"), ("tricd", "356"), ("hard-positives", "178")):
        assert {f"{paper}-{number}" for number in numbers} <= set(all_tables())
    with pytest.raises(UnknownNameError, match=r"unknown table 'sugarcrepe-5'; known: aro-2, aro-5, hard-positives-1"):
        reproduce("sugarcrepe-5")


# --- ours beside it -------------------------------------------------------------------------------------------

CATEGORIES = sources_sugarcrepe.CATEGORIES
# Right answers of four in each category, one image each.
RIGHT = {"replace_obj": 4, "replace_att": 3, "replace_rel": 2, "swap_obj": 2, "swap_att": 0, "add_obj": 3, "add_att": 3}


def sugarcrepe_sheet(path, right=RIGHT, benchmark=None, tied=(), lost=(), **model):
    """A sheet of four examples of each category, of which the first `right` are right."""
    rows = [
        MatchingRow(
            f"{category}/{n}",
            category,
            category,
            [f"{category}{n}"],
            [0],
            [[0.5, 0.5] if (category, n) in tied else [0.9, 0.1] if n < count else [0.1, 0.9]],
        )
        for category, count in right.items()
        for n in range(4)
    ]
    rows = [MatchingRow(row.id, row.config, row.category, [""], [0], None) if row.id in lost else row for row in rows]
    said = {"name": "sugarcrepe", "task": "itm", "configs": list(right), "split": "test", "fingerprint": "f"}
    model = {"name": "some model", "family": "clip", "checkpoint": "some/model", "dtype": "float32", **model}
    missing = [row.id for row in rows if row.scores is None]
    metadata = {"benchmark": {**said, "rows": len(rows), "missing": missing}, "model": model, "run": {}}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_sheet(path, Sheet(rows, metadata))


def cells_of(result):
    return {(one.row.name, one.column.name): one for one in result.comparisons}


def test_a_sheet_is_compared_as_worked_out_by_hand(tmp_path):
    sugarcrepe_sheet(tmp_path / "ViT-B-32" / "any.parquet")
    result = reproduce("sugarcrepe-6", sheets=tmp_path)
    assert {one.row.name for one in result.comparisons} == {"ViT-B-32"}
    cells = {column: one for (_, column), one in cells_of(result).items()}
    relation = cells["REPLACE Relation"]
    assert (relation.printed, relation.ours, relation.n) == ("69.20", 2 / 4, 4)
    assert (relation.published, relation.rounding) == (pytest.approx(0.692), pytest.approx(0.00005))
    assert relation.difference == pytest.approx(0.5 - 0.692)
    # All of 4 images right: at least 0.025 ** (1 / 4) = .3976 of all would be; none right: at most .6024.
    assert cells["REPLACE Object"].interval == pytest.approx((0.3976, 1), abs=1e-4)
    assert cells["SWAP Attribute"].interval == pytest.approx((0, 0.6024), abs=1e-4)
    assert cells["REPLACE Object"].inside is True  # .9092
    assert cells["SWAP Attribute"].inside is False  # .6396
    # (4 + 3 + 2 + 2 + 0 + 3 + 3) / 4 / 7 = 17 / 28
    assert cells["Average"].ours == pytest.approx(17 / 28)
    assert cells["Average"].difference == pytest.approx(17 / 28 - 0.7308)
    assert "SWAP Object: 4 examples here, 246 in the paper." in result.remarks
    assert result.not_run["RN50"] == "no sheet of it"
    assert "Human" not in result.not_run


def test_what_is_written_says_where_every_number_is_from(tmp_path):
    sugarcrepe_sheet(tmp_path / "ViT-B-32" / "any.parquet")
    result = reproduce("sugarcrepe-6", sheets=tmp_path, out=tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["sugarcrepe-6.json", "sugarcrepe-6.md"]
    document = json.loads((tmp_path / "out" / "sugarcrepe-6.json").read_text())
    assert document == json.loads(as_json(result))
    entry = document["comparisons"][2]
    assert document["table"]["paper"].startswith("SugarCrepe: Fixing")
    assert entry["paper"] == {
        "table": "Table 6", "row": "OpenAI [36] / ViT-B-32", "column": "REPLACE Relation", "printed": "69.20",
    }  # fmt: skip
    assert entry["score"] == ["per_category", "replace_rel", "accuracy"]
    assert (entry["ours"], entry["n"], entry["published_n"], entry["average"]) == (0.5, 4, 1406, "category")
    [sheet] = judge([tmp_path / "ViT-B-32" / "any.parquet"])
    assert entry["sheet"] == sheet.sheet
    text = (tmp_path / "out" / "sugarcrepe-6.md").read_text()
    assert text == to_markdown(result).rstrip() + "\n"
    assert "| SWAP Attribute | 63.96 | 0.000 | 0.000 – 60.236 | -63.960 | no |" in text
    inside = sum(bool(one.inside) for one in result.comparisons)
    assert f"{inside} of 8 published values lie inside our intervals (95 %, over images)." in text
    assert "The largest difference is -63.960 (ViT-B-32, SWAP Attribute)." in text
    assert "- The released swap_obj has 245 examples" in text


def test_in_aros_table_2_rows_are_relations_and_columns_models(tmp_path):
    rows = [
        MatchingRow(f"r/{n}", "vg_relation", name, [f"i{n}"], [0], [[1.0, 0.0] if right else [0.0, 1.0]])
        for n, (name, right) in enumerate([("on", 1), ("on", 0), ("on", 0), ("on", 0), ("riding", 1), ("near", 0)])
    ]
    benchmark = {"name": "aro", "task": "relation", "configs": ["vg_relation"], "rows": 6, "missing": []}
    model = {"name": "openai/clip-vit-base-patch32", "family": "clip", "checkpoint": "openai/clip-vit-base-patch32"}
    write_sheet(tmp_path / "a.parquet", Sheet(rows, {"benchmark": benchmark, "model": model, "run": {}}))
    result = reproduce("aro-2", sheets=tmp_path)
    cells = {column: one for (_, column), one in cells_of(result).items()}
    # on 1 of 4, riding 1 of 1; "near" is symmetric and in no average. Spatial: on; verbs: riding.
    assert cells["on"].ours == 1 / 4
    assert cells["Accuracy"].ours == pytest.approx((1 / 4 + 1) / 2)
    assert cells["Spatial Relationships Accuracy"].ours == pytest.approx(1 / 4)
    assert cells["Verbs Accuracy"].ours == 1
    assert cells["wearing"].ours is None
    assert cells["wearing"].why == "the sheet has no such examples"
    # The table prints fractions: .52 is known to .005.
    assert (cells["on"].published, cells["on"].rounding) == (0.52, pytest.approx(0.005))
    entry = next(e for e in json.loads(as_json(result))["comparisons"] if e["score"][1:2] == ["on"])
    assert (entry["paper"]["row"], entry["paper"]["column"], entry["published_n"]) == ("on", "CLIP", 1684)
    assert "| on | 0.52 | 0.250 |" in to_markdown(result)


@pytest.mark.parametrize(
    ("interval", "inside"),
    [
        ((0.595, 0.62), True),  # .59 may be .595
        ((0.5952, 0.62), False),
        ((0.5, 0.585), True),  # or .585
        ((0.5, 0.5848), False),
        ((0.58, 0.6), True),
        (None, None),
    ],
)
def test_a_published_value_stands_for_all_that_round_to_it(interval, inside):
    table = get_table("aro-2")
    cell = Comparison(table.rows[0], table.columns[0], "0.59", 0.59, 0.005, ours=0.6, interval=interval)
    assert cell.inside is inside


def test_the_average_of_a_part_is_not_compared_with_that_of_the_whole(tmp_path):
    sugarcrepe_sheet(tmp_path / "RN50" / "part.parquet", {"swap_obj": 2, "add_att": 4})
    cells = {column: one for (_, column), one in cells_of(reproduce("sugarcrepe-6", sheets=tmp_path)).items()}
    assert cells["SWAP Object"].ours == 0.5
    assert cells["Average"].ours is None
    assert cells["Average"].why == "the sheet lacks add_obj, replace_att, replace_obj, replace_rel, swap_att"
    assert cells["ADD Object"].why == "the sheet has no such examples"


def test_remarks_tell_ties_missing_images_precision_and_activation(tmp_path):
    sugarcrepe_sheet(
        tmp_path / "RN50" / "a.parquet",
        tied={("add_att", 0), ("add_att", 1)},
        lost={"swap_obj/0"},
        dtype="float16",
        settings={"activation_mismatch": "yes", "activation": "gelu"},
    )
    [remark] = [remark for remark in reproduce("sugarcrepe-6", sheets=tmp_path).remarks if remark.startswith("RN50")]
    # 2 of 27 examples
    assert remark == (
        "RN50: 1 of 28 examples of sugarcrepe/itm lack their image; ties decide 7.4 % of sugarcrepe/itm and count as "
        "wrong (sugarcrepe_itm); scored in float16; computed with gelu, which its weights were not trained with."
    )
    half = reproduce("sugarcrepe-6", sheets=tmp_path, ties="right")
    assert cells_of(half)["RN50", "ADD Attribute"].ours == 3 / 4
    assert cells_of(reproduce("sugarcrepe-6", sheets=tmp_path))["RN50", "ADD Attribute"].ours == 1 / 4


def test_sheets_are_known_by_folder_then_by_name_or_model(tmp_path):
    sugarcrepe_sheet(tmp_path / "GPT-4V-33" / "x.parquet", name="answers")  # the folder of its row
    sugarcrepe_sheet(tmp_path / "runs" / "a.parquet", name="Vera [27]", family="answers")
    sugarcrepe_sheet(tmp_path / "runs" / "b.parquet", family="open_clip", checkpoint="RN101-quickgelu/openai")
    sugarcrepe_sheet(
        tmp_path / "runs" / "c.parquet", family="open_clip", checkpoint="ViT-B-32 (pretrained=negclip.pth)"
    )
    sugarcrepe_sheet(tmp_path / "runs" / "d.parquet", family="open_clip", checkpoint="RN101/openai")  # of no row
    # In the folder of another row: of that row, whatever its model.
    sugarcrepe_sheet(tmp_path / "RN50" / "e.parquet", family="open_clip", checkpoint="ViT-H-14/laion2b_s32b_b79k")
    result = reproduce("sugarcrepe-6", sheets=tmp_path)
    assert {one.row.name for one in result.comparisons} == {
        "GPT-4V [33]", "Vera [27]", "RN101", "ViT-B-32-negclip", "RN50",
    }  # fmt: skip
    sugarcrepe_sheet(tmp_path / "again" / "RN101" / "b.parquet")
    with pytest.raises(SheetError, match=r"b\.parquet and .*b\.parquet are both of RN101 on sugarcrepe/itm"):
        reproduce("sugarcrepe-6", sheets=tmp_path)
    with pytest.raises(SheetError, match=r"there is no folder .*nowhere"):
        reproduce("sugarcrepe-6", sheets=tmp_path / "nowhere")


def test_settings_tell_rows_of_one_checkpoint_apart(tmp_path):
    rows = [MatchingRow("r/0", "coco_order", "coco_order", ["i"], [0], [[1.0, 0.0, 0.0, 0.0, 0.0]])]
    benchmark = {"name": "aro", "task": "coco_order", "configs": ["coco_order"], "rows": 1, "missing": []}
    model = {
        "name": "blip",
        "family": "blip",
        "checkpoint": "Salesforce/blip-itm-base-coco",
        "settings": {"head": "itm"},
    }
    write_sheet(tmp_path / "a.parquet", Sheet(rows, {"benchmark": benchmark, "model": model, "run": {}}))
    with pytest.raises(ModelError, match=r"no model of aro-5 to compare with\. BLIP \(Flickr30k-PRC\): no sheet of it"):
        reproduce("aro-5", sheets=tmp_path)
    model["settings"] = {"head": "aro", "first": "enc"}
    write_sheet(tmp_path / "a.parquet", Sheet(rows, {"benchmark": benchmark, "model": model, "run": {}}))
    result = reproduce("aro-5", sheets=tmp_path)
    [cell] = result.comparisons
    assert (cell.row.name, cell.printed, cell.published, cell.ours) == ("BLIP (COCO-PRC)", "0.321±0.001", 0.321, 1.0)
    [entry] = json.loads(as_json(result))["comparisons"]
    assert entry["paper"]["column"] == "Accuracy"


# --- which models are run -------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch):
    """What `score` was asked for; every library is there, and nothing is computed."""
    made = []

    def score(model, tasks, **options):
        made.append((model, tasks, options))
        raise ModelError(f"no network for {model}")

    monkeypatch.setattr(module, "score", score)
    monkeypatch.setattr(module, "get_family", lambda name: None)
    return made


def test_every_model_that_can_be_loaded_is_run_with_its_settings(calls, tmp_path):
    with pytest.raises(ModelError, match=r"no model of aro-2 to compare with\. CLIP: no network for clip:openai"):
        reproduce("aro-2", out=tmp_path, weights=tmp_path, data_dir="aro")
    assert [(model, options["settings"]) for model, _, options in calls] == [
        ("clip:openai/clip-vit-base-patch32", {}),
        ("blip:Salesforce/blip-itm-base-coco", {"head": "aro"}),
        ("flava:facebook/flava-full", {"head": "itm"}),
    ]
    assert all(tasks == ["aro/relation"] and options["data_dir"] == "aro" for _, tasks, options in calls)
    (tmp_path / "negclip.pth").write_bytes(b"")
    calls.clear()
    with pytest.raises(ModelError, match="no network for open_clip:ViT-B-32"):
        reproduce("aro-2", models=["NegCLIP"], weights=tmp_path, out=tmp_path)
    [(model, _, options)] = calls
    assert (model, options["settings"]) == ("open_clip:ViT-B-32", {"pretrained": str(tmp_path / "negclip.pth")})
    assert options["out"] == tmp_path / "NegCLIP"


def test_rows_of_two_data_sets_are_run_on_their_own(calls, tmp_path):
    with pytest.raises(ModelError):
        reproduce("aro-5", models=["blip"], out=tmp_path)
    assert [(model, tasks) for model, tasks, _ in calls] == [
        ("blip:Salesforce/blip-itm-base-flickr", ["aro/flickr30k_order"]),
        ("blip:Salesforce/blip-itm-base-coco", ["aro/coco_order"]),
    ]
    calls.clear()
    with pytest.raises(ModelError):
        reproduce("aro-5", models=["Flava (COCO-PRC)"], out=tmp_path)
    assert [tasks for _, tasks, _ in calls] == [["aro/coco_order"]]
    calls.clear()
    with pytest.raises(ModelError):
        reproduce("hard-positives-8", models=["OpenCLIP ViT-g/14"], out=tmp_path)
    assert calls[0][:2] == (
        "open_clip:ViT-g-14/laion2b_s34b_b88k",
        ["hard_positives/replace", "hard_positives/swap"],
    )


@pytest.mark.parametrize(
    ("table", "model", "message"),
    [
        ("aro-2", "XVLM", r'XVLM of aro-2 cannot be run: X-VLM .* say --use "XVLM=answers:FILE"'),
        ("tricd-3", "GLIP-L", r'GLIP is in neither .* say --use "GLIP-L=answers:FILE"'),
        ("aro-2", "NegCLIP", r"there is no .*negclip\.pth; fetch negclip\.pth \(from ARO's authors: gdown 1ooVVPx"),
        ("hard-positives-1", "Our HN", r"fetch coco_crepe_negs\.pt \(the authors' code .* ask them\)"),
        ("sugarcrepe-6", "Human", "Human of sugarcrepe-6 cannot be run: people, not a model"),
        ("hard-positives-1", "Random Chance", "chance, not a model"),
    ],
)
def test_a_row_that_cannot_be_run_says_why(table, model, message, tmp_path):
    with pytest.raises(ModelError, match=message):
        reproduce(table, models=[model], weights=tmp_path, out=tmp_path)


def test_unknown_rows_are_refused_with_those_that_there_are(tmp_path):
    for arguments in ({"models": ["RN51"]}, {"use": {"RN51": "demo-clip"}}):
        with pytest.raises(UnknownNameError, match=r"unknown model of sugarcrepe-6 'RN51'; known: Human, Vera \[27\]"):
            reproduce("sugarcrepe-6", out=tmp_path, **arguments)
    with pytest.raises(UnknownNameError, match="tie policy 'maybe'"):
        reproduce("sugarcrepe-6", ties="maybe")


def test_status_sorts_all_models_by_what_they_need(monkeypatch, tmp_path):
    def get_family(name):
        if name == "open_clip":
            raise ModelError("no module named open_clip")

    monkeypatch.setattr(module, "get_family", get_family)
    found = status(tmp_path)
    assert list(found) == list(all_tables())
    assert found["aro-2"] == {
        "nothing": ["CLIP", "BLIP", "Flava"], "a library": [], "weights": ["NegCLIP"], "answers": ["CLIP-FT", "XVLM"],
    }  # fmt: skip
    assert found["sugarcrepe-6"]["nothing"] == ["Vera [27]", "Grammar [31]", "ViT-B-32", "ViT-L-14"]
    assert len(found["sugarcrepe-6"]["a library"]) == 15
    (tmp_path / "negclip.pth").write_bytes(b"")
    assert status(tmp_path)["aro-2"]["a library"] == ["NegCLIP"]


# --- from checkpoint to table, on stand-ins -------------------------------------------------------------------


def assert_is_what_the_sheets_give(result, folder):
    """Every value of ours is in what `judge` says of the sheets, and none is missing that could be there."""
    said = judge(sorted(folder.rglob("*.parquet")))
    for one in result.comparisons:
        assert (one.ours is None) == (not one.column.task), one.column.name
        if one.column.task:
            [scores] = [r.scores for r in said if f"{r.benchmark['name']}/{r.benchmark['task']}" == one.column.task
                        and r.metric == one.column.metric]  # fmt: skip
            for key in one.column.score:
                scores = scores[key]
            assert one.ours == scores


def test_a_clip_checkpoint_on_sugarcrepe(tiny_clip, tmp_path):
    options = sources_sugarcrepe.make(tmp_path / "coco")
    result = reproduce(
        "sugarcrepe-6",
        models=["RN50", "rn101"],
        use={"RN50": str(tiny_clip), "RN101": f"clip:{tiny_clip}"},
        data_dir=tmp_path / "coco",
        options=options,
        out=tmp_path / "out",
        **QUIET,
    )
    assert len(result.comparisons) == 16
    assert_is_what_the_sheets_give(result, tmp_path / "out" / "RN50")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "RN101", "RN50", "sugarcrepe-6.json", "sugarcrepe-6.md",
    ]  # fmt: skip
    # The sheets give the same comparison again, without a model.
    again = reproduce("sugarcrepe-6", sheets=tmp_path / "out", models=["RN50", "RN101"])
    assert again.comparisons == result.comparisons
    by_model = reproduce(
        "sugarcrepe-6", models=["RN50"], sheets=tmp_path / "out" / "RN50", use={"RN50": str(tiny_clip)}
    )
    assert len(by_model.comparisons) == 8


def test_a_model_that_fails_is_named_and_the_others_go_on(tiny_clip, tmp_path):
    options = sources_sugarcrepe.make(tmp_path / "coco")
    broken = tmp_path / "broken"
    shutil.copytree(tiny_clip, broken)
    (broken / "model.safetensors").write_bytes(b"nonsense")
    result = reproduce(
        "sugarcrepe-6",
        models=["RN50", "RN101"],
        use={"RN50": str(broken), "RN101": str(tiny_clip)},
        data_dir=tmp_path / "coco",
        options=options,
        out=tmp_path / "out",
        **QUIET,
    )
    assert {one.row.name for one in result.comparisons} == {"RN101"}
    assert "cannot load" in result.failed["RN50"]
    assert "## Failed\n\n- RN50: cannot load" in to_markdown(result)
    with pytest.raises(DataError):  # data that cannot be used stop them all
        reproduce("sugarcrepe-6", use={"RN50": str(tiny_clip)}, models=["RN50"], data_dir=tmp_path / "no", **QUIET)


@pytest.fixture(scope="module")
def detections(tmp_path_factory):
    """A detector's checkpoint, and the folder of its results on a small TRICD."""
    folder = tmp_path_factory.mktemp("tricd")
    options = sources_tricd.make(folder / "data")
    model = f"owlvit:{folder / 'tiny-owl'}"
    tiny_owlvit(folder / "tiny-owl")
    where = {"data_dir": folder / "data", "options": options, "out": folder / "out"}
    result = reproduce("tricd-3", models=["OWL-ViT"], use={"OWL-ViT": model}, **where, **QUIET)
    assert_is_what_the_sheets_give(result, folder / "out")
    return model, folder / "out"


@pytest.mark.parametrize("table", ["tricd-3", "tricd-5", "tricd-6", "tricd-8"])
def test_a_detector_on_tricd_says_that_it_is_not_the_papers_test_set(table, detections, tmp_path):
    model, folder = detections
    owl = "OWL-ViT" if table == "tricd-3" else "OWL-VIT"
    result = reproduce(table, models=[owl], use={owl: model}, sheets=folder, out=tmp_path)
    assert_is_what_the_sheets_give(result, folder)
    cells = {column: one for (_, column), one in cells_of(result).items()}
    text = to_markdown(result)
    if table == "tricd-8":
        assert list(cells) == ["COCO objects", "COCO relations", "All"]
    else:
        assert cells["Wino"].why == "the public validation set has no Winoground part"
        assert "The paper's values are of its test set, which is not public." in text
    assert f"{owl}: the paper says 'a very large ViT' and names no checkpoint" in text


@pytest.mark.parametrize("table", ["hard-positives-1", "hard-positives-7", "hard-positives-8"])
def test_a_clip_checkpoint_on_hard_positives(table, tiny_clip, tmp_path):
    options = sources_hard_positives.make(tmp_path / "data")
    result = reproduce(
        table,
        models=["CLIP ViT-B/32"],
        use={"CLIP ViT-B/32": str(tiny_clip)},
        data_dir=tmp_path / "data",
        options=options,
        out=tmp_path / "out",
        **QUIET,
    )
    assert len(result.comparisons) == 6
    assert_is_what_the_sheets_give(result, tmp_path / "out")
    assert [path.parent.name for path in (tmp_path / "out").rglob("*.parquet")][:1] == ["CLIP-ViT-B-32"]


def test_blip_on_aro_is_scored_as_its_authors_do(tmp_path):
    options = sources_aro.make(tmp_path / "data")
    tiny_blip(tmp_path / "tiny-blip")
    for table, rows in (("aro-2", ["BLIP"]), ("aro-5", ["BLIP (Flickr30k-PRC)", "BLIP (COCO-PRC)"])):
        result = reproduce(
            table,
            models=["BLIP"],
            use={"BLIP": f"blip:{tmp_path / 'tiny-blip'}"},
            data_dir=tmp_path / "data",
            options=options,
            out=tmp_path / table,
            **QUIET,
        )
        assert list(dict.fromkeys(one.row.name for one in result.comparisons)) == rows
        for path in (tmp_path / table).rglob("*.parquet"):
            assert read_sheet(path).metadata["model"]["settings"]["head"] == "aro"
    assert_is_what_the_sheets_give(result, tmp_path / "aro-5")


def test_answers_from_elsewhere_fill_a_row(tmp_path):
    options = sources_aro.make(tmp_path / "data")
    records = json.loads((tmp_path / "data" / "visual_genome_relation.json").read_text())
    lines = [f'vg_relation/{n},"[1, {n % 2 * 2}]"' for n in range(len(records))]
    (tmp_path / "xvlm.csv").write_text("id,scores\n" + "\n".join(lines) + "\n")
    result = reproduce(
        "aro-2",
        models=["XVLM"],
        use={"XVLM": f"answers:{tmp_path / 'xvlm.csv'}"},
        data_dir=tmp_path / "data",
        options=options,
        out=tmp_path / "out",
        **QUIET,
    )
    cells = {column: one for (_, column), one in cells_of(result).items()}
    # 12 rows of on, eating, to the left of and next to in turn: the even ones, on and to the left of, are right.
    found = [cells[name].ours for name in ("on", "eating", "to the left of", "Accuracy")]
    assert found == [1, 0, 1, pytest.approx(2 / 3)]


# --- the command ----------------------------------------------------------------------------------------------


def invoke(*arguments):
    result = CliRunner().invoke(build_app(), ["reproduce", *map(str, arguments)], env={"COLUMNS": "120"})
    return result.exit_code, result.output, result.exception


def test_the_command_lists_the_tables():
    code, output, _ = invoke()
    assert code == 0
    assert all(name in output for name in all_tables())
    code, output, _ = invoke("--json")
    assert json.loads(output)["tricd-3"]["answers"] == ["MDETR", "GLIP-T", "GLIP-L", "FIBER", "DETIC"]


def test_the_command_compares_and_prints(tiny_clip, tmp_path):
    sources_sugarcrepe.make(tmp_path / "coco")
    arguments = ["sugarcrepe-6", "--models", "RN50", "--models", "RN101", "--use", f"RN50={tiny_clip}"]
    arguments += ["--use", "RN101=no-such-model", "--data-dir", tmp_path / "coco", "-o", "verify=false"]
    code, output, _ = invoke(*arguments, "--out", tmp_path / "out")
    assert code == 1  # one of the two models failed
    assert "published values lie inside our intervals (95 %, over images)" in output
    assert re.search(r"Failed\n- RN101: unknown model 'no-such-model'", output)
    assert "REPLACE Attribute" in output
    code, output, _ = invoke("sugarcrepe-6", "--sheets", tmp_path / "out", "--json")
    assert code == 0
    document = json.loads(output)
    assert document["schema"] == "vl-assay/reproduction"
    assert document == json.loads((tmp_path / "out" / "sugarcrepe-6.json").read_text())
    _, _, error = invoke("sugarcrepe-6", "--use", "RN50")
    assert "--use 'RN50' names no model for a row; write LABEL=MODEL" in str(error)
