"""Two scores of several models: `vl-assay correlate`, its intervals, groups and files."""

from __future__ import annotations

import csv

import pytest
import scipy.stats
from console import invoke
from report_support import answers, matching, write

from vl_assay.hub_datasets import correlate, report
from vl_assay.metrics.common.errors import DataError, PredictionsError, UnknownNameError

FAST = {"resamples": 200}
SIZES = (100e6, 100e6, 400e6, 400e6, 2e9, 2e9)


def matching_of(right, n=40):
    return matching([[1.0, 0.0] if place < right else [0.0, 1.0] for place in range(n)])


def answers_of(right, n=40):
    """Questions of which the first are answered rightly: yes is right for every other pair."""
    return answers([1.0 if (place % 4 < 2) == (place < right) else -1.0 for place in range(n)])


def folders(tmp_path, across, up, **about):
    """A folder for each model with predictions of toy_scenes/itm and vqa, so many of which are right."""
    found = []
    for n, (one, two) in enumerate(zip(across, up, strict=True)):
        folder = tmp_path / f"m{n}"
        folder.mkdir(parents=True)
        described = {"family": "ab"[n % 2], "parameters": int(SIZES[n % 6])} | about
        write(folder / "itm.parquet", matching_of(one), model=f"m{n}", about=described, metrics={"sugarcrepe_itm": {}})
        write(
            folder / "vqa.parquet",
            answers_of(two),
            task="vqa",
            model=f"m{n}",
            about=described,
            metrics={"yes_no_f1": {}},
        )
        found.append(folder)
    return found


ACROSS, UP = [10, 14, 19, 25, 31, 36], [12, 13, 20, 24, 33, 34]
SCORES = {"across": "toy_scenes/itm:accuracy", "up": "toy_scenes/vqa:accuracy"}


def test_scores_that_rise_together_are_said_to_and_are_those_of_reports(tmp_path):
    models = folders(tmp_path, ACROSS, UP)
    found = correlate(*models, **SCORES, **FAST)
    assert found.verdict.startswith(
        "toy_scenes (itm) accuracy and toy_scenes (vqa) accuracy rise together over these 6"
    )
    [one] = found.coefficients
    assert one.result["kendall"] == pytest.approx(scipy.stats.kendalltau(ACROSS, UP)[0])
    assert one.result["pearson"] == pytest.approx(scipy.stats.pearsonr(ACROSS, UP)[0])
    values = {point.model: point.values for point in found.points}
    for model, folder in zip(("m0", "m5"), (models[0], models[5]), strict=True):
        [result] = report(folder / "itm.parquet")
        assert values[model][0] == (result.scores["accuracy"], tuple(result.scores["accuracy_interval"]))
    low, high = one.result["pearson_examples_interval"]
    assert low < high <= 1


@pytest.mark.parametrize(
    ("n", "words"), [(3, "a correlation takes 4 or more"), (4, "an interval takes 5 models or more")]
)
def test_few_models_cannot_tell(n, words, tmp_path):
    found = correlate(*folders(tmp_path, ACROSS[:n], UP[:n]), **SCORES, **FAST)
    assert found.verdict.startswith("These")
    assert "cannot tell" in found.verdict
    assert words in found.verdict
    assert found.coefficients[0].result["spearman_interval"] is None


def test_unrelated_scores_are_not_called_related(tmp_path):
    found = correlate(*folders(tmp_path, ACROSS, [20, 30, 12, 25, 14, 28]), **SCORES, **FAST)
    assert "cannot tell" in found.verdict


def test_groups_are_sizes_families_or_a_column_of_the_users(tmp_path):
    models = folders(tmp_path, ACROSS, UP)
    by_size = correlate(*models, **SCORES, by="size", **FAST)
    assert {each.group for each in by_size.coefficients} == {"", "up to 200 M", "200 M to 1 B", "over 1 B"}
    facts = tmp_path / "facts.csv"
    facts.write_text("model,data\nm0,laion\nm1,laion\n", encoding="utf-8")
    by_data = correlate(*models, **SCORES, by="data", facts=facts, **FAST)
    assert {point.model: point.group for point in by_data.points}["m1"] == "laion"
    assert {point.group for point in by_data.points} == {"laion", "not stated"}
    with pytest.raises(UnknownNameError, match="give a CSV with the columns model and data"):
        correlate(*models, **SCORES, by="data")
    facts.write_text("model,data\nother,laion\n", encoding="utf-8")
    with pytest.raises(DataError, match="the predictions are of m0"):
        correlate(*models, **SCORES, by="data", facts=facts, **FAST)
    facts.write_text("model,data\nm0,laion\nm0,own\n", encoding="utf-8")
    with pytest.raises(DataError, match="has the model 'm0' twice"):
        correlate(*models, **SCORES, by="data", facts=facts, **FAST)


def test_baselines_count_only_when_asked_for(tmp_path):
    models = folders(tmp_path, ACROSS, UP)
    extra = folders(tmp_path / "mocks", [40], [0], is_baseline=True)
    for path in extra[0].iterdir():
        path.rename(tmp_path / f"mock-{path.name}")
    paths = [*models, *sorted(tmp_path.glob("mock-*.parquet"))]
    assert correlate(*paths, **SCORES, **FAST).coefficients[0].result["n"] == 6
    assert correlate(*paths, **SCORES, with_baselines=True, **FAST).coefficients[0].result["n"] == 7


def test_the_intervals_of_points_are_of_as_many_resamples(tmp_path):
    models = folders(tmp_path, ACROSS, UP)
    scores = {"across": "toy_scenes/vqa:macro_f1", "up": "toy_scenes/vqa:accuracy"}
    for resamples in (100, 150):
        [own] = [each for each in correlate(*models, **scores, resamples=resamples).points if each.model == "m0"]
        [result] = report(models[0] / "vqa.parquet", resamples=resamples)
        assert list(own.values[0].interval) == result.scores["macro_f1_interval"]


def test_models_without_a_score_are_named(tmp_path):
    models = folders(tmp_path, ACROSS, UP)
    (models[0] / "vqa.parquet").unlink()
    found = correlate(*models, **SCORES, **FAST)
    assert found.left_out["m0"] == "toy_scenes (vqa) accuracy"
    assert "Left out: m0, which lacks toy_scenes (vqa) accuracy." in found.to_markdown()
    with pytest.raises(PredictionsError, match="no predictions of toy_scenes"):
        correlate(*models, across="toy_scenes/itm", up="toy_scenes/sets", **FAST)
    with pytest.raises(UnknownNameError, match="unknown score of toy_scenes/vqa 'wrong'"):
        correlate(*models, across="toy_scenes/itm", up="toy_scenes/vqa:wrong", **FAST)


def test_the_command_writes_a_page_a_csv_and_a_figure(tmp_path):
    models = folders(tmp_path, ACROSS, UP)
    asked = ["--across", SCORES["across"], "--up", SCORES["up"], "--by", "family", "--out", str(tmp_path / "out")]
    result = invoke("correlate", *map(str, models), *asked)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "rise together" in " ".join(result.output.split())[:200]
    assert (tmp_path / "out" / "correlation.png").read_bytes()[:4] == b"\x89PNG"
    lines = list(csv.DictReader((tmp_path / "out" / "correlation.csv").open(encoding="utf-8")))
    assert {line["model"] for line in lines} == {f"m{n}" for n in range(6)}
    assert "(correlation.png)" in (tmp_path / "out" / "correlation.md").read_text("utf-8")
