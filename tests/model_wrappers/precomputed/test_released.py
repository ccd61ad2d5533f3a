"""Predictions that authors released give the results of their papers."""

from __future__ import annotations

import json

from released_counts import GPT4V

from vl_assay.hub_datasets import report
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict


def gpt4v_run(shared_data, tmp_path, name, **settings):
    (tmp_path / "data").symlink_to(shared_data / "data" / "sugarcrepe" / "data")
    return lambda model: predict(
        model, name, data_dir=tmp_path, out=tmp_path / "out", settings=settings, progress=False
    )  # fmt: skip


def test_gpt4v_is_evaluated_from_the_files_that_its_authors_released(shared_data, tmp_path):
    released = shared_data / "data" / "sugarcrepe" / "gpt4v" / "negative-first"
    run = gpt4v_run(shared_data, tmp_path, "sugarcrepe/swap_obj", allow_unknown="true")
    [path] = run(f"precomputed:{released / 'gpt4v-swap_obj.json'}")
    predictions = read_predictions(path)
    assert predictions.model == "gpt4v-swap_obj"
    # The answer of key "108", to an example that is no longer in the release, was right; five said neither.
    assert (predictions.metadata["run"]["unknown_answers"], predictions.metadata["run"]["no_answer"]) == (1, 5)
    [result] = report(path, resamples=100)
    right, examples = GPT4V["swap_obj"]
    assert (result.scores["n"], result.scores["accuracy"]) == (examples - 1, (right - 1) / (examples - 1))
    assert result.scores["tie_rate"] == 5 / (examples - 1)


def test_the_true_boxes_of_tricd_are_perfect_and_those_on_distractors_are_not(shared_data, tmp_path):
    folder = shared_data / "data" / "tricd"
    released = json.loads((folder / "TRICD_grounding_val.json").read_text(encoding="utf-8"))
    kept = ("image_id", "phrase_id", "category_id", "bbox")
    perfect = [
        {key: box[key] for key in kept} | {"id": n, "score": 0.9} for n, box in enumerate(released["annotations"])
    ]
    (tmp_path / "perfect.json").write_text(json.dumps(perfect), encoding="utf-8")
    [path] = predict(f"precomputed:{tmp_path}/perfect.json", "tricd/val", data_dir=folder, out=tmp_path, progress=False)
    ap, grounding, group = report(path, resamples=100)
    assert (ap.scores["ap"], ap.scores["n"], ap.scores["n_boxes"]) == (1, 204, 315)
    assert (grounding.scores["recall_at_1"], group.scores["recall_at_1"]) == (1, 1)
    assert read_predictions(path).metadata["run"]["without_boxes"] == 102


def test_the_questions_of_tricd_are_answered_by_number(shared_data, tmp_path):
    folder = shared_data / "data" / "tricd"
    released = json.loads((folder / "TRICD_VQA_val.json").read_text(encoding="utf-8"))["annotations"]
    said = [{"image_id": entry["image_id"], "answer": entry["answer"]} for entry in released]
    (tmp_path / "right.json").write_text(json.dumps(said), encoding="utf-8")
    [path] = predict(f"precomputed:{tmp_path}/right.json", "tricd/vqa", data_dir=folder, out=tmp_path, progress=False)
    [result] = report(path, resamples=100)
    assert (result.scores["accuracy"], result.scores["macro_f1"], result.scores["n"]) == (1, 1, 204)
