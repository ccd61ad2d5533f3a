"""What scorers that know nothing, or everything, get on the tasks of toy_scenes, from dataset to results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vl_assay.hub_datasets import judge
from vl_assay.hub_datasets.toy_scenes import benchmark
from vl_assay.model_wrappers import score

CARD = (Path(benchmark.__file__).parent / "README.md").read_text(encoding="utf-8")
TASKS = ("hard_positives", "order", "groups")
SCORES = (
    ("augmented_accuracy", "original_accuracy"),
    ("augmented_accuracy", "augmented_accuracy"),
    ("brittleness", "brittleness"),
    ("brittleness", "both_wrong"),
    ("aro_itm", "accuracy"),
    ("group_match", "text_score"),
    ("group_match", "image_score"),
    ("group_match", "group_score"),
)


def card_rows():
    text = CARD.split("<!-- gates of the other tasks -->")[1].split("<!-- /")[0]
    lines = [line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines[2:]}


@pytest.fixture(scope="module")
def profiles(tmp_path_factory):
    """The scores of each mock, in the order of `SCORES`, and the tie rates of its metrics."""
    profiles = {}
    for name in ("constant", "shuffled", "bag-of-words", "oracle"):
        out = tmp_path_factory.mktemp(name)
        sheets = score(f"mock:{name}", [f"toy_scenes/{task}" for task in TASKS], out=out, progress=False)
        results = {result.metric: result for result in judge(sheets, resamples=100)}
        profiles[name] = ([results[m].scores[s] for m, s in SCORES], {m: r.scores for m, r in results.items()})
    return profiles


def test_gates_score_what_the_card_says(profiles):
    table = card_rows()
    assert list(table) == list(profiles)
    for name, (scores, _) in profiles.items():
        assert table[name] == [f"{100 * value:.1f}" for value in scores], name


def test_gates_score_what_theory_says(profiles):
    # No score of a constant is above another; the oracle is right about everything, and so not brittle.
    assert profiles["constant"][0] == [0] * 8
    assert profiles["oracle"][0] == [1, 1, 0, 0, 1, 1, 1, 1]
    # Random orders: 1/2, 2 of 6, 2 of 6, 2 of 6, 1 of 5, 1/4, 1/4, 1/6; of 1,000 scenes, 1.6 % standard error.
    chance = [1 / 2, 1 / 3, 1 / 3, 1 / 3, 1 / 5, 1 / 4, 1 / 4, 1 / 6]
    assert profiles["shuffled"][0] == pytest.approx(chance, abs=0.05)
    # The same words in another order tie: all shuffles of a caption, and captions whose words are swapped.
    _, bag = profiles["bag-of-words"]
    assert bag["aro_itm"]["tie_rate"] == 1
    assert bag["augmented_accuracy"]["per_category"]["swap"]["tie_rate"] == 1
    assert (bag["group_match"]["text_score"], bag["group_match"]["group_score"]) == (0, 0)


def test_the_card_names_the_tasks_that_are_scored():
    [sentence] = re.findall(r"^`vl-assay run` scores (.*?)\.", CARD, flags=re.M | re.S)
    assert re.findall(r"`(\w+)`", sentence) == [task.name for task in benchmark.BENCHMARK.tasks]
