"""Interrupted runs: they end with the same decisions, and lose nothing that was there."""

from __future__ import annotations

import json
import os
import subprocess
import time

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from support import NO_CACHE, Pairs, Recorder, all_scores, command, finish, run_quietly

from vl_assay.metrics.common.errors import PredictionsError, StorageError
from vl_assay.metrics.records.predictions import read_predictions


@pytest.fixture
def interrupted(coco, tmp_path):
    """The sources of a run into the folder `out` that stopped after all images and some captions."""
    folder = coco(rows=120, images=60)
    with pytest.raises(KeyboardInterrupt):
        run_quietly(Recorder(fail_after=250), folder, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.parquet"))
    return folder


def test_an_interrupted_run_goes_on_where_it_stopped(interrupted, tmp_path):
    resumed, undisturbed = Recorder(), Recorder()
    ours = all_scores(run_quietly(resumed, interrupted, tmp_path / "out"))
    theirs = all_scores(run_quietly(undisturbed, interrupted, tmp_path / "other"))
    assert (ours == theirs).all()
    assert resumed.images == 0
    assert resumed.captions == undisturbed.captions - 5 * 32  # the batches before the error are stored
    assert not (tmp_path / "out" / ".unfinished").exists()


@pytest.mark.slow
def test_runs_killed_at_ten_moments_by_other_numbers_of_processes_decide_the_same(tiny_clip, coco, tmp_path):
    folder, cache = coco(rows=1500, images=900), tmp_path / "cache"
    task = ["predict", tiny_clip, "sugarcrepe/add_att", "--data-dir", folder, "-o", "verify=false"]
    started = time.monotonic()
    finish(command(*task, "--out", tmp_path / "one", "--config", NO_CACHE))
    full = time.monotonic() - started
    killed = 0
    for number in range(10):
        world = 1 + number % 3
        environment = {"VL_ASSAY_CACHE": str(cache)}
        process = command(*task, "--out", tmp_path / "many", processes=world, **environment)
        time.sleep(full * (0.6 + 0.1 * number))
        killed += process.poll() is None
        for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
            child.kill()
        process.kill()
        process.communicate()
    finish(command(*task, "--out", tmp_path / "many", processes=2, VL_ASSAY_CACHE=str(cache)))
    assert killed >= 5
    one, many = (all_scores([tmp_path / run / "sugarcrepe.add_att.parquet"]) for run in ("one", "many"))
    assert np.abs(one - many).max() <= 4e-6
    assert (np.sign(one[::2] - one[1::2]) == np.sign(many[::2] - many[1::2])).all()
    parts = list((cache / "store").rglob("*.parquet"))
    for kind in {part.name.partition(".")[0] for part in parts}:
        own = [part for part in parts if part.name.startswith(f"{kind}.")]
        keys = [key for part in own for key in pq.read_table(part)["key"].to_pylist()]
        assert len(set(keys)) == len(keys), f"{kind} computed twice what was stored"


def test_parts_of_other_pairs_of_the_same_images_and_captions_are_not_taken(coco, tmp_path):
    folder = coco(rows=120, images=60)
    with pytest.raises(KeyboardInterrupt):
        run_quietly(Pairs(stop_after=40), folder, tmp_path / "out")
    path = folder / "data" / "swap_obj.json"
    records = json.loads(path.read_text())
    records["0"], records["1"] = ({**records[a], "filename": records[b]["filename"]} for a, b in ("01", "10"))
    path.write_text(json.dumps(records))
    model = Pairs()
    ours = all_scores(run_quietly(model, folder, tmp_path / "out"))
    assert (ours == all_scores(run_quietly(Pairs(), folder, tmp_path / "other"))).all()


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_one_message_and_leaves_earlier_results_intact(small_disk, coco, tmp_path):
    folder = coco(rows=400, images=300)
    [path, _] = run_quietly(Recorder(), folder, small_disk / "out")
    before = path.read_bytes()
    filler = small_disk / "filler"
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize
    filler.write_bytes(b"\0" * (free - 8_000))
    with pytest.raises(StorageError, match=r"No space left on device.*run the same command again"):
        run_quietly(Recorder(name="second"), folder, small_disk / "second")
    assert path.read_bytes() == before
    assert not list((small_disk / "second").glob("*.parquet"))
    filler.unlink()
    [second, _] = run_quietly(Recorder(name="second"), folder, small_disk / "second")
    assert read_predictions(second).model == "second"


def test_the_predictions_of_another_model_or_of_other_data_is_not_replaced(coco, tmp_path):
    folder = coco()
    [path, _] = run_quietly(Recorder(), folder, tmp_path / "out")
    before = path.read_bytes()
    with pytest.raises(PredictionsError, match=r"holds scores of .*'recorder'.*name another folder with --out"):
        run_quietly(Recorder(name="second"), folder, tmp_path / "out")
    file = folder / "data" / "add_att.json"
    file.write_text(file.read_text().replace("number 1", "number one"))
    with pytest.raises(PredictionsError, match="another version of the data"):
        run_quietly(Recorder(), folder, tmp_path / "out")
    assert path.read_bytes() == before
