"""Runs of several processes: they share the work, and all go on or end together."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support import Recorder, all_scores, run_quietly

from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict
from vl_assay.model_wrappers.engine.distributed import join


@pytest.mark.parametrize(("given", "dtype"), [(None, "bfloat16"), ("float32", "float32")])
def test_the_precision_of_the_users_accelerate_configuration_is_the_default(
    given, dtype, tiny_clip, toy, tmp_path, monkeypatch
):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    options = {"limit": 4, "dtype": given, "cache": False, "progress": False}
    [file] = predict(str(tiny_clip), "toy_scenes/groups", out=tmp_path, **options)
    assert read_predictions(file).metadata["model"]["dtype"] == dtype


def on_two_ranks(function):
    """Return what a function returns, or its error as text, in two forked processes that find each other."""
    from accelerate import PartialState

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    context = multiprocessing.get_context("fork")

    def work(rank, sender):
        PartialState._reset_state()
        join.cache_clear()
        ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
        os.environ.update({name: str(value) for name, value in ranks.items()}, MASTER_ADDR="127.0.0.1")
        try:
            sender.send(function(rank))
        except Exception as error:
            sender.send(str(error))

    pipes = [context.Pipe(duplex=False) for _ in range(2)]
    started = [context.Process(target=work, args=(rank, sender)) for rank, (_, sender) in enumerate(pipes)]
    for process in started:
        process.start()
    results = [receiver.recv() if receiver.poll(60) else "nothing in a minute" for receiver, _ in pipes]
    for process in started:
        process.join(10)
        process.kill()
    return results


def test_two_ranks_share_the_work_and_give_the_scores_of_one(tiny_clip, coco, tmp_path):
    folder = coco(rows=60, images=40)

    def run(rank):
        return run_quietly(str(tiny_clip), folder, tmp_path / "two", cache=False)

    one = all_scores(run_quietly(str(tiny_clip), folder, tmp_path / "one", cache=False))
    files, same_files = on_two_ranks(run)
    assert [*files] == [*same_files]
    facts = read_predictions(files[0]).metadata["run"]
    assert facts["processes"] == 2
    assert 0 < facts["stages"]["images"]["items"] < facts["images"] == 40
    two = all_scores(files)
    assert np.abs(one - two).max() <= 4e-6
    assert (np.sign(one[::2] - one[1::2]) == np.sign(two[::2] - two[1::2])).all()


def test_an_error_of_one_rank_ends_both_with_its_message(coco, tmp_path):
    folder = coco(rows=40, images=20)

    def run(rank):
        class Failing(Recorder):
            def encode_captions(self, captions, *, exact=False):
                if rank:
                    raise ModelError("no captions here")
                return super().encode_captions(captions, exact=exact)

        return run_quietly(Failing(), folder, tmp_path / "out")

    assert on_two_ranks(run) == ["no captions here"] * 2
    assert not list((tmp_path / "out").glob("*.parquet"))


@pytest.mark.slow
def test_accelerate_launch_starts_ranks_of_the_command(tiny_clip, coco, tmp_path):
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    script, folder = Path(sys.executable).with_name("vl-assay"), coco(rows=60, images=40)
    run = ["predict", tiny_clip, "sugarcrepe/add_att", "--data-dir", folder, "-o", "verify=false", "--out", tmp_path]
    done = subprocess.run([*launch, str(script), *map(str, run)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert read_predictions(tmp_path / "sugarcrepe.add_att.parquet").metadata["run"]["processes"] == 2


def test_out_of_memory_halves_batches_and_leaves_near_ties_that_have_no_float64(coco, tmp_path):
    class Same(Recorder):
        """A model to which all captions are the same."""

        def prepare_captions(self, captions):
            return [[1, 2]] * len(captions)

    class Small(Same):
        """A model for which memory ends with more than three images, or with any in float64."""

        def encode_images(self, images, *, exact=False):
            if len(images) > 3 or exact:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
            return super().encode_images(images)

    folder = coco(rows=16, images=16)
    files = run_quietly(Small(noise=1e-7), folder, tmp_path / "small", batch_size=16)
    facts = read_predictions(files[0]).metadata["run"]
    assert facts["batch_size"] == 2
    assert facts["unchecked_near_ties"] == facts["rechecked_pairs"] == len(all_scores(files)) == 64
    whole = all_scores(run_quietly(Same(), folder, tmp_path / "whole"))
    np.testing.assert_allclose(all_scores(files), whole, atol=1e-5)
