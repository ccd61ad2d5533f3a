"""`reproduce --all`: a page for each paper, and derived values from printed values, released data and predictions."""

from __future__ import annotations

from pathlib import Path

import pytest
import sources_sugarcrepe
from console import invoke
from reproduce_support import matching, sugarcrepe_predictions, write

from vl_assay.hub_datasets.published.inventory import STATES, paper_names, read_inventory, summarise
from vl_assay.hub_datasets.published.tables import get_table
from vl_assay.metrics.common.documents import bullets, simple_table, to_markdown
from vl_assay.metrics.common.errors import DataError, UnknownNameError
from vl_assay.model_wrappers.reproduce import analyses, papers
from vl_assay.model_wrappers.reproduce.analyses import AnalysisInput
from vl_assay.model_wrappers.reproduce.comparison import examples_of
from vl_assay.model_wrappers.reproduce.papers import reproduce_all
from vl_assay.model_wrappers.reproduce.reproduce import reproduce, scan_predictions


@pytest.fixture(scope="module")
def made(shared_data, tmp_path_factory):
    """The folder of the pages made of TRICD and of predictions, and the findings of the pages by paper and item."""
    folder = tmp_path_factory.mktemp("papers")
    (folder / "data").mkdir()
    (folder / "data" / "tricd").symlink_to(shared_data / "data" / "tricd")
    model = {"family": "clip", "checkpoint": "openai/clip-vit-base-patch32"}
    sugarcrepe_predictions(folder / "predictions" / "a.parquet", **model)
    sugarcrepe_predictions(folder / "predictions" / "GPT-4V-33" / "b.parquet", run={"orders": 1})
    inputs = ["--predictions", folder / "predictions", "--data-dir", folder / "data"]
    result = invoke("reproduce", "--all", "--offline", "--out", folder / "out", *inputs)
    assert result.exit_code == 0, result.output
    assert "made in this run, see" in result.output
    texts = {}
    for item in read_inventory():
        page = (folder / "out" / f"{item.paper}.md").read_text(encoding="utf-8")
        start = f"| {item.item} | {item.what} | {item.state} | "
        [line] = [line for line in page.splitlines() if line.startswith(start)]
        texts[item.paper, item.item] = line.removeprefix(start).partition(" |")[0]
    return folder / "out", texts


def test_items_are_made_from_printed_values_released_data_and_predictions(made):
    folder, texts = made
    computed = {key for key, text in texts.items() if text.startswith("Computed below")}
    assert computed == {("aro", "Table 1"), ("sugarcrepe", "Figure 2"), ("sugarcrepe", "Figure 4")} | {
        *(("aro", f"Figure {number}") for number in (2, 3)),
        *(("tricd", f"Figure {number}") for number in (5, 8)),
    }
    assert texts["tricd", "Table 7"] == "24 of 24 published values equal ours to the last printed digit"
    assert texts["tricd", "Table 1"].startswith("Not comparable")
    assert texts["hard-positives", "Table 1"].endswith("What follows from its values is below")
    assert texts["sugarcrepe", "Table 6, GPT-4V"].endswith("answers to one order of the captions alone")
    page = (folder / "sugarcrepe.md").read_text(encoding="utf-8")
    for table in ("sugarcrepe-5", "sugarcrepe-6"):
        assert f"[{table}]({table}/{table}.md): " in page
        assert (folder / table / f"{table}.md").is_file()
    index = (folder / "index.md").read_text()
    assert all(f"[{name}]({paper}.md)" in index for paper, name in paper_names().items())


def test_what_cannot_be_made_says_why(made):
    folder, texts = made
    assert "no predictions of models that see no images" in texts["sugarcrepe", "Figure 1"]
    assert texts["sugarcrepe", "Table 9"] == "as printed alone: a count of people's judgements"
    assert "## As printed" in (folder / "sugarcrepe.md").read_text()
    reason = "not in this run: neither predictions nor released answers of its models are given"
    assert texts["aro", "Table 2"] == reason
    with pytest.raises(UnknownNameError, match=r"unknown row of the papers' tables 'GPT-5'; known: .*GPT-4V"):
        reproduce_all(folder, use={"GPT-5": "demo-clip"})
    with pytest.raises(DataError, match=r"the data folder .*nowhere is not a folder"):
        reproduce_all(folder, data_dir=folder / "nowhere")
    assert "--all is of every table" in str(invoke("reproduce", "sugarcrepe-6", "--all").exception)


def test_the_dtype_is_that_of_the_models_that_run(tmp_path, monkeypatch):
    monkeypatch.setattr(papers, "all_tables", lambda: {"sugarcrepe-6": get_table("sugarcrepe-6")})
    options = sources_sugarcrepe.make(tmp_path / "data" / "sugarcrepe")
    where = {"data_dir": tmp_path / "data", "options": options, "use": {"RN50": "mock:shuffled"}}
    texts = [result.text for result in reproduce_all(tmp_path / "out", dtype="flaot16", **where)]
    assert any("unknown dtype 'flaot16'" in text for text in texts)


def test_the_document_of_the_papers_tables_and_figures_is_the_inventory():
    states = bullets([f"{state}: {meaning}" for state, meaning in STATES.items()])
    parts = [f"All tables and figures: {summarise(read_inventory())}.", *states]
    for paper, name in paper_names().items():
        rows = [[item.item, item.what, item.state, item.how] for item in read_inventory() if item.paper == paper]
        parts.append(simple_table(["", "shows", "state", "how, or why not"], rows, title=name))
    text = to_markdown(parts, "The papers' tables and figures", level=2)
    document = (Path(__file__).parents[3] / "docs" / "papers.md").read_text(encoding="utf-8")
    assert document == text, f"docs/papers.md should be:\n{text}"


def lines(table):
    """The cells of a table by the label of the row."""
    return {row.name: [cell.value for cell in row.cells] for row in table.rows}


def test_our_ranks_are_next_to_the_papers(tmp_path):
    scores = [[3.0, 2.0, 1.0], [3.0, 1.0, 2.0], [1.0, 3.0, 2.0], [1.0, 2.0, 3.0]]  # c, c_p, c_n
    rows = [matching("swap", each, str(n)) for n, each in enumerate(scores)]
    write(tmp_path / "DAC-LLM" / "a.parquet", rows, "hard_positives/swap", name="dac")
    compared = {"hard-positives-1": reproduce("hard-positives-1", predictions=tmp_path)}
    shares = lines(analyses.ranking(AnalysisInput(compared=compared))[0])
    # 87.6 - 48.9 = 38.7; 40.1 - 38.7 = 1.4; 100 - 48.9 - 40.1 = 11.0
    assert shares["DAC-LLM, REPLACE"] == ["48.9", "38.7", "1.4", "11.0"]
    assert shares["DAC-LLM, ours, SWAP"] == ["25.0", "25.0", "25.0", "25.0"]
    assert all(sum(map(float, row)) == pytest.approx(100, abs=0.11) for row in shares.values())


def test_stored_values_follow_from_printed_ones():
    [[shuffles], recalls, [negclip], [averages], [blind]] = analyses.derived().values()
    texts = [text for [text] in lines(shuffles).values()]
    assert len({tuple(sorted(text.split())) for text in texts}) == 1
    assert len({*texts}) == 5
    for table, name in zip(recalls, ("aro-3", "aro-4"), strict=True):
        printed = {}
        for row in get_table(name).rows:
            printed.setdefault(row.label, {}).update(get_table(name).values(row))
        for key, (plain, shuffle, recall, share) in lines(table).items():
            data, model, score = key.split(", ")
            by_shuffle = {k: v for k, v in printed[model].items() if k.startswith(f"{data}, ") and k.endswith(score)}
            assert by_shuffle[f"{data}, No Shuffling: {score}"] == float(plain)
            assert by_shuffle[f"{data}, {shuffle}: {score}"] == float(recall) == min(by_shuffle.values())
            assert share == f"{100 * float(recall) / float(plain):.0f} %"
    for clip, _, tuned, gain in lines(negclip).values():
        assert float(gain) == pytest.approx(float(tuned) - float(clip))
    for printed, ours in lines(averages).values():
        assert float(ours) == pytest.approx(float(printed), abs=0.11)  # of values that are rounded to .1
    assert [name for name, row in lines(blind).items() if row[-1] == "CLIP"] == ["VL-Checklist Object"]


def test_gaps_of_blind_models_are_those_of_their_scores(tmp_path):
    # Gaps 1, 2 - 0.5 = 1.5, 2 - 3 = -1 and 0: 2 of 4 and half a tie; at least 1 in 2 of 4, at most -1 in 1 of 4.
    scores = [[2.0, 1.0], [2.0, 0.5, 3.0], [1.0, 1.0]]
    rows = [matching("itm", each, str(n), "4") for n, each in enumerate(scores)]
    about = {"name": "vera", "family": "vera", "checkpoint": "v"}
    write(tmp_path / "a.parquet", rows, "crepe/productivity_swap", **about, sees_images=False)
    write(tmp_path / "b.parquet", rows, "crepe/productivity_swap", **{**about, "name": "clip"})
    source = AnalysisInput(scan_predictions(tmp_path))
    [table] = analyses.score_gaps(source)
    assert lines(table) == {"vera, crepe/productivity_swap": ["62.5", "0.375", "0.250", "4"]}
    audits, text = analyses.refinement_gaps(source)  # which shows the audits in any case
    assert "no predictions of models that see no images" in text
    assert [float(value) > 50 for value in lines(audits)["all"]] == [True, True]


def test_boxes_and_words_of_tricd_are_counted(shared_data):
    source = AnalysisInput(data_dir=shared_data / "data")
    [table] = analyses.boxes(source)
    examples = examples_of("tricd/val", source.data_dir, {})
    phrases = [phrase for example in examples for phrase in example.phrases]
    assert sum(int(cell) for row in lines(table).values() for cell in row) == sum(bool(each.boxes) for each in phrases)
    assert sum(map(int, lines(table)["1"])) == sum(len(each.boxes) == 1 for each in phrases)
    [text] = analyses.phrase_words(source)
    assert f"validation set's {len(phrases)} phrases: person (26), dog (16)" in text
    assert sum("dog" in each.text.lower().split() for each in phrases) == 16
