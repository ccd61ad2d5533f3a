"""Each published value is compared with the right one of ours, from predictions or from data."""

from __future__ import annotations

import json
import re

import pytest
from console import invoke
from reproduce_support import RIGHT, cells_of, matching, sugarcrepe_predictions, write

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.published.tables import all_tables, get_table
from vl_assay.metrics.common.errors import ModelError, PredictionsError, UnknownNameError
from vl_assay.model_wrappers.engine.families import FamilyConstants
from vl_assay.model_wrappers.reproduce import reproduce as module
from vl_assay.model_wrappers.reproduce.comparison import compare_value
from vl_assay.model_wrappers.reproduce.reproduce import plan_rows, reproduce


def test_predictions_that_several_tables_show_are_evaluated_once(tmp_path, monkeypatch):
    model = {"family": "clip", "checkpoint": "openai/clip-vit-base-patch32"}
    sugarcrepe_predictions(tmp_path / "a.parquet", **model)
    evaluated = []
    monkeypatch.setattr(module, "report", lambda files, **options: evaluated.append(files) or report(files, **options))
    results = [reproduce(f"sugarcrepe-{number}", predictions=tmp_path) for number in (5, 6, 6)]
    assert [len(files) for files in evaluated] == [1]
    assert results[1].comparisons == results[2].comparisons
    sugarcrepe_predictions(tmp_path / "a.parquet", right=dict.fromkeys(RIGHT, 4), **model)
    assert {one.ours for one in reproduce("sugarcrepe-6", predictions=tmp_path).comparisons} == {1.0}


def test_predictions_are_compared_as_worked_out_by_hand_and_every_number_has_its_source(tmp_path):
    sugarcrepe_predictions(tmp_path / "ViT-B-32" / "any.parquet")
    result = reproduce("sugarcrepe-6", predictions=tmp_path, out=tmp_path / "out")
    assert {one.row.name for one in result.comparisons} == {"ViT-B-32"}
    cells = cells_of(result)
    relation = cells["REPLACE Relation"]
    assert (relation.printed, relation.ours, relation.n) == ("69.20", 2 / 4, 4)
    assert (relation.published, relation.difference) == pytest.approx((0.692, 0.5 - 0.692))
    # All of 4 images right: at least 0.025 ** (1 / 4) = .3976 of all would be; none right: at most .6024.
    assert cells["REPLACE Object"].interval == pytest.approx((0.3976, 1), abs=1e-4)
    assert cells["SWAP Attribute"].interval == pytest.approx((0, 0.6024), abs=1e-4)
    assert cells["REPLACE Object"].inside is True  # .9092
    assert cells["SWAP Attribute"].inside is False  # .6396
    # (4 + 3 + 2 + 2 + 0 + 3 + 3) / 4 / 7 = 17 / 28
    assert cells["Average"].ours == pytest.approx(17 / 28)
    assert "SWAP Object: 4 examples here, 246 in the paper." in result.remarks
    assert result.not_run["RN50"] == "no predictions"
    assert "Human" not in result.not_run
    # The files.
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["sugarcrepe-6.json", "sugarcrepe-6.md"]
    document = json.loads((tmp_path / "out" / "sugarcrepe-6.json").read_text())
    assert document == json.loads(result.to_json())
    assert document["table"]["paper"].startswith("SugarCrepe: Fixing")
    entry = document["comparisons"][2]
    assert entry["paper"] == {
        "table": "Table 6", "row": "OpenAI [36] / ViT-B-32", "column": "REPLACE Relation", "printed": "69.20",
    }  # fmt: skip
    assert entry["score"] == ["per_category", "replace_rel", "accuracy"]
    assert (entry["ours"], entry["n"], entry["published_n"], entry["average"]) == (0.5, 4, 1406, "category")
    [predictions] = report([tmp_path / "ViT-B-32" / "any.parquet"])
    assert entry["predictions"] == [predictions.predictions]
    text = (tmp_path / "out" / "sugarcrepe-6.md").read_text()
    assert "| SWAP Attribute | 63.96 | 0.000 | 0.000 – 60.236 | -63.960 | no |" in text
    inside = sum(bool(one.inside) for one in result.comparisons)
    assert f"{inside} of 8 published values lie inside our intervals (95 %, over images)." in text
    assert "The largest difference is -63.960 (ViT-B-32, SWAP Attribute)." in text
    assert "- Why values may differ: The released swap_obj has 245 examples" in text


def test_in_aros_table_2_rows_are_relations_and_columns_models(tmp_path):
    right = [("on", 1), ("on", 0), ("on", 0), ("on", 0), ("riding", 1), ("near", 0)]
    rows = [matching("vg_relation", [is_right, 0.5], str(n), name) for n, (name, is_right) in enumerate(right)]
    model = "openai/clip-vit-base-patch32"
    write(tmp_path / "a.parquet", rows, "aro/relation", name=model, family="clip", checkpoint=model)
    result = reproduce("aro-2", predictions=tmp_path)
    cells = cells_of(result)
    # on 1 of 4, riding 1 of 1; "near" is symmetric and in no average. Spatial: on; verbs: riding.
    names = ("on", "Accuracy", "Spatial Relationships Accuracy", "Verbs Accuracy", "wearing")
    assert [cells[name].ours for name in names] == [1 / 4, (1 / 4 + 1) / 2, 1 / 4, 1, None]
    assert cells["wearing"].why == "the predictions have no such examples"
    entry = next(e for e in json.loads(result.to_json())["comparisons"] if e["score"][1:2] == ["on"])
    assert (entry["paper"]["row"], entry["paper"]["column"], entry["published_n"]) == ("on", "CLIP", 1684)
    assert "| on | 0.52 | 0.250 |" in result.to_markdown()


@pytest.mark.parametrize(
    ("ours", "equal", "interval", "inside"),
    [
        (0.594, True, (0.595, 0.62), True),  # .59 may be .595
        (0.596, False, (0.5952, 0.62), False),
        (0.586, True, (0.5, 0.585), True),  # or .585
        (0.584, False, (0.5, 0.5848), False),
        (0.59, True, None, None),
        (None, None, None, None),
    ],
)
def test_a_published_value_stands_for_all_that_round_to_it(ours, equal, interval, inside):
    table = get_table("aro-2")
    cell = compare_value(table, table.rows[0], table.columns[0], "0.59", ours=ours, interval=interval)
    assert (cell.equal, cell.inside) == (equal, inside)


def test_the_average_of_a_part_is_not_compared_with_that_of_the_whole(tmp_path):
    sugarcrepe_predictions(tmp_path / "RN50" / "part.parquet", {"swap_obj": 2, "add_att": 4})
    cells = cells_of(reproduce("sugarcrepe-6", predictions=tmp_path))
    assert cells["SWAP Object"].ours == 0.5
    assert cells["Average"].why == "the predictions lack add_obj, replace_att, replace_obj, replace_rel, swap_att"
    assert cells["ADD Object"].why == "the predictions have no such examples"


def test_remarks_tell_ties_missing_images_precision_and_activation(tmp_path):
    sugarcrepe_predictions(
        tmp_path / "RN50" / "a.parquet",
        tied={("add_att", 0), ("add_att", 1)},
        lost={"swap_obj/0"},
        dtype="float16",
        settings={"activation_mismatch": "yes", "activation": "gelu"},
    )
    result = reproduce("sugarcrepe-6", predictions=tmp_path)
    # 2 of 27 examples
    assert [remark for remark in result.remarks if remark.startswith("RN50")] == [
        "RN50: 1 of 28 examples of sugarcrepe/itm lack their image; ties decide 7.4 % of sugarcrepe/itm and count as "
        "wrong (sugarcrepe_itm); scored in float16; computed with gelu, which its weights were not trained with."
    ]
    assert cells_of(result)["ADD Attribute"].ours == 1 / 4
    half = reproduce("sugarcrepe-6", predictions=tmp_path, ties="right")
    assert cells_of(half)["ADD Attribute"].ours == 3 / 4


def test_predictions_are_known_by_folder_then_by_name_or_model(tmp_path):
    sugarcrepe_predictions(tmp_path / "GPT-4V-33" / "x.parquet", name="precomputed")  # the folder of its row
    open_clip = {"RN101-quickgelu/openai": "b", "ViT-B-32 (pretrained=negclip.pth)": "c", "RN101/openai": "of no row"}
    for checkpoint, name in open_clip.items():
        sugarcrepe_predictions(tmp_path / "runs" / f"{name}.parquet", family="open_clip", checkpoint=checkpoint)
    sugarcrepe_predictions(tmp_path / "runs" / "a.parquet", name="Vera [27]", family="precomputed")
    # In the folder of another row: of that row, whatever its model.
    sugarcrepe_predictions(tmp_path / "RN50" / "e.parquet", family="open_clip", checkpoint="ViT-H-14/laion2b_s32b_b79k")
    result = reproduce("sugarcrepe-6", predictions=tmp_path)
    assert {one.row.name for one in result.comparisons} == {
        "GPT-4V [33]", "Vera [27]", "RN101", "ViT-B-32-negclip", "RN50",
    }  # fmt: skip
    sugarcrepe_predictions(tmp_path / "again" / "RN101" / "b.parquet")
    with pytest.raises(PredictionsError, match=r"b\.parquet and .*b\.parquet are both of RN101 on sugarcrepe/itm"):
        reproduce("sugarcrepe-6", predictions=tmp_path)
    with pytest.raises(PredictionsError, match=r"there is no folder .*nowhere"):
        reproduce("sugarcrepe-6", predictions=tmp_path / "nowhere")


def order(right, of=4):
    """Rows of ARO's COCO-PRC, of which the first `right` are correct."""
    return [matching("coco_order", [float(n < right), 0.5, 0.5, 0.5, 0.5], str(n)) for n in range(of)]


def test_settings_tell_rows_of_one_checkpoint_apart(tmp_path):
    model = {"name": "blip", "family": "blip", "checkpoint": "Salesforce/blip-itm-base-coco"}
    write(tmp_path / "a.parquet", order(4), "aro/coco_order", **model, settings={"head": "itm"})
    with pytest.raises(ModelError, match=r"no model of aro-5 to compare with\. BLIP \(Flickr30k-PRC\): no predictions"):
        reproduce("aro-5", predictions=tmp_path)
    write(tmp_path / "a.parquet", order(4), "aro/coco_order", **model, settings={"head": "aro", "first": "enc"})
    result = reproduce("aro-5", predictions=tmp_path)
    [cell] = result.comparisons
    assert (cell.row.name, cell.printed, cell.published, cell.ours) == ("BLIP (COCO-PRC)", "0.321±0.001", 0.321, 1.0)
    assert json.loads(result.to_json())["comparisons"][0]["paper"]["column"] == "Accuracy"


def test_seeds_of_the_data_are_averaged_with_their_deviation(tmp_path):
    for seed, right in ((0, 2), (1, 3), (2, 4)):
        path = tmp_path / "CLIP-COCO-PRC" / f"{seed}.parquet"
        write(path, order(right), "aro/coco_order", name="clip", seed=seed)
    result = reproduce("aro-5", predictions=tmp_path)
    [cell] = result.comparisons
    # 2, 3 and 4 of 4: mean .75, deviation sqrt((.0625 + 0 + .0625) / 2) = .25
    assert (cell.printed, cell.ours, cell.deviation, cell.interval) == ("0.460±0.001", 0.75, 0.25, None)
    assert len(cell.predictions) == 3
    assert "| COCO-PRC | 0.460±0.001 | 0.7500 ± 0.2500 | none | +0.2900 |" in result.to_markdown()


def test_mean_scores_are_compared_on_the_scale_of_the_scores(tmp_path):
    rows = [matching("replace_relations", [0.3, 0.1 * n, 0.2], f"r{n}") for n in range(3)]
    rows.append(matching("replace_attributes", [0.1, 0.1, 0.2], "a"))
    write(tmp_path / "DAC-LLM" / "a.parquet", rows, "hard_positives/replace", name="dac")
    cells = cells_of(reproduce("hard-positives-2", predictions=tmp_path))
    # c: (3 × .3 + .1) / 4; c_p: (0 + .1 + .2 + .1) / 4; c_n: .2
    assert [cells[name].ours for name in ("c", "c_p", "c_n")] == pytest.approx([0.25, 0.1, 0.2])
    assert (cells["c"].n, cells["c"].printed) == (4, "0.160")


def test_every_row_is_run_with_its_model_settings_and_tasks(tmp_path):
    plans = plan_rows(get_table("aro-2"), weights=tmp_path)
    assert {name: plan[:2] for name, plan in plans.items() if plan.model} == {
        "CLIP": ("clip:openai/clip-vit-base-patch32", {}),
        "BLIP": ("blip:Salesforce/blip-itm-base-coco", {"head": "aro"}),
        "Flava": ("flava:facebook/flava-full", {"head": "itm"}),
        "NegCLIP": ("open_clip:ViT-B-32", {"pretrained": str(tmp_path / "negclip.pth")}),
        "XVLM": (f"xvlm:{tmp_path / 'xvlm-coco.pth'}", {}),
    }
    # Rows of two data sets are run separately.
    table = get_table("aro-5")
    rows = {row.name: row for row in table.rows}
    chosen = plan_rows(table, ["blip", "Flava (COCO-PRC)"], use={"Flava (COCO-PRC)": "flava:mine"})
    assert [(plan.model, table.tasks(rows[name])) for name, plan in chosen.items()] == [
        ("blip:Salesforce/blip-itm-base-flickr", ["aro/flickr30k_order"]),
        ("blip:Salesforce/blip-itm-base-coco", ["aro/coco_order"]),
        ("flava:mine", ["aro/coco_order"]),
    ]
    assert chosen["Flava (COCO-PRC)"].settings == {"head": "itm"}  # of the row, as the family is the same


@pytest.mark.parametrize(
    ("table", "model", "message"),
    [
        ("aro-2", "XVLM", r"there is no .*xvlm-coco\.pth; download .*gdown 1bv6_pZOsXW53EhlwU0ZgSk03uzFI61pN"),
        ("tricd-3", "GLIP-L", r'GLIP is in neither .*--template .* use --use "GLIP-L=precomputed:FILE"'),
        ("hard-positives-1", "Our HN", r"download coco_crepe_negs\.pt \(the authors' code .* ask them\)"),
        ("sugarcrepe-6", "Human", "Human of sugarcrepe-6 cannot be run: people, not a model"),
        ("sugarcrepe-9", None, "no value of sugarcrepe-9 can be computed here: a count of people's judgements"),
    ],
)
def test_a_row_or_table_that_cannot_be_computed_says_why(table, model, message, tmp_path):
    with pytest.raises(ModelError, match=message):
        reproduce(table, models=model and [model], weights=tmp_path, out=tmp_path)


def test_unknown_names_are_refused_with_the_known_ones(tmp_path):
    with pytest.raises(UnknownNameError, match=r"unknown table 'sugarcrepe-7'; known: aro-2, aro-3, aro-4, aro-5, aro"):
        reproduce("sugarcrepe-7")
    for arguments in ({"models": ["RN51"]}, {"use": {"RN51": "demo-clip"}}):
        with pytest.raises(UnknownNameError, match=r"unknown model of sugarcrepe-6 'RN51'; known: Human, Vera \[27\]"):
            reproduce("sugarcrepe-6", out=tmp_path, **arguments)
    with pytest.raises(UnknownNameError, match="tie policy 'maybe'"):
        reproduce("sugarcrepe-6", ties="maybe")
    error = invoke("reproduce", "sugarcrepe-6", "--use", "RN50").exception
    assert "--use 'RN50' names no model for a row; write LABEL=MODEL" in str(error)


def test_the_command_lists_all_tables_with_the_models_that_can_be_run(monkeypatch, tmp_path):
    def family_constants(name):
        return FamilyConstants(problem="no module named open_clip" if name == "open_clip" else "")

    monkeypatch.setattr(module, "family_constants", family_constants)
    listed = invoke("reproduce", "--weights", tmp_path).output
    assert all(name in listed for name in all_tables())
    # CLIP, BLIP and Flava; not NegCLIP and XVLM, whose weights are not here, and CLIP-FT, which has none.
    assert re.search(r"aro-2\W+6\W+3\W", listed)
    assert re.search(r"sugarcrepe-6\W+21\W+4\W", listed)
    (tmp_path / "negclip.pth").write_bytes(b"")
    assert plan_rows(get_table("aro-2"), weights=tmp_path)["NegCLIP"].why == "no module named open_clip"


def test_statistics_of_datasets_are_those_of_the_papers(shared_data, tmp_path):
    counted = {
        name: reproduce(name, data_dir=shared_data / "data", out=tmp_path)
        for name in ("tricd-1", "tricd-7", "sugarcrepe-2")
    }
    assert [one.equal for one in counted["tricd-7"].comparisons] == [True] * 24
    words = {one.row.name: one.ours for one in counted["tricd-7"].comparisons if one.column.name == "Unique words"}
    assert words == {"Coco obj": 64, "Coco relation": 131, "Overall": 188}
    counts = {one.row.name: (one.printed, one.ours) for one in counted["sugarcrepe-2"].comparisons if not one.equal}
    assert counts == {"SWAP Object": ("246", 245)}  # the release lacks key 108
    assert len(counted["sugarcrepe-2"].comparisons) == 7
    text = (tmp_path / "tricd-7.md").read_text()
    assert "| average phrase/img, Coco relation | 2.0 | 2.05 | yes |" in text
    assert "24 of 24 published values equal ours to the last printed digit." in text
    # Of the test set, which is not public: next to the validation set's, and never compared.
    assert {(one.equal, one.difference) for one in counted["tricd-1"].comparisons} == {(None, None)}
    text = (tmp_path / "tricd-1.md").read_text()
    assert "Not comparable: the paper's values are of other data. None is counted." in text
    assert "| # Boxes, Coco Rel | 779 | 232 |" in text
    assert "| # Boxes, Wino | 4365 | the data have no winoground part |" in text
