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
from vl_assay.model_wrappers.engine.chunks import ChunkStore
from vl_assay.model_wrappers.engine.ray_engine import Board, parse_engine
from vl_assay.model_wrappers.engine.shards import UNFINISHED, RunRecord

ABOUT = {"model": {"name": "m", "dtype": "float32"}}
RECORD = RunRecord("1a2b", "m", ["toy_scenes"], [], {"batch_size": None}, {}, ABOUT)


@pytest.fixture
def board(tmp_path):
    board = Board(str(tmp_path))
    board.open(RECORD)
    return board


def claim_all(board, worker, chunks=5):
    return list(iter(lambda: board.claim("images", chunks, worker), None))


def test_every_chunk_is_handed_out_once(board):
    taken = [board.claim("images", 5, f"w{n % 2}") for n in range(5)]
    assert sorted(taken) == [0, 1, 2, 3, 4]
    assert board.claim("images", 5, "w0") is None
    assert board.state() == (None, 0, 5)
    for number in taken:
        board.save("images", number, np.ones((2, 3)))
    board.close(replace(RECORD, stages={"images": 5}))
    assert board.state() == (replace(RECORD, stages={"images": 5}), 0, 0)


def test_what_a_lost_worker_had_claimed_is_handed_out_again(board):
    first = board.claim("images", 5, "lost")
    second = board.claim("images", 5, "lost")
    board.save("images", first, np.ones((2, 3)))
    rest = claim_all(board, "other")
    assert board.release("lost") == 1
    assert board.release("lost") == 0
    assert claim_all(board, "other") == [second]
    assert sorted([first, second, *rest]) == [0, 1, 2, 3, 4]


def test_a_new_board_hands_out_only_what_is_not_finished(board, tmp_path):
    for number in (1, 3):
        board.claim("images", 5, "w")
        board.save("images", number, np.full((1, 1), number))
    again = Board(str(tmp_path))
    again.open(RECORD)
    assert sorted(claim_all(again, "w")) == [0, 2, 4]
    assert again.load("images", 3) == [[3]]
    store = ChunkStore(tmp_path / UNFINISHED / RECORD.identity)
    assert store.load("images", 1) == [[1]]


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
