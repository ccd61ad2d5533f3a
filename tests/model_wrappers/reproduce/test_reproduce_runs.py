"""Reproducing the papers' tables from model to table, on stand-ins for models and data."""

from __future__ import annotations

import json
import shutil

import pytest
import sources_hard_positives
import sources_retrieval
import sources_sugarcrepe
import sources_tricd
from console import invoke
from hub_server import serving_hub
from huggingface_hub import constants
from reproduce_support import cells_of

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.published.tables import get_table
from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.results import compute
from vl_assay.model_wrappers.reproduce.reproduce import reproduce

MOCK = "mock:shuffled"


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setitem(compute.DEFAULTS, "resamples", 100)


def assert_is_what_the_predictions_give(result, folder):
    """Every value of ours is in the report of the predictions, and none is missing."""
    scores = {
        (f"{each.benchmark['name']}/{each.benchmark['task']}", each.metric): each.scores
        for each in report(sorted(folder.rglob("*.parquet")))
    }
    for one in result.comparisons:
        expected = scores[one.column.task, one.column.metric] if one.column.task else None
        for key in one.column.score if expected else ():
            expected = expected[key]
        assert one.ours == expected, one.column.name


def run(table, sources, folder, use, models=None):
    """Reproduce rows of a table with other models, on small sources made in a folder."""
    options = sources.make(folder / "sources")
    where = {"data_dir": folder / "sources", "options": options, "out": folder / "out", "progress": False}
    return reproduce(table, models=models or list(use), use=use, **where)


def test_a_model_that_fails_is_named_and_the_others_are_run(tmp_path):
    use = {"RN50": MOCK, "RN101": "no-such-model"}
    result = run("sugarcrepe-6", sources_sugarcrepe, tmp_path, use, models=["RN50", "rn101"])
    assert len(result.comparisons) == 8
    assert_is_what_the_predictions_give(result, tmp_path / "out" / "RN50")
    assert "unknown model" in result.failed["RN101"]
    assert "- Failed: RN101: unknown model" in (tmp_path / "out" / "sugarcrepe-6.md").read_text()
    # The predictions give the same comparison again, without a model: by the folder, or by the model's name.
    again = reproduce("sugarcrepe-6", predictions=tmp_path / "out", models=["RN50"])
    assert again.comparisons == result.comparisons
    again = reproduce("sugarcrepe-6", models=["RN50"], predictions=tmp_path / "out" / "RN50", use=use)
    assert again.comparisons == result.comparisons
    with pytest.raises(DataError):  # data that cannot be used stop all models
        reproduce("sugarcrepe-6", use=use, models=["RN50"], data_dir=tmp_path / "no", progress=False)


def test_offline_no_model_is_downloaded(tiny_clip, tmp_path, monkeypatch):
    shutil.copytree(tiny_clip, tmp_path / "ada" / "clip")
    sources_sugarcrepe.make(tmp_path / "sources")
    chosen = ("--models", "RN50", "--use", "RN50=clip:ada/clip", "--data-dir", tmp_path / "sources")
    words = (*chosen, "--option", "verify=false", "--out", tmp_path / "out")
    with serving_hub(tmp_path, monkeypatch) as hub:
        error = invoke("reproduce", "sugarcrepe-6", *words, "--offline").exception
        assert "RN50: cannot load ada/clip as clip" in str(error)
        assert (hub.revisions, hub.requests) == ([], {})
        assert not constants.HF_HUB_OFFLINE  # the next run in this process downloads again


def test_values_of_tricd_are_not_compared_with_those_of_the_papers_test_set(tmp_path):
    result = run("tricd-3", sources_tricd, tmp_path, {"OWL-ViT": MOCK})
    assert_is_what_the_predictions_give(result, tmp_path / "out")
    assert cells_of(result)["Wino"].why == "the public validation set has no Winoground part"
    text = result.to_markdown()
    assert "The paper's values are of its test set, which is not public." in text
    assert "Not comparable: the paper's values are of other data. None is counted." in text
    assert {(one.inside, one.difference) for one in result.comparisons} == {(None, None)}
    assert "OWL-ViT: the paper says 'a very large ViT' and names no checkpoint" in text
    # Table 8 has the validation set.
    result = reproduce("tricd-8", models=["OWL-VIT"], use={"OWL-VIT": MOCK}, predictions=tmp_path / "out")
    assert {name: one.difference is None for name, one in cells_of(result).items()} == dict.fromkeys(
        ("COCO objects", "COCO relations", "All"), False
    )


def test_one_run_of_hard_positives_fills_all_its_tables(tmp_path):
    result = run("hard-positives-9", sources_hard_positives, tmp_path, {"CLIP": MOCK})
    assert len(result.comparisons) == 2
    assert_is_what_the_predictions_give(result, tmp_path / "out")
    (tmp_path / "out" / "CLIP").rename(tmp_path / "runs")
    rows = dict.fromkeys([f"hard-positives-{number}" for number in (1, 7)], "CLIP ViT-B/32")
    for table, row in (rows | {"hard-positives-3": "0.25 HN"}).items():
        result = reproduce(table, models=[row], use={row: MOCK}, predictions=tmp_path / "runs")
        assert len(result.comparisons) == len(get_table(table).columns)
        assert_is_what_the_predictions_give(result, tmp_path / "runs")


def test_a_table_of_several_benchmarks_runs_those_whose_data_are_there(tmp_path):
    """Retrieval is drawn for each seed; without shuffles a seed changes nothing, so it is run once."""
    data, use = tmp_path / "data", {"CLIP": MOCK, "Flava": MOCK}
    where = {"data_dir": data, "options": sources_retrieval.make(data / "retrieval"), "out": tmp_path / "out"}
    rows = ["CLIP (COCO Image Shuffle)", "Flava (COCO Image Shuffle)"]
    result = reproduce("aro-4", models=rows, use=use, seeds=iter((0, 1)), progress=False, **where)
    cells = cells_of(result)
    plain, shuffled = cells["COCO, No Shuffling: Text Recall@1"], cells["COCO, Shuffle Patches (9): Text Recall@1"]
    assert (len(plain.predictions), plain.deviation) == (1, None)
    assert len(shuffled.predictions) == 2
    assert shuffled.deviation is not None
    assert len(result.comparisons) == 2 * 16
    # Table 6 of ARO has the same sets, and tasks of ARO itself, whose data are not here.
    runs = tmp_path / "out" / "CLIP-COCO-Image-Shuffle"
    cells = cells_of(reproduce("aro-6", models=["CLIP"], predictions=runs, use={"CLIP": MOCK}))
    assert cells["COCO Text R@1"].ours == plain.ours
    assert cells["VG-Relation"].why == "no predictions of aro/relation"
    assert cells["ImageNet"].why.startswith("the paper does not say how it classifies")


def test_the_command_compares_and_prints(tmp_path):
    sources_sugarcrepe.make(tmp_path / "coco")
    arguments = ["sugarcrepe-6", "--models", "RN50", "--models", "RN101", "--use", f"RN50={MOCK}"]
    arguments += ["--use", "RN101=no-such-model", "--data-dir", tmp_path / "coco", "-o", "verify=false"]
    compared = invoke("reproduce", *arguments, "--out", tmp_path / "out")
    assert compared.exit_code == 1  # one of the two models failed
    assert "published values lie inside our intervals (95 %, over images)" in compared.output
    # The published table and what will be run come first.
    before, _, after = compared.output.partition("To be run: 2 of 22 rows (RN50, RN101) on sugarcrepe/itm.")
    assert "Table 6: published" in before
    assert "91.77" in before
    assert "published and ours" in after
    # Beside the predictions, only the models of --use are run.
    arguments = ["--predictions", tmp_path / "out", "--use", "RN101=mock:constant", *arguments[-4:]]
    assert invoke("reproduce", "sugarcrepe-6", *arguments).exit_code == 0
    document = json.loads((tmp_path / "out" / "sugarcrepe-6.json").read_text())
    assert document["schema"] == "vl-assay/reproduction"
    assert {each["model"] for each in document["comparisons"]} == {"RN50", "RN101"}
    assert document["not_run"]["ViT-B-32"] == "no predictions"
