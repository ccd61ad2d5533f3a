"""Runs on a Ray cluster: how chunks are handed out, and what a lost node costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ray_support import nodes_of_which_one_is_killed
from support import UNVERIFIED

from vl_assay.metrics.common.errors import ModelError, PredictionsError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict
from vl_assay.model_wrappers.engine.ray_engine import Board, parse_engine
from vl_assay.model_wrappers.engine.shards import UNFINISHED, RunRecord

ABOUT = {"model": {"name": "m", "dtype": "float32"}}
RECORD = RunRecord("1a2b", "m", ["toy_scenes"], [], {"batch_size": None}, {}, ABOUT)


@pytest.fixture
def board(tmp_path):
    board = Board(str(tmp_path))
    board.open(RECORD)
    return board


def test_every_chunk_is_handed_out_once_and_that_of_a_lost_worker_or_board_again(board, tmp_path):
    taken = [board.claim("images", 5, worker) for worker in ("w0", "w1", "lost", "lost", "w0")]
    assert sorted(taken) == [0, 1, 2, 3, 4]
    assert board.claim("images", 5, "w0") is None
    for number in taken[:3]:
        board.save("images", number, np.full((2, 3), number))
    assert (board.release("lost"), board.release("lost")) == (1, 0)
    assert board.claim("images", 5, "w1") == taken[3]
    again = Board(str(tmp_path))
    again.open(RECORD)
    assert sorted(iter(lambda: again.claim("images", 5, "w"), None)) == sorted(taken[3:])
    assert (again.load("images", taken[0]) == taken[0]).all()


def test_a_worker_with_another_model_is_refused_with_what_differs(board):
    other = replace(RECORD, identity="ffff", about={"model": {"name": "m", "dtype": "bfloat16"}})
    with pytest.raises(PredictionsError, match="model dtype: float32 and bfloat16"):
        board.open(other)


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


@pytest.mark.slow
def test_a_node_killed_in_the_middle_changes_no_bit(coco, tiny_clip, tmp_path, monkeypatch):
    chosen = {"data_dir": coco(rows=600, images=300), "options": UNVERIFIED, "progress": False}
    model, tasks = f"clip:{tiny_clip}", ["sugarcrepe/add_att", "sugarcrepe/swap_obj"]
    with nodes_of_which_one_is_killed(tmp_path / "ray", "*.npy", monkeypatch):
        files = predict(model, tasks, out=tmp_path / "ray", engine="ray", **chosen)
    alone = predict(model, tasks, out=tmp_path / "alone", cache=False, **chosen)
    assert [read_predictions(file).rows for file in files] == [read_predictions(file).rows for file in alone]
    assert not (tmp_path / "ray" / UNFINISHED).exists()
