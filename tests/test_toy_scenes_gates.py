"""What scorers that know nothing, or everything, get on the tasks of toy_scenes, from dataset to results."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vl_assay.hub_datasets import judge
from vl_assay.hub_datasets.toy_scenes import benchmark
from vl_assay.hub_datasets.toy_scenes.builder import RETRIEVAL_SIZES, SIZES
from vl_assay.hub_datasets.toy_scenes.render import to_png
from vl_assay.hub_datasets.toy_scenes.tasks import task_rows
from vl_assay.metrics.errors import ScoresError
from vl_assay.metrics.retrieval import retrieval_recall
from vl_assay.model_wrappers import load_model, score

CARD = (Path(benchmark.__file__).parent / "README.md").read_text(encoding="utf-8")
TASKS = ("hard_positives", "order", "groups", "detection", "vqa")
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
BOX_SCORES = (
    ("cpd_ap", "ap"),
    ("cpd_ap", "ap_positives"),
    ("grounding_recall", "recall_at_1"),
    ("group_recall_at_1", "recall_at_1"),
    ("yes_no_f1", "accuracy"),
    ("yes_no_f1", "macro_f1"),
)


def card_rows(tasks="the other tasks"):
    text = CARD.split(f"<!-- gates of {tasks} -->")[1].split("<!-- /")[0]
    lines = [line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines[2:]}


@pytest.fixture(scope="module")
def profiles(tmp_path_factory):
    """The scores of each mock, in the order of `SCORES`, and all that its metrics returned."""
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


def test_gates_draw_and_answer_what_the_card_says(profiles):
    table = card_rows("detection and vqa")
    assert list(table) == list(profiles)
    for name, (_, found) in profiles.items():
        assert table[name] == [f"{100 * found[metric][score]:.1f}" for metric, score in BOX_SCORES], name


def test_gates_draw_and_answer_what_theory_says(profiles):
    boxes = {name: [found[metric][score] for metric, score in BOX_SCORES] for name, (_, found) in profiles.items()}
    assert boxes["oracle"] == [1] * 6
    # A box around everything overlaps no thing by half, and no answer is a wrong answer.
    assert boxes["constant"] == [0] * 6
    # Random answers: 1/2, of 2,000 questions, 1.1 % standard error.
    assert boxes["shuffled"] == pytest.approx([0, 0, 0, 0, 1 / 2, 1 / 2], abs=0.04)
    ap, ap_positives, grounding, group, accuracy, _ = boxes["bag-of-words"]
    # It finds every thing that a phrase names, on the distractor too: with the same confidence, and a tie is wrong.
    # So a phrase of a pair is grouped right exactly where nothing on the distractor fits it.
    tied = profiles["bag-of-words"][1]["group_recall_at_1"]["tie_rate"]
    assert (ap_positives, grounding) == (1, 1)
    assert group == pytest.approx(1 - tied)
    assert ap < 0.75
    # Wrong only on distractors all of whose words apply.
    assert profiles["bag-of-words"][1]["yes_no_f1"]["false_negatives"] == 0
    assert 0.5 < accuracy < 1


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
    [by_name] = re.findall(r"By name it scores (.*?), too", CARD, flags=re.S)
    tasks = benchmark.BENCHMARK.tasks
    assert re.findall(r"`(\w+)`", sentence) == [task.name for task in tasks if task.by_default]
    assert re.findall(r"`(\w+)`", by_name) == [task.name for task in tasks if not task.by_default]


# --- retrieval and sets ---------------------------------------------------------------------------------------

MOCKS = ("constant", "shuffled", "bag-of-words", "oracle")
SETTINGS = {task.name: task.metrics["retrieval_recall"] for task in benchmark.BENCHMARK.tasks if not task.by_default}


def picture(row):
    return Image.open(io.BytesIO(to_png(row["image"])))


@pytest.fixture(scope="module")
def rows():
    sizes = {"retrieval": RETRIEVAL_SIZES["test"], "sets": SIZES["test"]}
    return {task: [row for i in range(n) for row in task_rows(task, 0, "test", i)[1]] for task, n in sizes.items()}


@pytest.fixture(scope="module")
def score_rows(rows):
    """A function from a mock to its scores: images × captions, and a caption and its negatives for each set."""
    captions = [caption for row in rows["retrieval"] for caption in row["captions"]]
    images = {task: [picture(row) for row in of_task] for task, of_task in rows.items()}

    def score_rows(mock):
        model = load_model(f"mock:{mock}")
        return {
            "retrieval": [model.score(image, captions) for image in images["retrieval"]],
            "sets": [
                model.score(image, [row["caption"], *row["hard_negatives"]])
                for image, row in zip(images["sets"], rows["sets"], strict=True)
            ],
        }

    return score_rows


@pytest.fixture(scope="module")
def recalls(score_rows, rows):
    """The recalls of each mock, as in the card."""
    right = [[5 * place + number for number in range(5)] for place in range(len(rows["retrieval"]))]
    found = {}
    for mock in MOCKS:
        scores = score_rows(mock)
        shared = retrieval_recall(scores["retrieval"], right, **SETTINGS["retrieval"])
        own = retrieval_recall(scores["sets"], [0] * len(rows["sets"]), **SETTINGS["sets"])
        found[mock] = [value for part in (shared, own) for name, value in part.items() if is_recall(name)]
    return found


def is_recall(name):
    return re.fullmatch(r"(text_|image_)?recall_at_\d+", name) is not None


def chance(rows):
    """What chance would give, by the formulas in the card."""
    n = 5 * len(rows["retrieval"])
    text = [1 - math.comb(n - 5, k) / math.comb(n, k) for k in (1, 5, 10)]
    image = [k / len(rows["retrieval"]) for k in (1, 5, 10)]
    negatives = np.array([len(row["hard_negatives"]) for row in rows["sets"]])
    return [*text, *image, *(float(np.minimum(1, k / (1 + negatives)).mean()) for k in (1, 3, 5))]


def test_gates_of_retrieval_and_sets_are_those_of_the_card(recalls, rows):
    table = card_rows("retrieval and sets")
    assert list(table) == [*MOCKS, "nan", "chance"]
    for name, values in (*recalls.items(), ("chance", chance(rows))):
        assert table[name] == [f"{100 * value:.1f}" for value in values], name
    assert table["nan"] == ["refused"] * 9


def test_gates_of_retrieval_and_sets_are_those_of_theory(recalls, rows):
    assert recalls["oracle"] == [1] * 9
    # A constant finds a caption only where fewer than k negatives come before it.
    negatives = np.array([len(row["hard_negatives"]) for row in rows["sets"]])
    assert recalls["constant"] == [0] * 6 + [float(np.mean(negatives < k)) for k in (1, 3, 5)]
    # 100 images, 500 captions, 1,000 sets; standard errors of at most 3, 1.4 and 1.5 points.
    assert recalls["shuffled"] == pytest.approx(chance(rows), abs=0.06)


def test_the_oracle_says_yes_to_what_is_right_and_to_nothing_else(score_rows, rows):
    scores = score_rows("oracle")
    expected = np.kron(np.eye(len(rows["retrieval"])), np.ones((1, 5)))
    assert np.array_equal(scores["retrieval"], expected)
    assert all(row == [1, *[0] * (len(row) - 1)] for row in scores["sets"])


def test_nan_is_refused_in_retrieval_and_sets(score_rows, rows):
    scores = score_rows("nan")
    for task, right in (("retrieval", [[0]] * len(rows["retrieval"])), ("sets", [0] * len(rows["sets"]))):
        with pytest.raises(ScoresError, match="NaN"):
            retrieval_recall(scores[task], right, **SETTINGS[task])
