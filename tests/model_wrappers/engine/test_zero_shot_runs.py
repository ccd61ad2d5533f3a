"""Zero-shot classification in the runner and all that follows: prompt ensembles, reports, comparisons, fine-tuning."""

from __future__ import annotations

import numpy as np
import pytest
from noise import write_noise
from support import Pairs, Recorder

from vl_assay.hub_datasets import load_examples, report
from vl_assay.hub_datasets.core.images import decode
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import load_model, predict

NAMES = ("cat", "dog", "fire engine")
TEMPLATES = ("a photo of a {}.", "art of the {}!", "{}")


@pytest.fixture
def images(tmp_path):
    """Three images of each of three labels, and a class without an image."""
    folder = tmp_path / "images"
    write_noise([folder / name.replace(" ", "_") / f"{number}.png" for name in NAMES for number in range(3)], 20, 24)
    (folder / "classnames.txt").write_text("cat\tcat\ncow\tcow\ndog\tdog\nfire_engine\tfire engine\n")
    return folder


@pytest.fixture
def data(images):
    return {"data_dir": images, "options": {"templates": "|".join(TEMPLATES)}}


def rows_of(model, folder, data, **options):
    [path] = predict(model, "zero_shot/folder", out=folder, progress=False, **data, **options)
    return read_predictions(path).rows


def scores_of(model, folder, data):
    return np.array([row.scores for row in rows_of(model, folder, data)])


def prompts(data):
    [task] = load_examples("zero_shot/folder", **data)
    assert list(task.candidates) == ["cat", "cow", "dog", "fire engine"]
    return task, list(task.candidates.values())


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_a_dual_encoder_scores_the_mean_direction_of_a_class_s_prompts(data, tmp_path):
    task, of_class = prompts(data)
    model = load_model("demo-clip")
    embedded = [np.asarray(model.encode_captions(model.prepare_captions(texts)), np.float64) for texts in of_class]
    classes = unit(np.stack([unit(each).mean(axis=0) for each in embedded]))
    files = [decode(task.image_bytes(example.images[0])) for example in task.examples]
    seen = np.asarray(model.encode_images([model.prepare_image(image) for image in files]), np.float64)
    found = scores_of("demo-clip", tmp_path / "out", data)
    assert np.allclose(found, seen @ classes.T, atol=2e-6)
    # Not the mean of the prompts' scores, which is lower where prompts differ.
    assert not np.allclose(found, seen @ np.stack([unit(each).mean(axis=0) for each in embedded]).T, atol=1e-3)


def test_a_pair_scorer_gives_a_class_the_mean_score_of_its_prompts(data, tmp_path):
    _, of_class = prompts(data)
    found = scores_of(Pairs(), tmp_path, data)
    lengths = [np.mean([len(text) for text in texts]) / 1000 for texts in of_class]
    assert np.allclose(found - found[:, :1], np.array(lengths) - lengths[0], atol=1e-4)


def test_a_class_s_column_is_right_and_predictions_of_classes_without_images_are_there(data, tmp_path):
    rows = rows_of(Recorder(), tmp_path, data)
    task, _ = prompts(data)
    column = {name: place for place, name in enumerate(task.candidates)}
    assert [row.correct for row in rows] == [[column[example.captions[0]]] for example in task.examples]
    assert {len(row.scores) for row in rows} == {4}
    assert [row.id for row in rows[:3]] == ["folder/cat/0.png", "folder/dog/0.png", "folder/fire_engine/0.png"]


def test_a_limit_takes_images_of_many_classes_and_all_candidates(data, tmp_path):
    rows = rows_of(Recorder(), tmp_path, data, limit=3)
    assert sorted(row.correct[0] for row in rows) == [0, 2, 3]
    assert {len(row.scores) for row in rows} == {4}


def test_the_report_has_acc_at_1_over_images_and_over_classes(images, tmp_path):
    write_noise([images / "cat" / f"{number}.png" for number in range(3, 6)], 20, 24)  # classes of 6, 3 and 3 images
    [path] = predict(Recorder(), "zero_shot/folder", out=tmp_path / "out", data_dir=images, progress=False)
    [result] = report(path)
    rows = read_predictions(path).rows
    right = np.array([int(np.argmax(row.scores)) == row.correct[0] for row in rows])
    of_class = np.array([row.correct[0] for row in rows])
    assert result.scores["acc_at_1"] == right.mean()
    by_class = [right[of_class == each].mean() for each in (0, 2, 3)]
    assert result.scores["macro_acc_at_1"] == pytest.approx(np.mean(by_class))
    assert "acc_at_5" not in result.scores  # there are four classes
    assert result.chance["acc_at_1"] == 1 / 4
