"""Runs on a Ray cluster, also one that loses a node in the middle."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from ray_support import nodes_of_which_one_is_killed
from support import UNVERIFIED, all_scores

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import predict
from vl_assay.model_wrappers.engine import ray_engine
from vl_assay.model_wrappers.engine.ray_engine import parse_engine
from vl_assay.model_wrappers.engine.shards import UNFINISHED


def test_the_engine_names_the_share_of_a_gpu():
    assert parse_engine("ray") == 1
    assert parse_engine("ray:0.25") == 0.25
    assert parse_engine("ray:2") == 2
    for engine in ("spark", "ray:0", "ray:half", "ray:1.5", "ray:-1"):
        with pytest.raises(ModelError, match=f"the engine is '{engine}'; give ray, or ray:0.5"):
            parse_engine(engine)


def test_ray_takes_no_shard_and_no_model_object(tmp_path):
    for model, changes in (("demo-clip", {"shard": "1/2"}), (object(), {})):
        with pytest.raises(ModelError, match="takes a model by its name, and no shard"):
            predict(model, "toy_scenes", out=tmp_path, engine="ray", **changes)


def test_a_killed_run_does_not_stop_one_with_other_settings_and_continues(tmp_path, monkeypatch):
    counts = []

    def run_tasks(function, items, *shared, gpus):
        for number, item in enumerate(items):
            if number == 2 and not counts:
                raise KeyboardInterrupt
            yield function(item, *shared)
        counts.append(len(items))

    monkeypatch.setattr(ray_engine, "_SHARDS", 3)
    monkeypatch.setattr(ray_engine, "cluster", nullcontext)
    monkeypatch.setattr(ray_engine, "run_tasks", run_tasks)
    run = partial(predict, "mock:bag-of-words", "toy_scenes/groups", engine="ray", limit=9, progress=False)
    with pytest.raises(KeyboardInterrupt):
        run(out=tmp_path)
    counts.append("killed")
    run(out=tmp_path, limit=8)[0].unlink()
    assert len(run(out=tmp_path, batch_size=5, workers=0)) == 1
    assert counts == ["killed", 3, 1, 1, 1]  # shards and merges: all of the other run, and what was left of the first
    assert not (tmp_path / UNFINISHED).exists()


@pytest.mark.slow
def test_a_node_killed_in_the_middle_changes_no_decision(coco, tiny_clip, tmp_path, monkeypatch):
    chosen = {"data_dir": coco(rows=600, images=300), "options": UNVERIFIED, "progress": False}
    model, tasks = f"clip:{tiny_clip}", ["sugarcrepe/add_att", "sugarcrepe/swap_obj"]
    with nodes_of_which_one_is_killed(tmp_path / "ray", "shard-*.json", monkeypatch):
        files = predict(model, tasks, out=tmp_path / "ray", engine="ray", **chosen)
    ours = all_scores(files)
    theirs = all_scores(predict(model, tasks, out=tmp_path / "alone", cache=False, **chosen))
    assert np.abs(ours - theirs).max() <= 4e-6
    assert (np.sign(ours[::2] - ours[1::2]) == np.sign(theirs[::2] - theirs[1::2])).all()
    assert not (tmp_path / "ray" / UNFINISHED).exists()
