"""Shards of a run on machines that share nothing, and their merged predictions."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import tiny_models
from console import invoke
from sources_sugarcrepe import make_sugarcrepe
from support import UNVERIFIED, Recorder

from vl_assay.metrics.common.errors import DataError, PredictionsError, VLAssayError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import merge, predict

TASKS = ("sugarcrepe/add_att", "sugarcrepe/swap_obj")


def options(folder, **changes):
    return {"data_dir": folder, "options": UNVERIFIED, "progress": False, "cache": False, **changes}


def scores(files):
    """The numbers of all rows, in order."""
    found = []
    for row in (row for file in files for row in read_predictions(file).rows):
        for part in (getattr(row, "boxes", None), getattr(row, "scores", None), getattr(row, "score", None)):
            found += pd.Series([part], dtype=object).explode().explode().explode().dropna().tolist()
    return np.array([number for each in found for number in np.ravel(each)], np.float64)


def assert_same(files, others):
    """The batches differ, and with them the last digits."""
    np.testing.assert_allclose(scores(files), scores(others), atol=4e-6, rtol=1e-5)


@pytest.fixture(scope="module")
def blip(tmp_path_factory):
    return tiny_models.CHECKPOINTS["blip"].build(tmp_path_factory.mktemp("shards") / "blip")


@pytest.fixture(scope="module")
def finished(tiny_clip, tmp_path_factory):
    """The sources, and the folder of three shards of a run on them, made in another order."""
    place = tmp_path_factory.mktemp("finished")
    folder = make_sugarcrepe(place / "coco", 30, 15)
    for number in (3, 1, 2):
        out, shard = place / "shards" / str(number), f"{number}/3"
        assert list(predict(f"clip:{tiny_clip}", TASKS, out=out, **options(folder, shard=shard))) == []
    return folder, place / "shards"


@pytest.fixture
def clip_shards(finished, tmp_path):
    """The sources, and a copy of the shards."""
    return finished[0], shutil.copytree(finished[1], tmp_path / "shards")


def test_shards_of_which_some_were_lost_give_the_scores_of_one_run(clip_shards, finished, tiny_clip, tmp_path):
    folder, shards = clip_shards
    for lost in (2, 3):
        shutil.rmtree(shards / str(lost))
    with pytest.raises(DataError, match=r"missing: shard 2, shard 3 of 3 .*Run these again"):
        merge(shards, out=tmp_path / "merged", progress=False)
    for found in (3, 2):
        shutil.copytree(finished[1] / str(found), shards / str(found))
    result = invoke("merge", shards, "--out", tmp_path / "merged", folder=tmp_path)
    assert result.exit_code == 0, result.exception
    merged = [tmp_path / "merged" / f"sugarcrepe.{name}.parquet" for name in ("add_att", "swap_obj")]
    assert all(str(file) in result.stdout for file in merged)
    whole = predict(f"clip:{tiny_clip}", TASKS, out=tmp_path / "whole", **options(folder))
    assert_same(merged, whole)
    assert [read_predictions(file).metadata["run"]["rechecked_pairs"] for file in (*merged, *whole)] == [
        read_predictions(whole[0]).metadata["run"]["rechecked_pairs"]
    ] * 4
    assert not (tmp_path / "merged" / ".unfinished").exists()


@pytest.mark.parametrize("model", ["blip", "demo-owlvit", "mock:oracle", "auto"])
def test_cross_encoders_detectors_pair_scorers_and_two_precisions_have_shards_too(
    model, blip, tiny_clip, toy, tmp_path
):
    name, tasks = {
        "auto": (f"clip:{tiny_clip}", ["toy_scenes/groups"]),
        "blip": (f"blip:{blip}", ["toy_scenes/groups"]),
        "demo-owlvit": (model, ["toy_scenes/detection"]),
        "mock:oracle": (model, ["toy_scenes/itm", "toy_scenes/vqa", "toy_scenes/detection", "toy_scenes/retrieval"]),
    }[model]
    chosen = {"limit": 4, "progress": False, "cache": False, "dtype": "auto" if model == "auto" else None}
    for number in (2, 1):
        predict(name, tasks, out=tmp_path / "shards" / str(number), shard=f"{number}/2", **chosen)
    merged = merge(tmp_path / "shards", out=tmp_path / "merged", progress=False)
    whole = predict(name, tasks, out=tmp_path / "whole", **chosen)
    if model == "auto":  # bfloat16 differs with the batch, and the decisions do not
        ours, theirs = (scores(files).reshape(-1, 2, 2) for files in (merged, whole))
        assert (np.diff(ours) > 0).tolist() == (np.diff(theirs) > 0).tolist()
    else:
        assert_same(merged, whole)


def test_every_item_is_in_one_shard(clip_shards):
    _, shards = clip_shards
    parts = [part for number in "123" for part in (shards / number).rglob("*.parquet")]
    assert not any(part.name.startswith("float64") for part in parts)
    for kind in ("images", "captions"):
        keys = [key for part in parts if part.name.startswith(kind) for key in pq.read_table(part)["key"].to_pylist()]
        assert len(set(keys)) == len(keys) > 0


def test_a_damaged_part_is_that_of_a_missing_shard(clip_shards, tmp_path):
    _, shards = clip_shards
    part = min((shards / "2").rglob("images.*.parquet"))
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    with pytest.raises(DataError, match=r"missing: shard 2 of 3 \(\d+ results of the stage images\)\. Run these again"):
        merge(shards, out=tmp_path / "merged", progress=False)


def test_shards_of_different_runs_are_not_merged(clip_shards, tiny_clip, tmp_path):
    folder, shards = clip_shards
    shutil.rmtree(shards / "2")
    other = options(folder, shard="2/3", dtype="bfloat16", batch_size=4)
    predict(f"clip:{tiny_clip}", TASKS, out=shards / "2", **other)
    with pytest.raises(PredictionsError, match=r"not of one run: model dtype: float32 and bfloat16; run: "):
        merge(shards, out=tmp_path / "merged", progress=False)
    shutil.rmtree(shards / "2")
    predict(f"clip:{tiny_clip}", TASKS, out=shards / "2", **options(folder, shard="2/2"))
    with pytest.raises(PredictionsError, match="these are shards of 2 and of 3"):
        merge(shards, out=tmp_path / "merged", progress=False)


def test_merging_on_other_data_than_the_shards_saw_is_refused(clip_shards, coco, tmp_path):
    _, shards = clip_shards
    with pytest.raises(PredictionsError, match="shards 1/3 and here are not of one run: the data: "):
        merge(shards, out=tmp_path / "merged", data_dir=coco(rows=50, images=30), progress=False)


def test_a_damaged_record_and_a_folder_without_shards_are_told(clip_shards, tmp_path):
    _, shards = clip_shards
    with pytest.raises(PredictionsError, match="no finished shard in"):
        merge(tmp_path / "nothing", out=tmp_path / "merged")
    record = min(shards.rglob("shard-1-of-3.json"))
    record.write_bytes(record.read_bytes()[:-1] + b"0")
    with pytest.raises(PredictionsError, match=r"shard-1-of-3\.json is not the record of a shard"):
        merge(shards, out=tmp_path / "merged", progress=False)


@pytest.mark.parametrize("text", ["0/4", "5/4", "a/b"])
def test_a_shard_that_is_none_is_told_before_anything_is_loaded(text, tmp_path):
    with pytest.raises(VLAssayError, match=re.escape(f"the shard is '{text}'; give its number")):
        predict("demo-clip", "toy_scenes", out=tmp_path, shard=text)


def test_a_shard_to_which_no_caption_falls_is_finished_too(toy, tmp_path):
    for number in (1, 2, 3, 4):  # an image and two captions
        predict(Recorder(), "toy_scenes/itm", out=tmp_path, limit=1, shard=f"{number}/4", progress=False)
    assert len([*tmp_path.rglob("shard-*-of-4.json")]) == 4
