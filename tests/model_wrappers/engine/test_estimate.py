"""What a sample of a run tells beforehand: how long it takes, and what half precision changes."""

from __future__ import annotations

import pytest
from support import UNVERIFIED, Recorder

from vl_assay.hub_datasets import load_examples
from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import plan, predict
from vl_assay.model_wrappers.engine.distributed import available_cpus
from vl_assay.model_wrappers.engine.estimate import changed_decisions, estimate, sample


@pytest.fixture
def tasks(coco):
    return load_examples("sugarcrepe/add_att", data_dir=coco(rows=300, images=120), options=UNVERIFIED)


class Slow(Recorder):
    """Takes a while for each image it prepares."""

    def prepare_image(self, image):
        import time

        time.sleep(0.02)
        return super().prepare_image(image)


def test_a_sample_is_spread_over_the_whole_task(tasks):
    [small] = sample(tasks, 4)
    places = [[example.id for example in tasks[0].examples].index(example.id) for example in small.examples]
    assert places == [0, 100, 199, 299]
    assert len(sample(tasks, 1000)[0].examples) == 300


def test_the_prediction_scales_with_the_work_and_names_what_bounds_it(tasks):
    whole = estimate(Slow(), tasks, batch_size=8, size=30)
    assert whole.bound == "decode"
    assert (whole.sample, whole.examples) == (30, 300)
    # 120 images at 20 ms each in at least four threads, and not much less.
    assert whole.seconds["decode"] > 0.5 * 120 * 0.02 / max(4, available_cpus())
    assert whole.memory > 10e6


def test_a_plan_writes_nothing(coco, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = coco(rows=30, images=10)
    prediction = plan("mock:shuffled", "sugarcrepe/add_att", data_dir=folder, options=UNVERIFIED)
    assert prediction.total > 0
    assert not (tmp_path / "vl-assay-results").exists()


def test_changes_are_counted_against_the_exact_model(tasks):
    same = changed_decisions(Recorder(), Recorder(), tasks, batch_size=8, size=50)
    assert same == {"precision_sample": 50, "precision_changes": 0}
    noisy = changed_decisions(Recorder(noise=1.0), Recorder(), tasks, batch_size=8, size=50)
    assert 0 < noisy["precision_changes"] <= 50


def test_the_predictions_says_how_many_decisions_half_precision_changed(tiny_clip, coco, tmp_path):
    folder = coco(rows=60, images=20)
    [path] = predict(
        str(tiny_clip), "sugarcrepe/add_att", data_dir=folder, options=UNVERIFIED, out=tmp_path, dtype="bfloat16",
        check_precision=40, progress=False,
    )  # fmt: skip
    facts = read_predictions(path).metadata["run"]
    assert facts["precision_sample"] == 40
    assert 0 <= facts["precision_changes"] <= 40
    with pytest.raises(ModelError, match="name it by a text"):
        predict(Recorder(), "sugarcrepe/add_att", data_dir=folder, options=UNVERIFIED, check_precision=5)
