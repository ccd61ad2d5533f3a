"""Several seeds of a benchmark: their mean and deviation, and apart from these the interval of the sample."""

from __future__ import annotations

import json
import re
import statistics
from itertools import chain

import numpy as np
import pytest
from intervals import expanded_tails
from report_support import detections, matching, write

from vl_assay.hub_datasets import report
from vl_assay.metrics.functional.cpd import cpd_ap

QUICK = {"resamples": 200}


def seeds_of(folder, rows_by_seed, **facts):
    return [
        write(
            folder / f"{seed}.parquet",
            rows,
            fingerprint=f"{seed}" * 8,
            options={"seed": seed, "units": "words"},
            **facts,
        )
        for seed, rows in enumerate(rows_by_seed)
    ]


def orders(rng, n=40):
    return matching(rng.normal(size=(n, 5)), ("order",))


def test_mean_and_deviation_are_those_of_the_seeds(tmp_path):
    rng = np.random.default_rng(0)
    found = report(seeds_of(tmp_path, [orders(rng) for _ in range(3)], task="order"), **QUICK)
    [summary] = found.seeds
    values = [result.scores["accuracy"] for result in found]
    [line] = summary.lines
    score = line.scores["accuracy"]
    assert (score.values, score.mean) == (values, pytest.approx(statistics.fmean(values)))
    assert score.standard_deviation == pytest.approx(statistics.stdev(values))
    assert summary.variants == ["seed 0", "seed 1", "seed 2"]
    assert line.n == 120


def test_the_interval_is_that_of_the_sample_and_takes_an_image_as_one_cluster_in_all_seeds(tmp_path):
    # Three times the same predictions: no deviation, and no more certainty than one of them gives.
    rows = matching(np.random.default_rng(0).normal(size=(40, 2)))
    found = report(seeds_of(tmp_path, [rows] * 3), **QUICK)
    [summary] = found.seeds
    for line in summary.lines:
        score = line.scores["accuracy"]
        part = found[0].scores["per_category"].get(line.name, found[0].scores)
        key = "macro_accuracy" if line.name == "macro average" else "accuracy"
        assert score.standard_deviation == 0
        assert score.interval == pytest.approx(part[f"{key}_interval"], abs=1e-9)
    # Of other images each seed tells more: three times the examples.
    other = [matching(np.random.default_rng(seed).normal(size=(40, 2)), config=f"c{seed}") for seed in range(3)]
    for seed, each in enumerate(other):
        for row in each:
            row.images[:] = [f"{seed}-{image}" for image in row.images]
    wide, narrow = (found[0].scores["accuracy_interval"], report(seeds_of(tmp_path, other), **QUICK).seeds[0])
    bounds = next(line for line in narrow.lines if line.name == "micro average").scores["accuracy"].interval
    assert bounds[1] - bounds[0] < 0.75 * (wide[1] - wide[0])


def test_scores_that_are_no_means_are_averaged_over_seeds_and_resampled_together(tmp_path):
    rng = np.random.default_rng(0)
    runs = [detections(rng, 12) for _ in range(2)]
    found = report(seeds_of(tmp_path, runs, task="detection"), **QUICK)
    summary = next(each for each in found.seeds if "ap" in each.lines[-1].scores)
    score = summary.lines[-1].scores["ap"]
    parts = [
        cpd_ap.per_example(
            *zip(*map(as_boxes, rows), strict=True), box_format="xyxy", positive=[row.positive for row in rows]
        ).estimator("ap")
        for rows in runs
    ]
    assert score.mean == pytest.approx(np.mean([part()[0] for part in parts]))
    generator, drawn = np.random.default_rng(0), []
    for _ in range(QUICK["resamples"]):
        weights = np.bincount(generator.integers(12, size=12), minlength=12).repeat(2).astype(float)
        drawn.append(np.mean([part(weights)[0] for part in parts]))
    expected = np.quantile(drawn, expanded_tails([4] * 12, 0.95))
    assert score.interval == pytest.approx(expected)


def as_boxes(row):
    boxes, scores, truth = (list(chain(*each)) for each in (row.boxes, row.scores, row.truth))
    prediction = {"boxes": boxes, "scores": scores, "phrase_ids": numbers(row.boxes)}
    return prediction, {"boxes": truth, "phrase_ids": numbers(row.truth)}


def numbers(found):
    return [number for number, boxes in enumerate(found) for _ in boxes]


def test_rows_are_labelled_by_their_seed_and_the_summary_is_in_every_format(tmp_path, capsys):
    rng = np.random.default_rng(0)
    found = report(seeds_of(tmp_path, [orders(rng) for _ in range(2)], task="order"), **QUICK)
    files = found.write(tmp_path / "report")
    assert "seeds.json" in [file.name for file in files]
    text = (tmp_path / "report" / "report.md").read_text()
    titles = re.findall(r"^### (.*)", text, flags=re.M)
    assert titles == [
        "Scores on toy_scenes",
        "a (seed 0) on toy_scenes (order): itm_accuracy",
        "a (seed 1) on toy_scenes (order): itm_accuracy",
        "a on toy_scenes (order): itm_accuracy over 2 seeds",
    ]
    [line] = found.seeds[0].lines
    score = line.scores["accuracy"]
    shown = f"{100 * score.mean:.1f} ± {100 * score.standard_deviation:.1f} %"
    low, high = (100 * bound for bound in score.interval)
    assert f"| order | {shown} | {low:.1f} – {high:.1f} | 80 |" in text
    found.print()
    assert shown in capsys.readouterr().out
    assert list(found.to_pandas()["variant"]) == ["seed 0", "seed 1"]
    document = json.loads((tmp_path / "report" / "seeds.json").read_text())
    [summary] = document["seeds"]
    assert summary["lines"][0]["scores"]["accuracy"]["values"] == score.values
    assert [text.get_text() for text in found.plot().legends[0].get_texts()] == ["a", "chance"]


def test_runs_on_the_same_data_count_as_seeds_too(tmp_path):
    rng = np.random.default_rng(0)
    paths = [write(tmp_path / f"run{run}.parquet", orders(rng), task="order") for run in range(2)]
    found = report(paths, **QUICK)
    assert [len(summary.files) for summary in found.seeds] == [2]
    assert found.seeds[0].variants == ["file run0.parquet", "file run1.parquet"]


def test_what_differs_in_more_than_chance_is_not_averaged(tmp_path):
    rng = np.random.default_rng(0)
    words, tokens = (
        write(tmp_path / f"{units}.parquet", orders(rng), task="order", options={"seed": 0, "units": units})
        for units in ("words", "tokens")
    )
    one, two = (
        write(tmp_path / f"{config}.parquet", matching([[1, 0], [0, 1]], (config,)), "sugarcrepe", configs=[config])
        for config in ("add_att", "swap_obj")
    )
    found = report([words, tokens, one, two], **QUICK)
    assert found.seeds == []
    assert list(found.to_pandas()["variant"]) == [
        "units words", "units tokens", "configs add_att", "configs swap_obj"
    ]  # fmt: skip
    assert report([words, words], **QUICK).seeds == []
