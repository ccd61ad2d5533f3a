"""The scripts in `examples`: their quick forms end with the tables of their pages, and their arithmetic is right."""

from __future__ import annotations

import math
import re
import runpy
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas
import pytest
import sources_toy_order
import torch

from vl_assay.metrics.functional.hard_positives import augmented_accuracy, brittleness

ROOT = Path(__file__).parents[1]


def load(name):
    """The names of a script, which is not run."""
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name=name)


def headings(text):
    return re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    "name", ["order", pytest.param("hard_positives", marks=pytest.mark.slow)]
)  # trains nine models
def test_the_quick_form_makes_the_tables_and_the_figure_of_its_page(name, toy, tmp_path, monkeypatch, request):
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    sources_toy_order.shrink(monkeypatch, retrieval=8, order=8)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--out", str(tmp_path / "out")])
    load(name)["main"]()
    text = (tmp_path / "out" / "study.md").read_text("utf-8")
    page = (ROOT / "docs" / f"study-{name.replace('_', '-')}.md").read_text("utf-8").partition("## The report")[2]
    assert len(headings(text)) >= 5
    assert [heading for heading in headings(text)[1:] if heading not in headings(page)] == []
    rows = {line.split("|")[1] for line in text.splitlines() if line.startswith("| ")}
    assert [row for row in rows if f"|{row}|" not in page] == []
    assert (tmp_path / "out" / "study.png").read_bytes().startswith(b"\x89PNG")


def test_the_measures_of_hard_positives_are_the_metrics():
    script = load("hard_positives")
    categories, _ = script["make_examples"](400)
    scores = np.random.default_rng(0).integers(0, 3, (2, len(categories), 4)).astype(float)  # many ties
    for part in ("objects", "all"):
        rows = [row for row, category in enumerate(categories) if category in script["PARTS"][part]]
        options = {"categories": [categories[row] for row in rows] * 2, "clusters": [row // 4 for row in rows] * 2}
        for metric, measure in ((augmented_accuracy, "original_accuracy"), (brittleness, "brittleness")):
            found = metric(scores[:, rows, :3].reshape(-1, 3), **options, confidence=0.95, resamples=2000)
            values = script["per_scene"](scores, measure, part)
            mean, low, high = script["estimate"](values)
            assert values.shape == (2, 400)
            assert mean == pytest.approx(found[f"macro_{measure}"])
            assert (low, high) == pytest.approx(found[f"macro_{measure}_interval"], abs=0.01)
    with_period = scores[..., 0] > scores[..., 3]
    assert script["per_scene"](scores, "with_period", "all").mean() == pytest.approx(with_period.mean())


@pytest.mark.parametrize(
    ("by_seed", "over_seeds", "verdict"),
    [
        # mean 0.2, standard deviation 0.1: 0.2 ± 4.3027 · 0.1 / √3 = 0.2 ± 0.248
        ([0.1, 0.2, 0.3], "[-4.8, +44.8]", "not shown"),
        ([0.2, 0.2, 0.2], "[+20.0, +20.0]", "shown"),
        ([-0.2, -0.2, -0.2], "[-20.0, -20.0]", "refuted"),
        ([0.2], "–", "shown"),
    ],
)
def test_a_finding_needs_both_intervals(by_seed, over_seeds, verdict):
    values = np.repeat(np.array(by_seed)[:, None], 200, axis=1)
    row = load("hard_positives")["finding"]("claim", "compared", values + np.tile([-0.01, 0.01], 100))
    assert row[4:] == [over_seeds, verdict]


def values(*by_query, clusters=None, text=()):
    """Recall@1 of some queries, those of images first: 1 or 0 each."""
    columns = {"text_recall_at_1": [*text, *[math.nan] * len(by_query)]}
    columns["image_recall_at_1"] = [*[math.nan] * len(text), *by_query]
    ids = [str(number) for number in range(len(text) + len(by_query))]
    return pandas.DataFrame({**columns, "cluster": clusters or range(len(ids))}, index=ids).astype(float)


def test_the_means_drops_and_shares_of_order_are_those_of_the_arithmetic():
    script = load("order")
    plain = [values(1, 1, 1, 0)]
    shuffled = [values(*each) for each in ((1, 0, 1, 0), (1, 1, 0, 0), (0, 0, 0, 0))]
    # Means 1/2, 1/2, 0: deviations 1/6, 1/6, 1/3, whose squares 1/36 + 1/36 + 4/36 = 1/6 are divided by 2.
    assert script["over_seeds"](shuffled, "image_recall_at_1") == pytest.approx((1 / 3, math.sqrt(1 / 12)))
    # Queries keep 2/3, 1/3, 1/3, 0 of 1, 1, 1, 0: drops 1/3, 2/3, 2/3, 0, of mean 5/12.
    assert script["drop"](plain, shuffled, "image_recall_at_1").startswith("+41.7 [")
    # Queries are paired by their ids, in any order.
    turned = plain[0].iloc[::-1]
    assert script["drop"](plain, [turned], "image_recall_at_1").startswith("+0.0 [")
    # Text recall 1/2 and 1/2, image recall 1/2 and 1/4: (1/2 + 1/4) / (1/2 + 1/2); some resamples have nothing to lose.
    clusters = [0, 1, 0, 0, 1, 1]
    before, after = (values(*each, text=(1, 0), clusters=clusters) for each in ((1, 1, 0, 0), (1, 0, 0, 0)))
    assert script["kept_share"]([before], [after]) == (pytest.approx(0.75), None)
    nothing = [values(0, 0, text=(0,), clusters=[0, 0, 0])]
    assert math.isnan(script["kept_share"](nothing, nothing)[0])
    bounds = {(0.7, 0.9): "hardly needed", (0.6, 0.7): "open", (0.4, 0.6): "needed in part", (0.1, 0.3): "needed"}
    assert {each: script["verdict"](each) for each in bounds} == bounds
    assert script["verdict"](None) == "open"
