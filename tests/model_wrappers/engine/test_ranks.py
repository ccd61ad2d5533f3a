"""Runs of several processes: they share the work, and all go on or end together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import Recorder, all_scores, command, run_quietly

from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict


@pytest.mark.parametrize(("mixed", "given", "dtype"), [("bf16", None, "bfloat16"), ("bf16", "float32", "float32")])
def test_the_precision_of_the_users_accelerate_configuration_is_the_default(
    mixed, given, dtype, toy, tmp_path, monkeypatch
):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", mixed)
    [file] = predict("demo-clip", "toy_scenes/groups", out=tmp_path, limit=4, dtype=given, cache=False, progress=False)
    assert read_predictions(file).metadata["model"]["dtype"] == dtype


def test_two_processes_of_accelerate_launch_give_the_scores_of_one(tiny_clip, coco, tmp_path):
    folder = coco(rows=60, images=40)
    script = Path(sys.executable).with_name("vl-assay")
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", script]
    run = ["predict", tiny_clip, "sugarcrepe/add_att", "--data-dir", folder, "-o", "verify=false", "--out"]
    done = subprocess.run(
        [*map(str, launch), *map(str, run), tmp_path / "two"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    file = tmp_path / "two" / "sugarcrepe.add_att.parquet"
    assert read_predictions(file).metadata["run"]["processes"] == 2
    one = all_scores(run_quietly(str(tiny_clip), folder, tmp_path / "one", ["sugarcrepe/add_att"], cache=False))
    two = all_scores([file])
    assert np.abs(one - two).max() <= 4e-6
    assert (np.sign(one[::2] - one[1::2]) == np.sign(two[::2] - two[1::2])).all()


@pytest.mark.slow
def test_an_error_of_one_process_ends_all_with_its_message(tiny_clip, coco, tmp_path):
    folder = coco(rows=40, images=20)
    for broken in (folder / "val2017").glob("*.jpg"):
        broken.write_bytes(broken.read_bytes()[:200])
    task = ["predict", tiny_clip, "sugarcrepe/add_att", "--data-dir", folder, "-o", "verify=false"]
    process = command(*task, "--out", tmp_path / "out", processes=2)
    output, _ = process.communicate(timeout=300)
    assert process.returncode
    assert output.count("error: the image") == 1


@pytest.mark.parametrize("exact", [False, True])
def test_out_of_memory_halves_batches_and_ends_a_run_only_with_one_item(exact, coco, tmp_path):
    class Small(Recorder):
        """A model for which memory ends with more than three images, or with any in float64."""

        def encode_images(self, images, *, exact=False):
            if len(images) > 3 or (exact and self.is_exact_impossible):
                raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
            return super().encode_images(images, exact=exact)

    folder = coco(rows=40, images=20)
    small = Small(noise=1e-7)
    small.is_exact_impossible = exact
    files = run_quietly(small, folder, tmp_path / "small", batch_size=16)
    facts = read_predictions(files[0]).metadata["run"]
    assert facts["batch_size"] == 2
    assert facts.get("unchecked_near_ties", 0) == (facts["rechecked_pairs"] if exact else 0)
    np.testing.assert_allclose(
        all_scores(files), all_scores(run_quietly(Recorder(), folder, tmp_path / "o")), atol=1e-5
    )
