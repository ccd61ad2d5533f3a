"""The first screen of a run: what it concludes."""

import numpy as np
import pytest
from report_support import matching, write

from vl_assay.hub_datasets import report
from vl_assay.metrics.common.documents import Table, Verdict


def rows(share_right, n=400):
    """Rows of which all of swap_obj and a share of swap_att are right."""
    right = np.random.default_rng(0).random(n) < share_right
    right[::2] = True
    return matching(np.where(right[:, None], [[1.0, 0.0]], [[0.0, 1.0]]))


def screen_of(path):
    parts = report(path).screen()
    [table] = [part for part in parts if isinstance(part, Table)]
    return table, [part.text for part in parts if isinstance(part, Verdict)]


@pytest.mark.parametrize(
    ("share_right", "blind", "sentences"),
    [
        (0.5, None, ["Better than blind and chance in 1 of 2 categories, most clearly itm/swap_obj (+50.0",
                     "Not better in itm/swap_att (4"]),
        (0.9, {"swap_obj": {"accuracy": 1.0}, "swap_att": {"accuracy": 0.6}},
         ["Better than blind and chance in 1 of 2 categories, most clearly itm/swap_att (+",
          "Not better in itm/swap_obj (100.0 against 100.0)"]),
        (0.9, None, ["Better than blind and chance in 2 of 2 categories, most clearly itm/swap_obj (+50"]),
        (0.0, {"swap_obj": {"accuracy": 1.0}}, ["Not better in itm/swap_att (0.0 against 50.0), itm/swap_obj (100.0"]),
    ],
)  # fmt: skip
def test_a_category_is_better_if_its_interval_is_above_blind_and_chance(share_right, blind, sentences, tmp_path):
    facts = {"blind": {"sugarcrepe_itm": {"accuracy": 0.5, "per_category": blind}}} if blind else {}
    _, said = screen_of(write(tmp_path / "a.parquet", rows(share_right), **facts))
    assert len(said) == len(sentences)
    for sentence, start in zip(said, sentences, strict=True):
        assert sentence.startswith(start)


@pytest.mark.parametrize(
    ("kind", "shown"), [("probe", "50.0 %"), ("exact", "50.0 %"), ("rule", "≥ 50.0 %"), (None, "≥ 50.0 %")]
)
def test_a_level_for_which_no_probe_was_trained_is_a_lower_bound(kind, shown, tmp_path):
    blind = {"sugarcrepe_itm": {"accuracy": 0.5} | ({"kind": kind} if kind else {})}
    table, _ = screen_of(write(tmp_path / "a.parquet", rows(0.5), blind=blind))
    assert [row.cells[1].value for row in table.rows] == [shown]
    assert ("vl-assay audit" in table.note) == shown.startswith("≥")


def test_a_single_category_and_a_single_score_stand_where_the_task_and_result_would(tmp_path):
    table, _ = screen_of(write(tmp_path / "a.parquet", matching([[1.0, 0.0]] * 4, categories=("swap_obj",))))
    assert table.columns[0].header == "accuracy"
    assert [(row.name, row.cells[0].value) for row in table.rows] == [("swap_obj", "100.0 %")]


def test_partial_data_are_said_beside_the_numbers(tmp_path):
    table, _ = screen_of(write(tmp_path / "a.parquet", rows(0.5, n=20), limit=20))
    assert "Partial: 20 examples of the task only" in table.note
    assert "weigh as 10 images of equal size" in table.note


def test_a_baseline_among_the_results_is_no_blind_level(tmp_path):
    for name, share in (("a", 0.9), ("b", 1.0)):
        about = {"is_baseline": name == "b", "sees_images": False}
        write(tmp_path / f"{name}.parquet", rows(share), model=name, about=about)
    table, said = screen_of(tmp_path)
    assert {row.cells[1].value for row in table.rows} == {""}
    assert said[0].startswith("Better than blind and chance in 4 of 4 categories")


def test_lower_is_better_is_marked_and_counts_the_other_way(tmp_path):
    scores = [[0.9, 0.8, 0.1], [0.8, 0.9, 0.1]] * 100
    path = write(tmp_path / "a.parquet", matching(scores, config="hard_positives"), task="hard_positives")
    table, said = screen_of(path)
    assert table.columns[0].header == "score"
    assert [row.cells[0].value for row in table.rows] == ["augmented accuracy", "brittleness ↓"]
    assert "hard_positives/swap_obj brittleness (+33.3 points)" in said[0]
