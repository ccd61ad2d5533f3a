"""Reproducing the papers' tables: each published value is compared with the right one of ours."""

from __future__ import annotations

import json

import pytest
import sources_sugarcrepe
from report_support import declared

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.published.tables import all_tables, get_table
from vl_assay.metrics.common.errors import ModelError, PredictionsError, UnknownNameError
from vl_assay.metrics.records.predictions import Predictions, write_predictions
from vl_assay.metrics.records.schema import MatchingRow
from vl_assay.model_wrappers.engine.families import FamilyConstants
from vl_assay.model_wrappers.reproduce import plans as module
from vl_assay.model_wrappers.reproduce.plans import plan, status
from vl_assay.model_wrappers.reproduce.report import Comparison, as_json, to_markdown
from vl_assay.model_wrappers.reproduce.reproduce import reproduce


def test_the_tables_of_the_papers_are_there_and_others_are_refused_by_name():
    assert [*all_tables()] == [
        *(f"aro-{number}" for number in (2, 3, 4, 5, 6)),
        *(f"hard-positives-{number}" for number in (1, 2, 3, 7, 8, 9, 10)),
        *(f"sugarcrepe-{number}" for number in (2, 4, 5, 6, 8, 9, 10)),
        *(f"tricd-{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8)),
    ]
    with pytest.raises(
        UnknownNameError, match=r"unknown table 'sugarcrepe-7'; known: aro-2, aro-3, aro-4, aro-5, aro-6, hard-pos"
    ):
        reproduce("sugarcrepe-7")


CATEGORIES = sources_sugarcrepe.CATEGORIES
# Correct examples of four in each category, one image each.
RIGHT = {"replace_obj": 4, "replace_att": 3, "replace_rel": 2, "swap_obj": 2, "swap_att": 0, "add_obj": 3, "add_att": 3}


def sugarcrepe_predictions(path, right=RIGHT, tied=(), lost=(), **model):
    """Predictions for four examples of each category, of which the first `right` are correct."""
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
    write(path, rows, "sugarcrepe/itm", **{"name": "some model", "family": "clip", "checkpoint": "some/model"} | model)


def write(path, rows, task, seed=None, **model):
    """Write predictions of all configurations that the rows have, of data with a seed or not."""
    benchmark, _, task = task.partition("/")
    configs = list(dict.fromkeys(row.config for row in rows))
    missing = [row.id for row in rows if row.scores is None]
    described = {"name": benchmark, "task": task, "configs": configs, "split": "test", "fingerprint": "f"}
    described["metrics"] = declared(benchmark, task)
    if seed is not None:
        described |= {"fingerprint": f"f{seed}", "options": {"seed": seed}}
    metadata = {"benchmark": {**described, "rows": len(rows), "missing": missing}, "model": model, "run": {}}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_predictions(path, Predictions(rows, metadata))


def cells_of(result):
    return {(one.row.name, one.column.name): one for one in result.comparisons}


def test_predictions_are_compared_as_worked_out_by_hand(tmp_path):
    sugarcrepe_predictions(tmp_path / "ViT-B-32" / "any.parquet")
    result = reproduce("sugarcrepe-6", predictions=tmp_path)
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
    assert result.not_run["RN50"] == "no predictions"
    assert "Human" not in result.not_run


def test_the_files_name_the_source_of_every_number(tmp_path):
    sugarcrepe_predictions(tmp_path / "ViT-B-32" / "any.parquet")
    result = reproduce("sugarcrepe-6", predictions=tmp_path, out=tmp_path / "out")
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
    [predictions] = report([tmp_path / "ViT-B-32" / "any.parquet"])
    assert entry["predictions"] == [predictions.predictions]
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
    model = "openai/clip-vit-base-patch32"
    write(tmp_path / "a.parquet", rows, "aro/relation", name=model, family="clip", checkpoint=model)
    result = reproduce("aro-2", predictions=tmp_path)
    cells = {column: one for (_, column), one in cells_of(result).items()}
    # on 1 of 4, riding 1 of 1; "near" is symmetric and in no average. Spatial: on; verbs: riding.
    assert cells["on"].ours == 1 / 4
    assert cells["Accuracy"].ours == pytest.approx((1 / 4 + 1) / 2)
    assert cells["Spatial Relationships Accuracy"].ours == pytest.approx(1 / 4)
    assert cells["Verbs Accuracy"].ours == 1
    assert cells["wearing"].ours is None
    assert cells["wearing"].why == "the predictions have no such examples"
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
    sugarcrepe_predictions(tmp_path / "RN50" / "part.parquet", {"swap_obj": 2, "add_att": 4})
    cells = {column: one for (_, column), one in cells_of(reproduce("sugarcrepe-6", predictions=tmp_path)).items()}
    assert cells["SWAP Object"].ours == 0.5
    assert cells["Average"].ours is None
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
    [remark] = [
        remark for remark in reproduce("sugarcrepe-6", predictions=tmp_path).remarks if remark.startswith("RN50")
    ]
    # 2 of 27 examples
    assert remark == (
        "RN50: 1 of 28 examples of sugarcrepe/itm lack their image; ties decide 7.4 % of sugarcrepe/itm and count as "
        "wrong (sugarcrepe_itm); scored in float16; computed with gelu, which its weights were not trained with."
    )
    half = reproduce("sugarcrepe-6", predictions=tmp_path, ties="right")
    assert cells_of(half)["RN50", "ADD Attribute"].ours == 3 / 4
    assert cells_of(reproduce("sugarcrepe-6", predictions=tmp_path))["RN50", "ADD Attribute"].ours == 1 / 4


def test_predictions_are_known_by_folder_then_by_name_or_model(tmp_path):
    sugarcrepe_predictions(tmp_path / "GPT-4V-33" / "x.parquet", name="precomputed")  # the folder of its row
    sugarcrepe_predictions(tmp_path / "runs" / "a.parquet", name="Vera [27]", family="precomputed")
    sugarcrepe_predictions(tmp_path / "runs" / "b.parquet", family="open_clip", checkpoint="RN101-quickgelu/openai")
    sugarcrepe_predictions(
        tmp_path / "runs" / "c.parquet", family="open_clip", checkpoint="ViT-B-32 (pretrained=negclip.pth)"
    )
    sugarcrepe_predictions(tmp_path / "runs" / "d.parquet", family="open_clip", checkpoint="RN101/openai")  # of no row
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


def test_settings_tell_rows_of_one_checkpoint_apart(tmp_path):
    rows = [MatchingRow("r/0", "coco_order", "coco_order", ["i"], [0], [[1.0, 0.0, 0.0, 0.0, 0.0]])]
    model = {"name": "blip", "family": "blip", "checkpoint": "Salesforce/blip-itm-base-coco"}
    write(tmp_path / "a.parquet", rows, "aro/coco_order", **model, settings={"head": "itm"})
    with pytest.raises(ModelError, match=r"no model of aro-5 to compare with\. BLIP \(Flickr30k-PRC\): no predictions"):
        reproduce("aro-5", predictions=tmp_path)
    write(tmp_path / "a.parquet", rows, "aro/coco_order", **model, settings={"head": "aro", "first": "enc"})
    result = reproduce("aro-5", predictions=tmp_path)
    [cell] = result.comparisons
    assert (cell.row.name, cell.printed, cell.published, cell.ours) == ("BLIP (COCO-PRC)", "0.321±0.001", 0.321, 1.0)
    [entry] = json.loads(as_json(result))["comparisons"]
    assert entry["paper"]["column"] == "Accuracy"


def test_every_row_is_run_with_its_model_settings_and_tasks(tmp_path):
    plans = plan(get_table("aro-2"), weights=tmp_path)
    assert {name: each[:2] for name, each in plans.items() if each.model} == {
        "CLIP": ("clip:openai/clip-vit-base-patch32", {}),
        "BLIP": ("blip:Salesforce/blip-itm-base-coco", {"head": "aro"}),
        "Flava": ("flava:facebook/flava-full", {"head": "itm"}),
        "NegCLIP": ("open_clip:ViT-B-32", {"pretrained": str(tmp_path / "negclip.pth")}),
        "XVLM": (f"xvlm:{tmp_path / 'xvlm-coco.pth'}", {}),
    }
    # Rows of two data sets are run separately.
    rows = {row.name: row for row in get_table("aro-5").rows}
    chosen = plan(get_table("aro-5"), ["blip", "Flava (COCO-PRC)"], use={"Flava (COCO-PRC)": "flava:mine"})
    assert [(each.model, get_table("aro-5").tasks(rows[name])) for name, each in chosen.items()] == [
        ("blip:Salesforce/blip-itm-base-flickr", ["aro/flickr30k_order"]),
        ("blip:Salesforce/blip-itm-base-coco", ["aro/coco_order"]),
        ("flava:mine", ["aro/coco_order"]),
    ]
    assert chosen["Flava (COCO-PRC)"].settings == {"head": "itm"}  # of the row, as the family is the same
    [(name, each), *_] = plan(get_table("hard-positives-8"), ["OpenCLIP ViT-g/14"]).items()
    [row] = [row for row in get_table("hard-positives-8").rows if row.name == name]
    assert each.model == "open_clip:ViT-g-14/laion2b_s34b_b88k"
    assert get_table("hard-positives-8").tasks(row) == ["hard_positives/replace", "hard_positives/swap"]


@pytest.mark.parametrize(
    ("table", "model", "message"),
    [
        ("aro-2", "XVLM", r"there is no .*xvlm-coco\.pth; download .*gdown 1bv6_pZOsXW53EhlwU0ZgSk03uzFI61pN"),
        ("tricd-3", "MDETR", r"download pretrained_EB5_checkpoint\.pth \(https://zenodo\.org/record/4721981/"),
        ("tricd-3", "GLIP-L", r'GLIP is in neither .*--template .* use --use "GLIP-L=precomputed:FILE"'),
        ("aro-2", "NegCLIP", r"there is no .*negclip\.pth; download negclip\.pth \(from ARO's authors: gdown 1ooVVPx"),
        ("hard-positives-1", "Our HN", r"download coco_crepe_negs\.pt \(the authors' code .* ask them\)"),
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
    def family_constants(name):
        return FamilyConstants(problem="no module named open_clip" if name == "open_clip" else "")

    monkeypatch.setattr(module, "family_constants", family_constants)
    found = status(tmp_path)
    assert list(found) == list(all_tables())
    assert found["aro-2"] == {
        "nothing": ["CLIP", "BLIP", "Flava"], "a library": [], "weights": ["NegCLIP", "XVLM"],
        "predictions": ["CLIP-FT"],
    }  # fmt: skip
    assert found["sugarcrepe-6"]["nothing"] == ["Vera [27]", "Grammar [31]", "ViT-B-32", "ViT-L-14"]
    assert len(found["sugarcrepe-6"]["a library"]) == 15
    (tmp_path / "negclip.pth").write_bytes(b"")
    assert status(tmp_path)["aro-2"]["a library"] == ["NegCLIP"]
