"""Models that are run again: the queue, the worker, and what the board says of them."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import shutil
import signal
import threading
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from console import invoke, parsed
from hub_server import COMMIT, serving_hub
from huggingface_hub import constants, get_token
from submission_support import MemoryStorage, changed
from typer.main import get_command

from vl_assay.metrics.common.command_line import build_app
from vl_assay.metrics.common.errors import StorageError, SubmissionError
from vl_assay.model_wrappers import predict
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.views import places
from vl_assay.space_app.pages.leaderboard import board_html
from vl_assay.space_app.pages.model import profile_html, provenance_html
from vl_assay.space_app.reruns.agreement import Rerun, summarise
from vl_assay.space_app.reruns.public_models import download, public_files
from vl_assay.space_app.reruns.queue import FAILED, MOST_CLAIMS, QUEUED, RUNNING, finish, jobs, queue_rerun, take
from vl_assay.space_app.reruns.repetition import Repetition
from vl_assay.space_app.reruns.worker import run_command, work
from vl_assay.space_app.submissions.sandbox import without_secrets
from vl_assay.space_app.submissions.submissions import review, submit, utc_now

HOUR = timedelta(hours=1)
TASK = "toy_scenes/itm"


@pytest.fixture(scope="module")
def place(toy, tiny_clip, tmp_path_factory):
    """A Hub with the model ada/clip, its predictions, and a storage with honest ones that wait to be run again."""
    folder = tmp_path_factory.mktemp("hub")
    shutil.copytree(tiny_clip, folder / "ada" / "clip")
    for name in ("pytorch_model.bin", "modeling_clip.py"):
        (folder / "ada" / "clip" / name).write_text("raise SystemExit")
    for name, file in (
        ("gated", "model.safetensors"),
        ("pickles", "pytorch_model.bin"),
        ("large", "model.safetensors"),
    ):
        (folder / "ada" / name).mkdir()
        (folder / "ada" / name / file).touch()
    os.truncate(folder / "ada" / "large" / "model.safetensors", 3 * 10**9)
    with pytest.MonkeyPatch.context() as patch, serving_hub(folder, patch) as hub:
        hub.gated = {"ada/gated"}
        [path] = predict("ada/clip", [TASK], revision=COMMIT, out=folder / "out", progress=False)
        content, storage = path.read_bytes(), MemoryStorage()
        id = stored(storage, content, "ada/clip")
        queue_rerun(storage, id, "me")
        yield SimpleNamespace(content=content, id=id, files=storage.files, hub=hub)


@pytest.fixture
def storage(place):
    """A copy of the storage."""
    copy = MemoryStorage()
    copy.files = dict(place.files)
    return copy


def stored(storage, content, name):
    """The id of an accepted submission."""
    id = submit(storage, [content], {"name": name}).id
    review(storage, id, "accepted", "", "me")
    return id


def in_this_process(words, folder, environment, seconds):
    """A `Start` that runs the command here, with what is in the environment."""
    snapshot = folder / "hub" / "models--ada--clip" / "snapshots" / COMMIT
    assert {path.suffix for path in snapshot.iterdir()} == {".json", ".safetensors"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HUB_CACHE", environment["HF_HUB_CACHE"])
        patch.setattr(constants, "HF_HUB_OFFLINE", environment["HF_HUB_OFFLINE"] == "1")
        found = invoke(*words, folder=folder)
    return "" if found.exit_code == 0 else f"loading\nerror: {found.exception}"


def favour(rows):
    """Tamper with 5 % of the examples."""
    for row in rows[::20]:
        row["scores"] = [[scores[1], scores[0]] for scores in row["scores"]]


def test_an_honest_submission_agrees_and_a_tampered_one_does_not(place, storage):
    tampered = stored(storage, changed(place.content, rows=favour), "Better CLIP")
    queue_rerun(storage, tampered, "me")
    said = []
    assert work(storage, 1, said.append, start=in_this_process) == 2
    assert f"{place.id}: {TASK}: re-run: 100.0 % the same" in said
    assert f"{tampered}: {TASK}: re-run disagrees: 95.0 % the same" in said
    assert work(storage, 1, said.append, start=in_this_process) == 0
    catalogue = Catalogue(storage)
    assert catalogue.problems == []
    board = catalogue.board
    html = board_html(catalogue, places(board.columns))
    assert html.count('good">re-run: 100.0 % the same</span>') == 2  # in windows of either width
    assert html.count('warn">re-run disagrees: 95.0 % the same</span>') == 2
    assert "266 of 280 examples" in provenance_html(catalogue, "Better CLIP")  # 95 %
    assert 'warn">re-run disagrees: 95.0 %' in profile_html(catalogue, "Better CLIP")
    lines = csv.DictReader(io.StringIO(board.csv(board.columns)))
    verdicts = {line["model"]: (line["rerun"], line["rerun_same"]) for line in lines}
    assert (verdicts["ada/clip"], verdicts["Better CLIP"]) == (("agrees", "1.0"), ("disagrees", "0.95"))
    assert verdicts["demo-clip"] == ("", "")
    # What was stored is compared, and damage is told of.
    [path] = [path for path in storage.files if path.startswith(f"requests/{place.id}/reruns/1/") and "parquet" in path]
    storage.files[path] += b" "
    damaged = Catalogue(storage)
    assert "its re-run 1: the predictions file" in damaged.problems[0]
    assert {entry.rerun for entry in damaged.board.of_model("ada/clip")} == {None}


def test_a_job_is_taken_by_one_of_many_workers_and_again_after_a_kill(storage):
    taken = []
    threads = [threading.Thread(target=lambda n=n: taken.append(take(storage, f"worker {n}", HOUR))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [first] = filter(None, taken)
    later = [utc_now() + number * 2 * HOUR for number in range(5)]
    assert jobs(storage)[0].state(later[0]) == RUNNING
    # The worker was killed: after its hour the job is free, and after three workers it has failed.
    assert jobs(storage)[0].state(later[1]) == QUEUED
    second = take(storage, "second", HOUR, now=lambda: later[1])
    assert take(storage, "other", HOUR, now=lambda: later[1]) is None
    assert take(storage, "third", HOUR, now=lambda: later[2]).claims == MOST_CLAIMS
    assert take(storage, "fourth", HOUR, now=lambda: later[3]) is None
    assert jobs(storage)[0].state(later[3]) == FAILED
    # The first that ends counts, though its claim has passed.
    finish(storage, second, "second", {}, "no space")
    with pytest.raises(StorageError):
        finish(storage, first, "first", {}, "no memory")
    assert [(job.state(later[0]), job.problem) for job in jobs(storage)] == [(FAILED, "no space")]
    assert queue_rerun(storage, first.submission, "me").number == 2


def test_a_job_that_fails_in_an_unexpected_way_does_not_keep_the_next_from_being_run(place, storage):
    other = stored(storage, changed(place.content, rows=favour), "Better CLIP")
    queue_rerun(storage, other, "me")

    def start(*given):
        start.calls += 1
        return in_this_process(*given) if start.calls > 1 else {}["memory"]

    start.calls, said = 0, []
    assert work(storage, 1, said.append, start=start) == 2
    assert f"{place.id}: failed: KeyError: 'memory'" in said
    assert [(job.submission, job.problem) for job in jobs(storage) if job.problem] == [(place.id, "KeyError: 'memory'")]
    assert f"{other}: {TASK}: re-run disagrees: 95.0 % the same" in said


def test_a_model_is_run_again_as_it_was_submitted(place, storage):
    def choose(metadata):
        metadata["model"] |= {"dtype": "bfloat16", "settings": {"compile": "true", "template": "-o {} = a"}}
        metadata["run"] |= {"batch_size": 7}

    id = stored(storage, changed(place.content, metadata=choose), "Compiled CLIP")
    job, commands = queue_rerun(storage, id, "me"), []
    settings = []

    def start(words, folder, *_):
        commands.append(words)
        settings.append(json.loads((folder / "run.yaml").read_text()))
        return "stopped"

    work(storage, 1, lambda line: None, start=start)
    assert {"revision": job.model["revision"], "cache": False, "compile": True} in settings
    [command] = [words for words, chosen in zip(commands, settings, strict=True) if chosen["compile"]]
    options = parsed(get_command(build_app()), command)
    wanted = {"batch_size": 7, "dtype": "bfloat16", "setting": ["template=-o {} = a"]}
    wanted |= {"model": "ada/clip", "benchmarks": [TASK]}
    assert {name: options[name] for name in wanted} == wanted


TOKEN = "hf_token_of_the_leaderboard"


def test_no_token_is_told_to_anybody(place, storage, monkeypatch, caplog, capsys, tmp_path):
    caplog.set_level(logging.DEBUG)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "GIT_PASS", "BASIC_AUTH"):
        monkeypatch.setenv(name, TOKEN)
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    assert get_token() == TOKEN
    told = []

    def start(words, folder, environment, seconds):
        told.extend([words, environment, *(path.read_bytes() for path in folder.rglob("*") if path.is_file())])
        assert not Path(environment["HF_TOKEN_PATH"]).exists()
        return in_this_process(words, folder, environment, seconds)

    place.hub.tokens.clear()
    assert work(storage, 1, told.append, start=start) == 1
    assert jobs(storage)[0].predictions
    assert place.hub.tokens == set()
    printed = capsys.readouterr()
    assert TOKEN not in f"{told}{caplog.text}{printed}{storage.files}"


def test_a_failure_is_stored_with_its_reason_and_marks_nothing(place, storage):
    said = []
    assert work(storage, 1, said.append, start=lambda *_: "loading\nerror: no \x1b[2J memory") == 1
    [job] = jobs(storage)
    assert job.problem == f"{TASK}: error: no [2J memory"
    assert {entry.rerun for entry in Catalogue(storage).board.of_model("ada/clip")} == {None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"checkpoint": "my-clip"}, "of no public model of the Hub at a commit .checkpoint 'my-clip'"),
        ({"checkpoint": "/models/clip"}, "of no public model"),
        ({"checkpoint": "-o/clip"}, "of no public model"),
        ({"checkpoint": ["ada/clip"]}, "of no public model"),
        ({"revision": "main"}, "of no public model.*revision 'main'"),
        ({"revision": f"sha256:{COMMIT}"}, "of no public model"),
        ({"settings": {"--out": "/"}}, "settings, family or dtype of ada/clip"),
        ({"settings": {"head": 1}}, "settings, family or dtype of ada/clip"),
        ({"dtype": "float32 --engine ray"}, "settings, family or dtype of ada/clip"),
        ({"checkpoint": "ada/private"}, "there is no model ada/private, or this login may not see it"),
        ({"checkpoint": "ada/gated"}, "ada/gated is private, gated or disabled"),
        ({"checkpoint": "ada/pickles"}, "ada/pickles has no weights in safetensors"),
        ({"checkpoint": "ada/large"}, "ada/large has 3.0 GB; VL_ASSAY_RERUN_LIMIT allows 2"),
    ],
)
def test_models_that_are_not_public_or_too_large_are_refused_with_the_reason(change, message, storage, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_RERUN_LIMIT", "2")
    with pytest.raises(SubmissionError, match=message):
        public_files({**jobs(storage)[0].model, **change})


def test_a_download_ends_with_the_time_of_its_job(storage, tmp_path):
    with pytest.raises(SubmissionError, match="files of ada/clip took longer to download than a re-run may take"):
        download(jobs(storage)[0].model, tmp_path, time.monotonic() - 1)
    assert [*tmp_path.iterdir()] == []


def test_a_submission_is_queued_once_and_by_somebody(place, storage):
    with pytest.raises(SubmissionError, match="is queued already"):
        queue_rerun(storage, place.id, "me")
    with pytest.raises(SubmissionError, match="give it, on the command line with --by"):
        queue_rerun(storage, place.id, "")
    review(storage, place.id, "withdrawn", "", "me")
    with pytest.raises(SubmissionError, match="is withdrawn; one that has results can be run again"):
        queue_rerun(storage, place.id, "me")


def test_the_mark_of_a_model_is_that_of_its_worst_file_and_says_what_was_left_out():
    def rerun(same, dtype="float32"):
        return Rerun(Repetition(same, 10_000, 0.0), dtype, "cpu", "")

    assert summarise({"a": rerun(1.0), "b": rerun(0.9899)}) == ("re-run disagrees: 98.9 % the same", False)
    assert summarise({"a": rerun(0.9999), "b": None}) == ("re-run: 99.9 % the same, 1 of 2 tasks", True)
    assert summarise({"a": rerun(0.98, "bfloat16")}) == ("re-run: 98.0 % the same", True)
    assert summarise({"a": None}) is None


def test_a_worker_that_is_told_to_end_ends_as_with_ctrl_c(tmp_path, monkeypatch):
    def work(*given):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    monkeypatch.setattr("vl_assay.space_app.reruns.worker.work", work)
    try:
        assert invoke("leaderboard", "worker", "--storage", tmp_path).exit_code == 130
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_command_is_ended_in_time_with_all_that_it_has_started(tmp_path, monkeypatch):
    start = time.monotonic()
    assert run_command(["--version"], tmp_path, without_secrets(), 0.05) == "it took longer than a re-run may take"
    assert time.monotonic() - start < 5
    assert run_command(["report", "nowhere.parquet"], tmp_path, without_secrets(), 60) == (
        "error: nowhere.parquet: no such predictions file"
    )
    # Python runs this before the command: a child that would outlive it.
    code = "import os, time\nif not os.fork():\n    open('child', 'w').write(str(os.getpid()))\n    time.sleep(60)\n"
    (tmp_path / "sitecustomize.py").write_text(code)
    environment = without_secrets()
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"
    assert run_command(["--version"], tmp_path, environment, 60) == ""
    child = Path("/proc", (tmp_path / "child").read_text(), "stat")
    for _ in range(100):
        if not child.exists() or child.read_text().split()[2] == "Z":  # ended, and nobody has asked how
            return
        time.sleep(0.05)
    pytest.fail("the child lives")
