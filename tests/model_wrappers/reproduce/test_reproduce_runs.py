"""Reproducing the papers' tables from checkpoint to table, on stand-ins for models and data."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import sources_aro
import sources_sugarcrepe
import sources_tricd
from console import invoke
from test_reproduce import cells_of
from tiny_models import tiny_blip, tiny_owlvit

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.published.tables import all_tables
from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers.reproduce import reproduce as module
from vl_assay.model_wrappers.reproduce.report import to_markdown
from vl_assay.model_wrappers.reproduce.reproduce import reproduce


def assert_is_what_the_predictions_give(result, folder):
    """Every value of ours is in the report of the predictions, and none is missing."""
    assert_is_what_they_give(result, report(sorted(folder.rglob("*.parquet"))))


def assert_is_what_they_give(result, results):
    for one in result.comparisons:
        assert (one.ours is None) == (not one.column.task), one.column.name
        if one.column.task:
            [scores] = [r.scores for r in results if f"{r.benchmark['name']}/{r.benchmark['task']}" == one.column.task
                        and r.metric == one.column.metric]  # fmt: skip
            for key in one.column.score:
                scores = scores[key]
            assert one.ours == scores


def run(table, sources, place, use, models=None, out="out"):
    """Reproduce rows of a table with other models, on small sources made in a folder."""
    data = place / f"sources of {out}"
    where = {"data_dir": data, "options": sources.make(data), "out": place / out}
    return reproduce(table, models=models or list(use), use=use, **where, progress=False)


def test_a_clip_checkpoint_on_sugarcrepe(tiny_clip, tmp_path):
    use = {"RN50": str(tiny_clip), "RN101": f"clip:{tiny_clip}"}
    result = run("sugarcrepe-6", sources_sugarcrepe, tmp_path, use, models=["RN50", "rn101"])
    assert len(result.comparisons) == 16
    assert_is_what_the_predictions_give(result, tmp_path / "out" / "RN50")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "RN101", "RN50", "sugarcrepe-6.json", "sugarcrepe-6.md",
    ]  # fmt: skip
    # The predictions give the same comparison again, without a model.
    again = reproduce("sugarcrepe-6", predictions=tmp_path / "out", models=["RN50", "RN101"])
    assert again.comparisons == result.comparisons
    by_model = reproduce(
        "sugarcrepe-6", models=["RN50"], predictions=tmp_path / "out" / "RN50", use={"RN50": str(tiny_clip)}
    )
    assert len(by_model.comparisons) == 8


def test_a_model_that_fails_is_named_and_the_others_go_on(tiny_clip, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(tiny_clip, broken)
    (broken / "model.safetensors").write_bytes(b"nonsense")
    result = run("sugarcrepe-6", sources_sugarcrepe, tmp_path, {"RN50": str(broken), "RN101": str(tiny_clip)})
    assert {one.row.name for one in result.comparisons} == {"RN101"}
    assert "cannot load" in result.failed["RN50"]
    assert "## Failed\n\n- RN50: cannot load" in to_markdown(result)
    with pytest.raises(DataError):  # data that cannot be used stop them all
        reproduce(
            "sugarcrepe-6", use={"RN50": str(tiny_clip)}, models=["RN50"], data_dir=tmp_path / "no", progress=False
        )


@pytest.fixture(scope="module")
def detections(tmp_path_factory):
    """A detector's checkpoint, and the folder of its results on a small TRICD."""
    folder = tmp_path_factory.mktemp("tricd")
    model = f"owlvit:{tiny_owlvit(folder / 'tiny-owl')}"
    run("tricd-3", sources_tricd, folder, {"OWL-ViT": model})
    return model, folder / "out", report(sorted((folder / "out").rglob("*.parquet")))


@pytest.mark.parametrize("table", ["tricd-3", "tricd-5", "tricd-6", "tricd-8"])
def test_a_detector_on_tricd_says_that_it_is_not_the_papers_test_set(table, detections, tmp_path, monkeypatch):
    model, folder, results = detections
    monkeypatch.setattr(module, "report", lambda *_, **__: results)
    owl = "OWL-ViT" if table == "tricd-3" else "OWL-VIT"
    result = reproduce(table, models=[owl], use={owl: model}, predictions=folder, out=tmp_path)
    assert_is_what_they_give(result, results)
    cells = {column: one for (_, column), one in cells_of(result).items()}
    text = to_markdown(result)
    if table == "tricd-8":
        assert list(cells) == ["COCO objects", "COCO relations", "All"]
    else:
        assert cells["Wino"].why == "the public validation set has no Winoground part"
        assert "The paper's values are of its test set, which is not public." in text
        assert "Not comparable: the paper's values are of other data. None is counted." in text
        assert {(one.inside, one.difference) for one in result.comparisons} == {(None, None)}
    assert f"{owl}: the paper says 'a very large ViT' and names no checkpoint" in text


def test_blip_on_aro_is_scored_as_its_authors_do(tmp_path):
    use = {"BLIP": f"blip:{tiny_blip(tmp_path / 'tiny-blip')}"}
    for table, rows in (("aro-2", ["BLIP"]), ("aro-5", ["BLIP (Flickr30k-PRC)", "BLIP (COCO-PRC)"])):
        result = run(table, sources_aro, tmp_path, use, out=table)
        assert list(dict.fromkeys(one.row.name for one in result.comparisons)) == rows
        for path in (tmp_path / table).rglob("*.parquet"):
            assert read_predictions(path).metadata["model"]["settings"]["head"] == "aro"
    assert_is_what_the_predictions_give(result, tmp_path / "aro-5")


def test_the_command_lists_the_tables():
    listed = invoke("reproduce")
    assert listed.exit_code == 0
    assert all(name in listed.output for name in all_tables())
    tables = json.loads(invoke("reproduce", "--json").output)
    assert tables["tricd-3"]["weights"] == ["MDETR"]
    assert tables["tricd-3"]["predictions"] == ["GLIP-T", "GLIP-L", "FIBER", "DETIC"]


def test_the_command_compares_and_prints(tiny_clip, tmp_path):
    sources_sugarcrepe.make(tmp_path / "coco")
    arguments = ["sugarcrepe-6", "--models", "RN50", "--models", "RN101", "--use", f"RN50={tiny_clip}"]
    arguments += ["--use", "RN101=no-such-model", "--data-dir", tmp_path / "coco", "-o", "verify=false"]
    compared = invoke("reproduce", *arguments, "--out", tmp_path / "out")
    assert compared.exit_code == 1  # one of the two models failed
    assert "published values lie inside our intervals (95 %, over images)" in compared.output
    assert re.search(r"Failed\n- RN101: unknown model 'no-such-model'", compared.output)
    assert "REPLACE Attribute" in compared.output
    again = invoke("reproduce", "sugarcrepe-6", "--predictions", tmp_path / "out", "--json")
    assert again.exit_code == 0
    document = json.loads(again.output)
    assert document["schema"] == "vl-assay/reproduction"
    assert document == json.loads((tmp_path / "out" / "sugarcrepe-6.json").read_text())
    error = invoke("reproduce", "sugarcrepe-6", "--use", "RN50").exception
    assert "--use 'RN50' names no model for a row; write LABEL=MODEL" in str(error)
