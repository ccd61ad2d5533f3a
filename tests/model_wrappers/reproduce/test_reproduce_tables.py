"""Tables that are more than one score of each model: means over seeds, mean scores, several benchmarks, statistics."""

from __future__ import annotations

import pytest
import sources_hard_positives
import sources_retrieval
import sources_sugarcrepe
from console import invoke
from test_reproduce import cells_of, write
from test_reproduce_runs import assert_is_what_the_predictions_give, run

from vl_assay.hub_datasets.published.tables import get_table
from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.schema import MatchingRow
from vl_assay.model_wrappers.reproduce.report import to_markdown
from vl_assay.model_wrappers.reproduce.reproduce import reproduce


def test_seeds_of_the_data_are_averaged_with_their_deviation(tmp_path):
    for seed, right in ((0, 2), (1, 3), (2, 4)):
        rows = [
            MatchingRow(f"r/{n}", "coco_order", "coco_order", [f"i{n}"], [0], [[float(n < right), 0.5, 0.5, 0.5, 0.5]])
            for n in range(4)
        ]
        write(tmp_path / "CLIP-COCO-PRC" / f"{seed}.parquet", rows, "aro/coco_order", name="clip", seed=seed)
    result = reproduce("aro-5", predictions=tmp_path)
    [cell] = result.comparisons
    # 2, 3 and 4 of 4: mean .75, deviation sqrt((.0625 + 0 + .0625) / 2) = .25
    assert (cell.printed, cell.ours, cell.deviation, cell.interval) == ("0.460±0.001", 0.75, 0.25, None)
    assert len(cell.predictions) == 3
    assert "| COCO-PRC | 0.460±0.001 | 0.7500 ± 0.2500 | none | +0.2900 |" in to_markdown(result)


def test_mean_scores_are_compared_on_the_scale_of_the_scores(tmp_path):
    rows = [
        MatchingRow(f"r/{n}", "replace_relations", "replace_relations", [f"i{n}"], [0], [[0.3, 0.1 * n, 0.2]])
        for n in range(3)
    ] + [MatchingRow("a/0", "replace_attributes", "replace_attributes", ["j"], [0], [[0.1, 0.1, 0.2]])]
    write(tmp_path / "DAC-LLM" / "a.parquet", rows, "hard_positives/replace", name="dac")
    cells = {column: one for (_, column), one in cells_of(reproduce("hard-positives-2", predictions=tmp_path)).items()}
    # c: (3 × .3 + .1) / 4; c_p: (0 + .1 + .2 + .1) / 4; c_n: .2
    assert [cells[name].ours for name in ("c", "c_p", "c_n")] == pytest.approx([0.25, 0.1, 0.2])
    assert (cells["c"].n, cells["c"].printed) == (4, "0.160")


@pytest.mark.parametrize(
    ("table", "reason"),
    [("sugarcrepe-9", "a count of people's judgements"), ("tricd-2", "what the models' authors state")],
)
def test_a_table_of_which_nothing_can_be_computed_says_why(table, reason, tmp_path):
    with pytest.raises(ModelError, match=f"no value of {table} can be computed here: {reason}"):
        reproduce(table, out=tmp_path)


def test_one_run_of_hard_positives_fills_all_its_tables(tiny_clip, tmp_path):
    use = {"CLIP": str(tiny_clip)}
    result = run("hard-positives-9", sources_hard_positives, tmp_path, use)
    assert len(result.comparisons) == 2
    assert_is_what_the_predictions_give(result, tmp_path / "out")
    runs = tmp_path / "runs"
    (tmp_path / "out" / "CLIP").rename(runs)
    rows = dict.fromkeys([f"hard-positives-{number}" for number in (1, 2, 7, 8)], "CLIP ViT-B/32")
    for table, row in (rows | {"hard-positives-3": "0.25 HN"}).items():
        result = reproduce(table, models=[row], use={row: str(tiny_clip)}, predictions=runs)
        assert len(result.comparisons) == len(get_table(table).columns)
        assert_is_what_the_predictions_give(result, runs)


def test_the_forms_of_sugarcrepe_are_those_of_the_metric(tiny_clip, tmp_path):
    row = "NEGCLIP finetuned / SWAP"
    result = run("sugarcrepe-5", sources_sugarcrepe, tmp_path, {row: str(tiny_clip)})
    assert_is_what_the_predictions_give(result, tmp_path / "out")
    assert sum(one.ours is not None for one in result.comparisons) == 3
    row, runs = "CLIP without hard negatives", tmp_path / "runs"
    next(folder for folder in (tmp_path / "out").iterdir() if folder.is_dir()).rename(runs)
    result = reproduce("sugarcrepe-10", models=[row], use={row: str(tiny_clip)}, predictions=runs)
    assert_is_what_the_predictions_give(result, runs)


def test_micro_means_of_table_6_are_what_table_5_prints_of_vit_b_32():
    table = get_table("sugarcrepe-6")
    [again] = [row for row in get_table("sugarcrepe-5").rows if row.label == "Pretrained"]
    [row] = [row for row in table.rows if row.label == "ViT-B-32"]
    cells = [(column, float(text)) for column, text in zip(table.columns, row.printed, strict=True) if column.n]
    for form, printed in zip(("REPLACE", "SWAP", "ADD"), again.printed[-3:], strict=True):
        own = [(value, column.n) for column, value in cells if column.name.startswith(form)]
        mean = sum(value * n for value, n in own) / sum(n for _, n in own)
        assert mean == pytest.approx(float(printed), abs=0.01)  # the values of Table 6 are rounded, too


def test_a_table_of_several_benchmarks_runs_those_whose_data_are_there(tiny_clip, tmp_path):
    """Retrieval is drawn for each seed; without shuffles a seed changes nothing, so it is run once."""
    data = tmp_path / "data"
    options = sources_retrieval.make(data / "retrieval")
    where = {"data_dir": data, "options": options, "out": tmp_path / "out", "progress": False}
    use = {"CLIP": str(tiny_clip)}
    result = reproduce("aro-4", models=["CLIP (COCO Image Shuffle)"], use=use, seeds=(0, 1), **where)
    cells = {column: one for (_, column), one in cells_of(result).items()}
    plain, shuffled = cells["COCO, No Shuffling: Text Recall@1"], cells["COCO, Shuffle Patches (9): Text Recall@1"]
    assert (len(plain.predictions), plain.deviation) == (1, None)
    assert len(shuffled.predictions) == 2
    assert shuffled.deviation is not None
    assert len(result.comparisons) == 16
    # Table 6 of ARO has the same sets, and tasks of ARO itself, whose data are not here.
    other = reproduce("aro-6", models=["CLIP"], predictions=tmp_path / "out", use=use)
    found = {one.column.name: one for one in other.comparisons}
    assert found["COCO Text R@1"].ours == plain.ours
    assert found["VG-Relation"].why == "no predictions of aro/relation"
    assert found["ImageNet"].why.startswith("the paper does not say how it classifies")


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


def test_the_command_takes_seeds_and_counts_statistics(shared_data, tmp_path):
    printed = invoke("reproduce", "tricd-7", "--data-dir", shared_data / "data" / "tricd", "--out", tmp_path)
    assert printed.exit_code == 0, printed.output
    assert "24 of 24 published values equal ours" in printed.output
    rows = [MatchingRow("r/0", "coco_order", "coco_order", ["i"], [0], [[1.0, 0.0, 0.0, 0.0, 0.0]])]
    write(tmp_path / "CLIP-COCO-PRC" / "a.parquet", rows, "aro/coco_order", name="clip")
    printed = invoke("reproduce", "aro-5", "--predictions", tmp_path, "--seeds", "0,1")
    assert printed.exit_code == 0, printed.output
