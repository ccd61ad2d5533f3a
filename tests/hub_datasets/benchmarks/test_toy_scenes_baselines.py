"""The scores of the mocks on the tasks of toy_scenes, from dataset to results, are those that theory predicts."""

import math

import numpy as np
import pytest
import sources_toy_scenes

from vl_assay.hub_datasets import build, get_benchmark, report
from vl_assay.hub_datasets.toy_scenes.tasks import task_rows
from vl_assay.model_wrappers import predict

SCENES = 160


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Datasets of the first scenes of test: of the tasks that are scored by default, and of the others."""
    found = []
    checked = {"detection", "vqa", "retrieval", "sets"}
    tasks = get_benchmark("toy_scenes").tasks
    by_default = checked & {config for task in tasks if task.by_default for config in task.configs}
    for configs in (sorted(by_default), sorted(checked - by_default)):
        with pytest.MonkeyPatch.context() as patch:
            sources_toy_scenes.shrink(patch, SCENES)
            folder = tmp_path_factory.mktemp("toy") / "built"
            found.append(str(build("toy_scenes", folder, configs=configs, options={"train_scenes": 0})))
    return found


@pytest.fixture(scope="module")
def profiles(folders, tmp_path_factory):
    """The scores of each mock by task and metric."""
    found = {}
    for mock in ("constant", "shuffled", "bag-of-words", "oracle"):
        references = [*folders, "toy_scenes/paraphrases"]
        predictions = predict(f"mock:{mock}", references, out=tmp_path_factory.mktemp(mock), limit=400, progress=False)
        results = report(predictions, resamples=100)
        found[mock] = {(result.benchmark["task"], result.metric): result.scores for result in results}
    return found


def table(profiles, *columns):
    """The scores of each mock in columns, each a task, a metric and a score."""
    return {mock: [scores[task, metric][name] for task, metric, name in columns] for mock, scores in profiles.items()}


def test_captions_compared_with_each_other_score_what_theory_says(profiles):
    scores = {mock: each["paraphrases", "itm_accuracy"] for mock, each in profiles.items()}
    assert (scores["oracle"]["accuracy"], scores["constant"]["accuracy"]) == (1, 0)
    assert scores["constant"]["tie_rate"] == 1
    # The pair that means the same is first of three: 1/3, of 400 captions, 2.4 % standard error.
    assert scores["shuffled"]["accuracy"] == pytest.approx(1 / 3, abs=0.06)
    # Exchanged phrases and exchanged attributes are the same words; one noun for another differs in one word, whatever
    # it means.
    bag = scores["bag-of-words"]["per_category"]
    assert (bag["swap"]["accuracy"], bag["swap"]["tie_rate"]) == (0, 1)
    assert (bag["replace_obj"]["accuracy"], bag["replace_obj"]["tie_rate"]) == (0, 1)


def test_boxes_and_answers_score_what_theory_says(profiles):
    scores = table(
        profiles,
        ("detection", "cpd_ap", "ap"),
        ("detection", "cpd_ap", "ap_positives"),
        ("detection", "grounding_recall", "recall_at_1"),
        ("detection", "group_recall_at_1", "recall_at_1"),
        ("vqa", "yes_no_f1", "accuracy"),
        ("vqa", "yes_no_f1", "macro_f1"),
    )
    assert scores["oracle"] == [1] * 6
    # A box around everything overlaps no thing by half, and no answer is a wrong answer.
    assert scores["constant"] == [0] * 6
    # Random answers: 1/2, of 320 questions, 2.8 % standard error.
    assert scores["shuffled"] == pytest.approx([0, 0, 0, 0, 1 / 2, 1 / 2], abs=0.08)
    ap, ap_positives, grounding, group, accuracy, _ = scores["bag-of-words"]
    # It finds every thing that a phrase names, on the distractor too: with the same confidence, and a tie is wrong.
    # So a phrase of a pair is grouped right exactly where nothing on the distractor fits it.
    assert (ap_positives, grounding) == (1, 1)
    assert group == pytest.approx(1 - profiles["bag-of-words"]["detection", "group_recall_at_1"]["tie_rate"])
    assert ap < 0.75
    # Wrong only on distractors all of whose words apply.
    assert profiles["bag-of-words"]["vqa", "yes_no_f1"]["false_negatives"] == 0
    assert 0.5 < accuracy < 1


def test_retrieval_and_sets_score_what_theory_says(profiles):
    recalls = [
        ("retrieval", "retrieval_recall", f"{side}_recall_at_{k}") for side in ("text", "image") for k in (1, 5, 10)
    ]
    scores = table(profiles, *recalls, *(("sets", "retrieval_recall", f"recall_at_{k}") for k in (1, 3, 5)))
    negatives = np.array([len(task_rows("sets", 0, "test", i)[1][0]["hard_negatives"]) for i in range(SCENES)])
    assert scores["oracle"] == [1] * 9
    # A constant finds a caption only where fewer than k negatives come before it.
    assert scores["constant"] == [0] * 6 + [np.mean(negatives < k) for k in (1, 3, 5)]
    # Chance by the formulas in the card; 40 images, 200 captions and 160 sets: standard errors of at most 7 points.
    images = SCENES // 4
    n = 5 * images
    text = [1 - math.comb(n - 5, k) / math.comb(n, k) for k in (1, 5, 10)]
    sets = [np.minimum(1, k / (1 + negatives)).mean() for k in (1, 3, 5)]
    chance = [*text, *(k / images for k in (1, 5, 10)), *sets]
    assert scores["shuffled"] == pytest.approx(chance, abs=0.1)
