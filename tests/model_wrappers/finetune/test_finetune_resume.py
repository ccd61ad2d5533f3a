"""Interrupted training ends with the same bits and loses no checkpoint; several processes train as one does."""

import hashlib
import json
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
from damage import Evil
from finetune_support import furthest, make_training_set, read_log, same_bits, short, weights

from vl_assay.metrics.common.errors import DataError, StorageError
from vl_assay.metrics.common.storage import read_sealed, write_sealed
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.finetune.data.batches import draw_epoch

SCRIPT = """
    import os
    import sys
    from finetune_support import make_training_set, short, train

    model, out, epochs, stop = *sys.argv[1:3], *map(int, sys.argv[3:])

    def on_step(number, values):
        if number == stop:
            os._exit(7)

    recipe = short(epochs=epochs, epsilon=1e-2, learning_rate=1e-2)
    training_set = make_training_set()
    if "BROKEN" in os.environ:
        training_set.images.broken = os.environ["BROKEN"]
    train(model, out, recipe, training_set, save_steps=2, on_step=on_step)
"""
RECIPE = short(epochs=3)
train = partial(finetune_support.train, save_steps=2)
train_until = partial(finetune_support.train_until, save_steps=2)


@pytest.fixture(scope="module")
def dropping(tmp_path_factory):
    """A tiny checkpoint with dropout in its text tower."""
    return tiny_models.tiny_chinese_clip(tmp_path_factory.mktemp("dropping") / "model")


@pytest.fixture(scope="module")
def uninterrupted(dropping, tmp_path_factory):
    """The folder of a run that nothing interrupts."""
    out = tmp_path_factory.mktemp("uninterrupted") / "out"
    train(dropping, out, RECIPE)
    return out


@pytest.fixture(scope="module")
def interrupted(dropping, tmp_path_factory):
    """The folder of a run that was stopped after step 7 of 9."""
    out = tmp_path_factory.mktemp("interrupted") / "out"
    train_until(7, dropping, out, RECIPE)
    return out


def test_a_run_stopped_within_an_epoch_ends_with_the_same_bits(dropping, uninterrupted, tmp_path):
    assert load_model(str(dropping)).module.config.text_config.hidden_dropout_prob > 0
    train_until(8, dropping, tmp_path / "out", RECIPE)
    assert not (tmp_path / "out" / "model.safetensors").exists()
    torch.manual_seed(12345)  # another state of the generator than the run left
    train(dropping, tmp_path / "out", RECIPE)
    assert same_bits(weights(tmp_path / "out"), weights(uninterrupted))
    ours, theirs = (read_log(folder) for folder in (tmp_path / "out", uninterrupted))
    for name in ("step", "epoch", "loss", "learning_rate", "gradient_norm", "scale"):
        assert [line[name] for line in ours] == [line[name] for line in theirs]
    assert [line["step"] for line in ours] == list(range(1, 10))


def test_a_full_disk_costs_no_checkpoint(dropping, uninterrupted, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(step, values):
        if step == 6:  # files can grow to 20 kB from now on, which is less than the weights need
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))

    try:
        with pytest.raises(StorageError, match=r"checkpoint_6.*The last checkpoint is intact"):
            train(dropping, tmp_path / "out", RECIPE, on_step=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    folder = tmp_path / "out" / "training" / "checkpoints"
    assert [path.parent.name for path in folder.glob("*/complete.json")] == ["checkpoint_4"]
    train(dropping, tmp_path / "out", RECIPE)
    assert same_bits(weights(tmp_path / "out"), weights(uninterrupted))


LAST = "checkpoints/checkpoint_6"
# A file, its new content, and what the error says; a file with a hash gets the hash of its content.
DAMAGE = [
    (f"{LAST}/random_states_0.pkl", b"", False, r"is damaged \(ValueError: random_states_0.pkl changed"),
    (f"{LAST}/complete.json", b"{}" + bytes(32), False, r"checkpoint_6 is damaged .*complete.json is not as it was"),
    ("run.json", b"[]", False, "another model"),
    ("finished.json", b"{", False, "finished.json cannot be read"),
    (f"{LAST}/pytorch_model.bin", b"", True, r"checkpoint_6 is damaged \(\w+:.* resumes from .*checkpoint_4"),
    (f"{LAST}/optimizer.bin", [1, 2], True, r"checkpoint_6 is damaged \(\w+:.* resumes from .*checkpoint_4"),
    (f"{LAST}/optimizer.bin", {"step": Evil()}, True, "UnpicklingError"),
]


@pytest.mark.parametrize(("name", "content", "has_hash", "message"), DAMAGE)
def test_a_damaged_run_says_what_to_remove_and_runs_no_code(
    name, content, has_hash, message, dropping, interrupted, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    out = shutil.copytree(interrupted, tmp_path / "out")
    file = out / "training" / name
    file.write_bytes(content) if isinstance(content, bytes) else torch.save(content, file)
    if has_hash:
        complete = file.with_name("complete.json")
        record = json.loads(read_sealed(complete))
        record["sha256"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
        write_sealed(complete, json.dumps(record).encode())
    with pytest.raises(DataError, match=message):
        train(dropping, out, RECIPE)
    assert not (tmp_path / "unpickled").exists()


def test_two_checkpoints_are_kept_and_incomplete_ones_and_damaged_log_lines_are_ignored(
    dropping, interrupted, uninterrupted, tmp_path
):
    out = shutil.copytree(interrupted, tmp_path / "out")
    checkpoints = out / "training" / "checkpoints"
    # After every second step, and at the ends of the epochs of 3; the last two are kept until the end.
    assert sorted(path.name for path in checkpoints.iterdir()) == ["checkpoint_4", "checkpoint_6"]
    assert not (uninterrupted / "training" / "checkpoints").exists()
    (checkpoints / "checkpoint_8").mkdir()
    (checkpoints / "checkpoint_8" / "pytorch_model.bin").write_bytes(b"half")
    (out / "training" / "log.jsonl").write_bytes(b'\xff\n{"step": "a"}\n')
    shutil.rmtree(checkpoints / "checkpoint_6")  # as the error of a damaged one says
    train(dropping, out, RECIPE)
    assert same_bits(weights(out), weights(uninterrupted))


def start(place, model, out, epochs=2, processes=1, stop=0, environment=None):
    """The script in new processes, which exit after step `stop`."""
    script = place / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    command = [sys.executable, *(torchrun if processes > 1 else []), script, model, out, epochs, stop]
    support = str(Path(finetune_support.__file__).parent)
    paths = os.pathsep.join(filter(None, [support, os.environ.get("PYTHONPATH")]))
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


@pytest.mark.slow
def test_two_processes_train_as_one_does_though_interrupted(tiny_clip, tmp_path):
    out = tmp_path / "two"
    process = start(tmp_path, tiny_clip, out, processes=2, stop=3)
    process.communicate()
    assert process.returncode != 0
    assert [path.name for path in (out / "training" / "checkpoints").iterdir()] == ["checkpoint_2"]
    process = start(tmp_path, tiny_clip, out, processes=2)
    finetune_support.train(tiny_clip, tmp_path / "one", short(epsilon=1e-2, learning_rate=1e-2))
    finish(process)
    assert furthest(weights(tmp_path / "one"), weights(out)) < 1e-5
    assert furthest(weights(tmp_path / "one"), weights(tiny_clip)) > 5e-3


@pytest.mark.slow
def test_an_image_that_one_process_cannot_read_ends_both_with_its_name(tiny_clip, tmp_path):
    drawn = next(draw_epoch(make_training_set(), epoch=1, seed=0, batch_size=8))
    environment = {"BROKEN": drawn[-1].image}  # in the second process's share
    two = start(tmp_path, tiny_clip, tmp_path / "two", processes=2, environment=environment)
    output, _ = two.communicate(timeout=200)
    assert two.returncode != 0
    assert f"the image {drawn[-1].image} is broken" in output
    assert "gloo" not in output.lower().replace("backend", "")


@pytest.mark.slow
def test_a_run_killed_five_times_ends_with_the_same_bits(dropping, tmp_path):
    rng = np.random.default_rng(0)
    finish(start(tmp_path, dropping, tmp_path / "uninterrupted", epochs=40))
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
    assert same_bits(weights(tmp_path / "killed"), weights(tmp_path / "uninterrupted"))
