"""Predictions that authors released give the results of their papers."""

from __future__ import annotations

import json

import pytest
from released_counts import GPT4V

from vl_assay.hub_datasets import load_examples, report
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict
from vl_assay.model_wrappers.reproduce.reproduce import reproduce


def other_order(released, folder):
    """The answers to the other order, made up: as released, but "neither" for one example and wrong for another."""
    folder.mkdir(parents=True)
    for file in released.glob("*.json"):
        answers = json.loads(file.read_text(encoding="utf-8"))
        right = [answer for key, answer in answers.items() if answer["correct"] and key != "108"]
        right[0]["answer"] = {"free_form_answer": "(3)", "multiple_choice_answer": None}
        right[1]["answer"]["multiple_choice_answer"] = right[1]["negative_caption"]
        summary = {"accuracy": 0.9} if file.stem == "gpt4v-add_obj" else {}
        (folder / file.name).write_text(json.dumps(answers | summary), encoding="utf-8")


@pytest.mark.slow
def test_gpt4vs_release_gives_its_row_as_the_mean_over_the_orders_of_captions(shared_data, tmp_path):
    source = shared_data / "data" / "sugarcrepe"
    (tmp_path / "data").symlink_to(source / "data")
    release = tmp_path / "gpt-4v-results"
    release.mkdir()
    (release / "negative-first").symlink_to(source / "gpt4v" / "negative-first")
    other_order(source / "gpt4v" / "negative-first", release / "positive-first")
    result = reproduce(
        "sugarcrepe-6",
        models=["GPT-4V"],
        use={"GPT-4V [33]": f"precomputed:{release}"},
        data_dir=tmp_path,
        out=tmp_path / "out",
        progress=False,
    )
    ours = {one.column.score[1]: one.ours for one in result.comparisons if one.column.score[0] == "per_category"}
    assert ours.keys() == GPT4V.keys()
    for category, (right, examples) in GPT4V.items():
        gone = category == "swap_obj"  # example 108, which is no longer released, was right
        # Two of one order are lost, in a mean over two.
        assert ours[category] == pytest.approx((right - gone - 1) / (examples - gone), abs=1e-12)


def test_the_true_boxes_of_tricd_are_perfect_and_those_on_distractors_are_not(shared_data, tmp_path):
    folder = shared_data / "data" / "tricd"
    [task] = load_examples("tricd/val", data_dir=folder, needs_images=False)
    boxes = {example.id: [phrase.boxes for phrase in example.phrases] for example in task.examples}
    perfect = [{"id": id, "boxes": own, "scores": [[0.9] * len(each) for each in own]} for id, own in boxes.items()]
    file = tmp_path / "perfect.jsonl"
    file.write_text("\n".join(map(json.dumps, perfect)), encoding="utf-8")
    [path] = predict(f"precomputed:{file}", "tricd/val", data_dir=folder, out=tmp_path, progress=False)
    ap, grounding, group = report(path, resamples=100)
    assert (ap.scores["ap"], ap.scores["n"], ap.scores["n_boxes"]) == (1, 204, 315)
    assert (grounding.scores["recall_at_1"], group.scores["recall_at_1"]) == (1, 1)
    assert read_predictions(path).metadata["run"]["without_boxes"] == 102
