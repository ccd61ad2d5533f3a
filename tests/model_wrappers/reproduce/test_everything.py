"""`reproduce --all`: every table and figure of the papers has a line with its state and what became of it here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from console import invoke
from huggingface_hub import constants
from test_reproduce import sugarcrepe_predictions

from vl_assay.hub_datasets.core.listing import without_network
from vl_assay.hub_datasets.published.inventory import paper_names, read_inventory
from vl_assay.metrics.common.errors import ModelError, UnknownNameError
from vl_assay.model_wrappers.reproduce.everything import inventory_page, reproduce_all


@pytest.fixture(scope="module")
def made(shared_data, tmp_path_factory):
    """The folder of the pages that are made of the released files, and the outcomes by paper and item."""
    folder = tmp_path_factory.mktemp("papers")
    release = shared_data / "data" / "sugarcrepe" / "gpt4v"
    use = {"GPT-4V": f"precomputed:{release}"}
    outcomes = reproduce_all(folder, data_dir=shared_data / "data", use=use, offline=True)
    return folder, {(each.item.paper, each.item.item): each for each in outcomes}


def test_released_files_make_statistics_answers_and_figures(made):
    folder, outcomes = made
    made_here = {key for key, each in outcomes.items() if each.is_made}
    assert made_here >= {
        *(("aro", item) for item in ("Table 1", "Figure 2", "Figure 3")),
        *(("sugarcrepe", item) for item in ("Table 2", "Table 6", "Table 6, GPT-4V", "Figure 2", "Figure 4")),
        *(("tricd", item) for item in ("Table 1", "Table 7", "Figure 5", "Figure 8")),
        ("hard-positives", "Table 1"),
    }
    assert outcomes["tricd", "Table 7"].text == "24 of 24 published values equal ours to the last printed digit."
    assert outcomes["tricd", "Table 1"].text.startswith("Not comparable")
    answers = outcomes["sugarcrepe", "Table 6, GPT-4V"].text
    assert answers.endswith("answers to one order of the captions alone.")  # the other order is not at hand
    assert sorted(path.name for path in folder.glob("*.png")) == [
        *("aro-figure-2-image.png", "aro-figure-2-text.png", "aro-figure-3.png", "hard-positives-ranks.png"),
        *("sugarcrepe-figure-2.png", "tricd-figure-5.png", "tricd-figure-8.png"),
    ]


def test_every_item_has_a_line_in_the_page_of_its_paper_and_an_entry(made):
    folder, outcomes = made
    assert len(outcomes) == len(read_inventory())
    for (paper, item), each in outcomes.items():
        assert f"| {item} | {each.item.what} | {each.item.state} | " in (folder / f"{paper}.md").read_text()
    entries = json.loads((folder / "papers.json").read_text())["items"]
    assert {(entry["paper"], entry["item"]): entry["is_made"] for entry in entries} == {
        key: each.is_made for key, each in outcomes.items()
    }
    index = (folder / "index.md").read_text()
    for paper, name in paper_names().items():
        assert f"[{name}]({paper}.md)" in index
    assert (folder / "inventory.md").read_text() == inventory_page()


def test_what_cannot_be_made_says_why(made):
    _, outcomes = made
    assert "no predictions of models that see no images" in outcomes["sugarcrepe", "Figure 1"].text
    assert outcomes["sugarcrepe", "Table 9"].text == "as printed alone: a count of people's judgements."
    assert [part.title for part in outcomes["sugarcrepe", "Table 9"].parts] == ["As printed"]
    reason = "not in this run: neither predictions nor released answers of its models are given."
    assert outcomes["aro", "Table 2"].text == reason
    assert [each.item for each in outcomes.values() if not each.text and each.item.item.startswith("Table")
            and each.item.state in ("command", "here")] == []  # fmt: skip


def test_predictions_are_compared_with_all_tables_that_have_their_models(tmp_path):
    predictions = tmp_path / "predictions"
    sugarcrepe_predictions(predictions / "a.parquet", family="clip", checkpoint="openai/clip-vit-base-patch32")
    (tmp_path / "data").mkdir()
    arguments = [
        "--out",
        tmp_path / "papers",
        "--predictions",
        predictions,
        "--data-dir",
        tmp_path / "data",
    ]
    result = invoke("reproduce", "--all", *arguments)
    assert result.exit_code == 0, result.output
    assert "made in this run, see" in result.output
    page = (tmp_path / "papers" / "sugarcrepe.md").read_text(encoding="utf-8")
    assert "[sugarcrepe-6](sugarcrepe-6/sugarcrepe-6.md): " in page
    assert "[sugarcrepe-5](sugarcrepe-5/sugarcrepe-5.md): " in page
    assert (tmp_path / "papers" / "sugarcrepe-5" / "sugarcrepe-5.md").is_file()
    refused = invoke("reproduce", "sugarcrepe-6", "--all")
    assert "--all is of every table" in str(refused.exception)


def test_labels_and_folders_that_do_not_exist_are_refused(tmp_path):
    with pytest.raises(UnknownNameError, match=r"unknown row of the papers' tables 'GPT-5'; known: .*GPT-4V"):
        reproduce_all(tmp_path / "out", use={"GPT-5": "demo-clip"})
    with pytest.raises(ModelError, match=r"there is no folder .*nowhere to take the sources from"):
        reproduce_all(tmp_path / "out", data_dir=tmp_path / "nowhere")


def test_without_the_network_nothing_is_downloaded_until_the_end():
    before = constants.HF_HUB_OFFLINE
    with without_network():
        assert constants.HF_HUB_OFFLINE is True
    assert before == constants.HF_HUB_OFFLINE


def test_the_document_of_the_papers_tables_and_figures_is_true():
    assert (Path(__file__).parents[3] / "docs" / "papers.md").read_text(encoding="utf-8") == inventory_page()
