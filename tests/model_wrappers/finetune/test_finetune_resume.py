"""Interrupted training: it ends with the same bits, and loses no checkpoint; several processes do what one does."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import finetune_support
import numpy as np
import pytest
import tiny_models
import torch
from finetune_support import furthest, make_training_set, same_bits, short, weights

from vl_assay.metrics.common.errors import DataError, StorageError
from vl_assay.model_wrappers.finetune.train import run as _run
from vl_assay.model_wrappers.finetune.train.logging import Log, read_log
from vl_assay.model_wrappers.finetune.train.training import TrainingConfig, finetune

SCRIPT = """
    import os
    import sys
    from accelerate import PartialState
    from finetune_support import make_training_set, short
    from vl_assay.model_wrappers.engine.distributed import join
    from vl_assay.model_wrappers.finetune.train.logging import Log
    from vl_assay.model_wrappers.finetune.train.training import TrainingConfig, finetune

    model, out, epochs, micro_batch, stop = *sys.argv[1:3], *map(int, sys.argv[3:])
    is_sharded = "ACCELERATE_USE_FSDP" in os.environ
    if is_sharded:
        join()
        # Accelerate shards on GPUs alone; torch would on CPUs too.
        PartialState._shared_state["distributed_type"] = "MULTI_GPU"
    write = Log.write

    def write_and_stop(self, number, values):
        write(self, number, values)
        if number == stop:
            os._exit(7)

    Log.write = write_and_stop
    recipe = short(epochs=epochs, ema_decay=None if is_sharded else 0.9, epsilon=1e-2, learning_rate=1e-2)
    trackers = tuple(filter(None, os.environ.get("TRACKER", "").split()))
    running = TrainingConfig(save_steps=2, micro_batch=micro_batch, trackers=trackers)
    training_set = make_training_set()
    if "BROKEN" in os.environ:
        training_set.images.broken = os.environ["BROKEN"]
    finetune(model, training_set, out, recipe, running=running, progress=False)
"""


@pytest.fixture(scope="module")
def dropping(tmp_path_factory):
    """A tiny checkpoint with dropout in its text tower."""
    return tiny_models.tiny_chinese_clip(tmp_path_factory.mktemp("dropping") / "model")


@pytest.fixture(scope="module")
def undisturbed(dropping, tmp_path_factory):
    """The folder of a run that nothing disturbs."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    train(dropping, out)
    return out


def train(model, out, **changes):
    recipe = short(epochs=3, ema_decay=0.9, **changes)
    return finetune(
        str(model),
        make_training_set(),
        out,
        recipe,
        running=TrainingConfig(save_steps=2, micro_batch=4),
        progress=False,
    )


def interrupt_at(monkeypatch, step):
    """Stop the run as Ctrl-C would, when it has just done a step."""
    write = Log.write

    def stop(self, number, values):
        write(self, number, values)
        if number == step:
            raise KeyboardInterrupt

    monkeypatch.setattr(Log, "write", stop)


@pytest.mark.parametrize("step", np.random.default_rng(7).choice(np.arange(1, 10), 5, replace=False).tolist())
def test_a_run_stopped_at_any_step_ends_with_the_same_bits(step, dropping, undisturbed, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_at(patch, step)
        with pytest.raises(KeyboardInterrupt):
            train(dropping, tmp_path / "out")
    assert not (tmp_path / "out" / "model.safetensors").exists()
    torch.manual_seed(12345)  # another state of the generator than the run left
    train(dropping, tmp_path / "out")
    assert same_bits(weights(tmp_path / "out"), weights(undisturbed))
    ours, theirs = (read_log(folder / "training" / "log.jsonl") for folder in (tmp_path / "out", undisturbed))
    for name in ("step", "epoch", "loss", "learning_rate", "gradient_norm", "scale"):
        assert [line[name] for line in ours] == [line[name] for line in theirs]
    assert [line["step"] for line in ours] == list(range(1, 10))


def test_dropout_is_there_and_another_seed_is_another_run(dropping, undisturbed, tmp_path):
    train(dropping, tmp_path / "out", seed=1)
    assert furthest(weights(tmp_path / "out"), weights(undisturbed)) > 1e-4


def test_the_last_two_checkpoints_are_kept_until_the_end(dropping, undisturbed, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_at(patch, 7)
        with pytest.raises(KeyboardInterrupt):
            train(dropping, tmp_path / "out")
    folder = tmp_path / "out" / "training" / "checkpoints"
    # After every second step, and at the ends of the epochs of 3.
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000004", "step-00000006"]
    assert not (undisturbed / "training" / "checkpoints").exists()


def test_a_checkpoint_that_was_cut_off_is_not_taken(dropping, undisturbed, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_at(patch, 5)
        with pytest.raises(KeyboardInterrupt):
            train(dropping, tmp_path / "out")
    folder = tmp_path / "out" / "training" / "checkpoints"
    (folder / ".step-00000006").mkdir()
    (folder / ".step-00000006" / "pytorch_model.bin").write_bytes(b"half")
    train(dropping, tmp_path / "out")
    assert same_bits(weights(tmp_path / "out"), weights(undisturbed))


def test_a_full_disk_costs_no_checkpoint(dropping, undisturbed, tmp_path, monkeypatch):
    write = Log.write
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, number, values):
        write(self, number, values)
        if number == 6:  # files can grow to 20 kB from now on, which is less than the weights need
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))

    with monkeypatch.context() as patch:
        patch.setattr(Log, "write", fill)
        try:
            with pytest.raises(StorageError, match=r"step-00000006.*The last checkpoint is intact"):
                train(dropping, tmp_path / "out")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    folder = tmp_path / "out" / "training" / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000003", "step-00000004"]
    train(dropping, tmp_path / "out")
    assert same_bits(weights(tmp_path / "out"), weights(undisturbed))


DAMAGE = {
    "a cut file": ("checkpoints/step-00000006/pytorch_model.bin", b"half", r"step-00000006 .* goes on from .*00000004"),
    "no random numbers": (
        "checkpoints/step-00000006/random_states_0.pkl",
        b"",
        r"is not as it was written \(random_states_0.pkl\)",
    ),
    "no sizes": ("checkpoints/step-00000006/sizes.json", b"", "step-00000006 is not as it was written"),
    "other facts": ("run.json", b"[]", "another model"),
    "cut facts": ("run.json", b'{"a', "run.json cannot be read"),
    "a cut result": ("finished.json", b"{", "finished.json cannot be read"),
}


@pytest.fixture(scope="module")
def interrupted(dropping, tmp_path_factory):
    """The folder of a run that was stopped after step 7 of 9."""
    out = tmp_path_factory.mktemp("interrupted") / "out"
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, 7)
        with pytest.raises(KeyboardInterrupt):
            train(dropping, out)
    return out


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_run_says_what_to_remove(case, dropping, interrupted, tmp_path):
    out = shutil.copytree(interrupted, tmp_path / "out")
    name, content, message = DAMAGE[case]
    (out / "training" / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        train(dropping, out)


def test_what_is_no_checkpoint_and_no_log_keeps_no_run_from_going_on(dropping, interrupted, undisturbed, tmp_path):
    out = shutil.copytree(interrupted, tmp_path / "out")
    (out / "training" / "checkpoints" / "step-zzz").mkdir()
    (out / "training" / "log.jsonl").write_bytes(b'\xff\n{"step": "a"}\n')
    shutil.rmtree(out / "training" / "checkpoints" / "step-00000006")  # as the error says
    train(dropping, out)
    assert same_bits(weights(out), weights(undisturbed))


FSDP = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_TRANSFORMER_CLS_TO_WRAP": "CLIPEncoderLayer",
    "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT",
}


def start(place, model, out, epochs=2, processes=1, micro_batch=4, stop=0, environment=None):
    """The script in processes of its own, which leave after step `stop`."""
    script = place / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    command = [sys.executable, *(torchrun if processes > 1 else []), script, model, out, epochs, micro_batch, stop]
    paths = os.pathsep.join(
        [str(Path(finetune_support.__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    return subprocess.Popen(
        list(map(str, command)),
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"} | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output, _ = process.communicate()
    assert process.returncode == 0, output


def test_two_processes_train_as_one_does(tiny_clip, tmp_path):
    environment = {"TRACKER": "tensorboard"}
    two = start(tmp_path, tiny_clip, tmp_path / "two", processes=2, micro_batch=3, environment=environment)
    train_alone(tiny_clip, tmp_path / "one", ema_decay=0.9)
    finish(two)
    assert furthest(weights(tmp_path / "one"), weights(tmp_path / "two")) < 1e-5
    assert list((tmp_path / "two" / "training").rglob("events.out.tfevents.*"))


@pytest.mark.slow
def test_an_image_that_one_process_cannot_read_ends_both_with_its_name(tiny_clip, tmp_path):
    drawn = next(_run.epoch(make_training_set(), epoch=1, seed=0, batch_size=8))
    environment = {"BROKEN": drawn[-1].image}  # in the second process's share
    two = start(tmp_path, tiny_clip, tmp_path / "two", processes=2, environment=environment)
    output, _ = two.communicate(timeout=200)
    assert two.returncode != 0
    assert f"the image {drawn[-1].image} is broken" in output
    assert "gloo" not in output.lower().replace("backend", "")


def train_alone(model, out, **changes):
    recipe = short(epsilon=1e-2, learning_rate=1e-2, **changes)
    finetune(str(model), make_training_set(), out, recipe, progress=False)
    assert furthest(weights(out), weights(model)) > 5e-3


@pytest.mark.slow
def test_two_processes_that_share_the_weights_train_as_one_does_though_interrupted(tiny_clip, tmp_path):
    two = partial(start, tmp_path, tiny_clip, tmp_path / "two", processes=2, micro_batch=3, environment=FSDP)
    process = two(stop=3)
    process.communicate()
    assert process.returncode != 0
    assert [path.name for path in (tmp_path / "two" / "training" / "checkpoints").iterdir()] == ["step-00000002"]
    process = two()
    train_alone(tiny_clip, tmp_path / "one")
    finish(process)
    assert furthest(weights(tmp_path / "one"), weights(tmp_path / "two")) < 1e-5


@pytest.mark.slow
def test_a_run_killed_five_times_ends_with_the_same_bits(dropping, tmp_path):
    rng = np.random.default_rng(0)
    finish(start(tmp_path, dropping, tmp_path / "undisturbed", epochs=40))
    steps = sorted(rng.choice(np.arange(2, 118), 5, replace=False).tolist())
    log = tmp_path / "killed" / "training" / "log.jsonl"
    for step in steps:
        process = start(tmp_path, dropping, tmp_path / "killed", epochs=40)
        while not log.exists() or log.read_text().count("\n") < step:
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.002)
        process.kill()
        process.communicate()
        assert process.returncode < 0
    finish(start(tmp_path, dropping, tmp_path / "killed", epochs=40))
    assert same_bits(weights(tmp_path / "killed"), weights(tmp_path / "undisturbed"))
