"""Figures and sums of the papers, made from printed values, released data and predictions."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_reproduce import CATEGORIES, sugarcrepe_predictions, write

from vl_assay.hub_datasets.published.tables import Column
from vl_assay.metrics.common.errors import DataError, PredictionsError
from vl_assay.metrics.functional.hard_positives import augmented_accuracy, brittleness
from vl_assay.metrics.records.schema import MatchingRow
from vl_assay.model_wrappers.reproduce import analyses
from vl_assay.model_wrappers.reproduce.analyses import Material
from vl_assay.model_wrappers.reproduce.plans import scan_predictions
from vl_assay.model_wrappers.reproduce.reproduce import reproduce


@pytest.fixture
def material(tmp_path):
    return Material(tmp_path / "out")


def lines(table):
    """The cells of a table by the label of the row."""
    return {row.name: [cell.value for cell in row.cells] for row in table.rows}


def is_drawn(material, link):
    [name] = re.fullmatch(r"!\[.+\]\((.+\.png)\)", link).groups()
    return (material.folder / name).read_bytes()[:4] == b"\x89PNG"


def test_rank_shares_are_those_of_the_scores():
    scores = np.random.default_rng(0).normal(size=(500, 3))  # c, c_p, c_n
    accuracies, brittle = augmented_accuracy(scores), brittleness(scores)["brittleness"]
    found = analyses.rank_shares(
        100 * accuracies["original_accuracy"], 100 * accuracies["augmented_accuracy"], 100 * brittle
    )
    original, positive = scores[:, 0] > scores[:, 2], scores[:, 1] > scores[:, 2]
    expected = [original & positive, original & ~positive, ~original & positive, ~original & ~positive]
    assert list(found) == pytest.approx([100 * share.mean() for share in expected])


def test_the_averages_of_hard_positives_follow_from_its_table_1(material):
    averages, *tables, drawing = analyses.ranking(material)
    for printed, found in lines(averages).values():
        assert float(found) == pytest.approx(float(printed), abs=0.11)  # of values that are rounded to .1
    shares = lines(tables[0])
    # 87.6 - 48.9 = 38.7; 40.1 - 38.7 = 1.4; 100 - 48.9 - 40.1 = 11.0
    assert shares["DAC-LLM, REPLACE"] == ["48.9", "38.7", "1.4", "11.0"]
    assert all(sum(map(float, row)) == pytest.approx(100, abs=0.11) for row in shares.values())
    assert is_drawn(material, drawing)


def test_ranks_of_our_predictions_stand_next_to_the_papers(tmp_path):
    rows = [
        MatchingRow(f"s/{n}", "swap", "swap", [f"i{n}"], [0], [scores])  # c, c_p, c_n
        for n, scores in enumerate([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0], [1.0, 3.0, 2.0], [1.0, 2.0, 3.0]])
    ]
    write(tmp_path / "DAC-LLM" / "a.parquet", rows, "hard_positives/swap", name="dac")
    compared = {"hard-positives-1": reproduce("hard-positives-1", predictions=tmp_path)}
    _, first, *_ = analyses.ranking(Material(tmp_path / "out", compared=compared))
    assert lines(first)["DAC-LLM, ours, SWAP"] == ["25.0", "25.0", "25.0", "25.0"]


def test_perturbed_captions_have_the_words_of_the_papers_caption(material):
    [table] = analyses.perturbations(material)
    found = lines(table)
    assert found["Original Caption"] == [analyses.CAPTION]
    for [text] in found.values():
        assert sorted(text.split()) == sorted(analyses.CAPTION.split())
    assert len({text for [text] in found.values()}) == 5


def test_retrieval_without_order_shows_the_shuffle_that_hurts_most(material):
    text, first, image, second = analyses.retrieval_without_order(material)
    # .341 of .503 is 68 %
    assert lines(text)["COCO, CLIP, Text Recall@1"] == ["0.503", "Shuffle all words", "0.341", "68 %"]
    assert lines(image)["COCO, Flava, Text Recall@1"] == ["0.454", "Shuffle Patches (9)", "0.182", "40 %"]
    assert is_drawn(material, first)
    assert is_drawn(material, second)


def test_negclip_is_drawn_with_its_gains(material):
    table, drawing = analyses.negclip_profile(material)
    assert lines(table)["COCO-PRC"] == ["0.46", "0.36", "0.86", "+0.40"]
    assert is_drawn(material, drawing)


def test_blind_models_win_on_as_many_tasks_as_the_paper_says(material):
    table, drawing = analyses.blind_against_clip(material)
    assert [name for name, row in lines(table).items() if row[-1] == "CLIP"] == ["VL-Checklist Object"]
    assert table.note == "A blind model is the best on 9 of 10 tasks; the paper says 9 out of 10."
    assert is_drawn(material, drawing)


def test_gaps_of_blind_models_are_those_of_their_scores(tmp_path):
    # Gaps 1, 2 - 0.5 = 1.5, 2 - 3 = -1 and 0: 2 of 4 and half a tie; at least 1 in 2 of 4, at most -1 in 1 of 4.
    scores = [[2.0, 1.0], [2.0, 0.5, 3.0], [1.0, 1.0]]
    rows = [MatchingRow(f"c/{n}", "itm", "4", [f"i{n}"], [0], [each]) for n, each in enumerate(scores)]
    about = {"name": "vera", "family": "vera", "checkpoint": "v"}
    write(tmp_path / "a.parquet", rows, "crepe/productivity_swap", **about, sees_images=False)
    write(tmp_path / "b.parquet", rows, "crepe/productivity_swap", **{**about, "name": "clip"})
    material = Material(tmp_path / "out", scan_predictions(tmp_path))
    table, drawing = analyses.existing_gaps(material)
    assert lines(table) == {"vera, crepe/productivity_swap": ["62.5", "0.375", "0.250", "4"]}
    assert is_drawn(material, drawing)
    audits, text = analyses.refinement_gaps(material)  # which shows the audits in any case
    assert "no predictions of models that see no images" in text
    assert [float(value) > 50 for value in lines(audits)["all"]] == [True, True]


def test_accuracies_are_correlated_over_the_models_that_have_both(tmp_path):
    """A task that is here stands for ImageNet: its accuracies rise with SugarCrepe's, but for swap_obj's."""
    for right in range(5):
        counts = {each: 4 - right if each == "swap_obj" else right for each in CATEGORIES}
        sugarcrepe_predictions(tmp_path / f"{right}.parquet", counts, name=f"m{right}")
        scores = [[float(n < right), 0.5, 0.5, 0.5, 0.5] for n in range(4)]
        rows = [MatchingRow(f"r/{n}", "coco_order", "coco_order", [f"i{n}"], [0], [s]) for n, s in enumerate(scores)]
        write(tmp_path / f"{right}-order.parquet", rows, "aro/coco_order", name=f"m{right}")
    sugarcrepe_predictions(tmp_path / "alone.parquet", name="alone")
    material = Material(tmp_path / "out", scan_predictions(tmp_path))
    axis = Column("COCO-PRC", "aro/coco_order", "aro_itm", ("accuracy",), "micro")
    table, drawing = analyses.imagenet_correlation(material, axis)
    found = {name: row[:2] for name, row in lines(table).items()}
    assert (found["SWAP Object"], found["ADD Attribute"]) == (["0.78", "-1.00"], ["0.75", "1.00"])
    assert found["REPLACE Object"] == ["> 0.8", "1.00"]
    assert "over models and images: m0, m1, m2, m3, m4." in table.note
    assert is_drawn(material, drawing)
    with pytest.raises(PredictionsError, match="0 models have predictions on both"):
        analyses.imagenet_correlation(Material(tmp_path), axis)
    with pytest.raises(DataError, match="nowhere/at_all is no benchmark here"):
        analyses.imagenet_correlation(material, Column("-", "nowhere/at_all"))


def test_boxes_and_words_of_tricd_are_counted(shared_data, tmp_path):
    material = Material(tmp_path, data_dir=shared_data / "data")
    table, drawing = analyses.boxes(material)
    phrases = [phrase for example in material.examples("tricd/val") for phrase in example.phrases]
    assert sum(int(cell) for row in lines(table).values() for cell in row) == sum(bool(each.boxes) for each in phrases)
    assert sum(map(int, lines(table)["1"])) == sum(len(each.boxes) == 1 for each in phrases)
    assert is_drawn(material, drawing)
    drawing, text = analyses.phrase_words(material)
    assert is_drawn(material, drawing)
    assert f"validation set's {len(phrases)} phrases: person (26), dog (16)" in text
    assert sum("dog" in each.text.lower().split() for each in phrases) == 16
