"""What a newcomer is told of a wrong file, folder or address, before any work is done."""

from __future__ import annotations

import json
import socket

import datasets
import huggingface_hub
import pytest
from console import invoke
from PIL import Image

from vl_assay.hub_datasets.authoring.review.pictures import Pictures
from vl_assay.hub_datasets.authoring.review.review import check_images, open_review
from vl_assay.metrics.common.command_line import main
from vl_assay.metrics.common.errors import DataError, ModelError, StorageError, SubmissionError, VLAssayError
from vl_assay.model_wrappers import load_model

SETTING = "unknown setting in wrong.yaml 'sead'; known: "
PAIRS = "image,positive,negative\n" + "".join(f"{n}.jpg,a cat on mat {n},a mat on cat {n}\n" for n in range(8))


def test_an_audit_that_could_not_be_written_is_not_begun(tmp_path, monkeypatch):
    (tmp_path / "pairs.csv").write_text(PAIRS)
    monkeypatch.setattr("vl_assay.hub_datasets.authoring.audit.audit.audit", lambda *_, **__: pytest.fail("begun"))
    inside = invoke("audit", tmp_path / "pairs.csv", "--out", tmp_path / "pairs.csv" / "report").exception
    assert isinstance(inside, StorageError)
    assert "give another --out" in str(inside)
    card = invoke("audit", tmp_path / "pairs.csv", "--out", tmp_path / "new", "--card", tmp_path / "no.md").exception
    assert isinstance(card, DataError)
    assert "no.md is not a file" in str(card)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run demo-clip --dtype flaot16", "unknown dtype 'flaot16'.* Did you mean 'float16'"),
        ("run demo-clip --out notes.txt", "nothing can be written to notes.txt"),
        (
            "predict demo-clip --out notes.txt/new",
            "nothing can be written to notes.txt/new, as .*notes.txt is no folder",
        ),
        ("run demo-clp", "unknown model 'demo-clp'. Did you mean 'demo-clip'"),
        ("run toy_scenes", "toy_scenes is a benchmark; the model comes first"),
        (
            "check clip:openai/clip-vit-base-patch32",
            r"cannot load \S* as clip: it was not down.* the Hub cannot be reached",
        ),
        ("run clip:./nowhere", "there is no file or folder ./nowhere"),
        ("run ~nosuchuser/model", "there is no file or folder ~nosuchuser/model"),
        ("run demo-clip ~nosuchuser/data", "there is no folder ~nosuchuser/data"),
        ("run demo-clip sugarcrepe", r"sugarcrepe/add_att has to be downloaded, and http\S* cannot be reached"),
        ("run demo-clip sugarcrepe --data-dir .", r"sugarcrepe/add_att has to be downloaded, as \. lacks it"),
        ("report a.parquet --model-card notes.txt", "notes.txt is not a README.md"),
        ("report a.parquet --out notes.txt", "nothing can be written to notes.txt"),
        ("errors a.parquet --out notes.txt/errors.html", "nothing can be written to notes.txt"),
        ("compare a.parquet b.parquet --out notes.txt", "nothing can be written to notes.txt"),
        ("refine pairs.csv --out notes.txt", "nothing can be written to notes.txt"),
        ("generate notes.txt --rules --out notes.txt/new", "nothing can be written to notes.txt/new"),
        ("generate notes.txt --rules --kind swap_ob --out new", "unknown kind .* Did you mean 'swap_obj'"),
        ("audit toy_scene/itm", "there is no benchmark, file or folder 'toy_scene/itm'.* Did you mean 'toy_scenes'"),
        ("leaderboard --storage notes.txt", "notes.txt cannot be used as storage"),
        ("run mock:oracle no-such-benchmark", "unknown benchmark 'no-such-benchmark'; known: aro, aro_crepe"),
        ("run mock:oracle sugarcrepe/no-such-category", "unknown part of sugarcrepe 'no-such-category'"),
        ("run mock:oracle toy_scenes -o seed=[", r"the value of option 'seed=\[' cannot be read"),
        ("run mock:oracle toy_scenes -o seed", "option 'seed' has no value; write NAME=VALUE"),
        ("run mock:oracle ./nowhere", "there is no folder ./nowhere"),
        ("run mock:oracle sugarcrepe --data-dir nowhere", "the data folder nowhere is not a folder"),
        ("build toy_scenes --out .", r"\. is not empty and was not written by a build"),
        ("build toy_scenes/itm --out new -o sead=1", "unknown option of toy_scenes 'sead'"),
        ("build toy_scenes", "--out is missing; name the folder to write, or give --check"),
        ("build --out x", "neither a benchmark nor --all came"),
        ("build cola --all --out x", "both a benchmark and --all came"),
        ("build --all --out x -o sead=1", "unknown option 'sead'; known: "),
        ("build --all --out x --data-dir nowhere", "the data folder nowhere is not a folder"),
        ("report .", r"\. is a folder without predictions"),
        ("publish nowhere me/x", "there is no folder nowhere"),
        ("publish . me/x", r"\. is neither a dataset that `vl-assay build` wrote"),
        ("install nonsense", "unknown metric or benchmark 'nonsense'"),
        ("run mock:oracle toy_scenes --ties maybe", "unknown tie policy 'maybe'; known: wrong, half, right"),
        ("report a.parquet --confidence 95", "confidence is 95.0"),
        ("list datasets", "unknown thing to list 'datasets'; known: benchmarks, metrics, models"),
        ("list --data-dir nowhere", "the data folder nowhere is not a folder"),
        ("run demo-clip toy_scenes/itm --config wrong.yaml", SETTING),
        ("predict demo-clip toy_scenes/itm --config wrong.yaml", SETTING),
        ("generate toy_scenes/itm --rules --out made --config wrong.yaml", SETTING),
        ("new-benchmark made toy_scenes/itm --work work --rules --config wrong.yaml", SETTING),
        ("finetune demo-clip toy_scenes --out tuned --config wrong.yaml", SETTING),
    ],
)
def test_mistakes_are_told_before_a_model_is_loaded_or_predictions_are_read(tmp_path, monkeypatch, words, message):
    (tmp_path / "notes.txt").touch()
    (tmp_path / "wrong.yaml").write_text("sead: 1\n")
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("vl_assay.model_wrappers.engine.job.load_model", lambda *_: pytest.fail("loaded"))
    result = invoke(*words.split(), folder=tmp_path)
    with pytest.raises(VLAssayError, match=f"^{message}"):
        raise result.exception
    assert "Ctrl-C" not in result.output
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", "wrong.yaml"}


def test_a_build_does_not_replace_the_folder_that_it_is_called_in(tmp_path):
    error = invoke("build", "toy_scenes", "--out", ".", folder=tmp_path).exception
    assert str(error).startswith(". is the folder you are in")


def test_without_a_connection_to_the_hub_nothing_waits_for_retries(monkeypatch):
    for module in (huggingface_hub.constants, datasets.config):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelError, match=r"'owner/name': there is no such folder, and the Hub cannot be reached\."):
        load_model("owner/name")
    assert huggingface_hub.constants.HF_HUB_OFFLINE
    assert datasets.config.HF_HUB_OFFLINE


def test_a_run_without_any_answer_fails_and_does_not_ask_for_judgement(tmp_path, monkeypatch):
    monkeypatch.setattr("vl_assay.hub_datasets.chat.calls.FIRST_WAIT", 0.001)
    (tmp_path / "a.csv").write_text("caption\na dog on a cat\n")
    words = ("--model", "m", "--base-url", "http://127.0.0.1:9", "--kind", "swap_obj")
    result = invoke("generate", tmp_path / "a.csv", *words, "--out", tmp_path / "made")
    assert isinstance(result.exception, ModelError)
    assert "nothing was made, 1 without an answer" in str(result.exception)
    assert "vl-assay review" not in result.output
    assert json.loads((tmp_path / "made" / "report.json").read_text())["rejected"] == {"swap_obj": {"no answer": 1}}


def test_images_that_the_review_would_not_show_are_spoken_of_and_its_command_can_be_copied(tmp_path):
    (tmp_path / "a.csv").write_text("caption,image\na red dog chases a black cat,a.png\n")
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    words = ("generate", tmp_path / "a.csv", "--rules", "--kind", "swap_obj", "--out")
    invoke(*words, tmp_path / "shown")
    assert check_images(open_review(tmp_path / "shown")) == ""
    (tmp_path / "c.yaml").write_text("images: false\n")
    result = invoke(*words, tmp_path / "my judges", "--config", tmp_path / "c.yaml")
    review = f"`vl-assay review '{tmp_path / 'my judges'}' --images FOLDER`"
    assert review in result.output.replace("\n", "")
    refused = invoke("review", tmp_path / "my judges").exception
    assert isinstance(refused, DataError)
    assert "1 of 1 items have no image that can be shown" in str(refused)
    assert "let `vl-assay generate` copy them" in str(refused)
    assert check_images(open_review(tmp_path / "my judges", images=tmp_path)) == ""
    with pytest.raises(DataError, match=r"outside .* --images, or let `vl-assay generate` copy them"):
        Pictures(tmp_path / "my judges").path("../a.png")


@pytest.mark.parametrize(
    "command",
    [("leaderboard", "--storage", "{folder}/s"), ("review", "{folder}/candidates.jsonl")],
)
def test_an_address_that_cannot_be_served_is_told_before_the_page_is_announced(tmp_path, command):
    one = {"id": "1", "image": "", "caption": "a", "candidate": "b", "kind": "swap_obj", "is_positive": False}
    (tmp_path / "candidates.jsonl").write_text(json.dumps(one | {"source": "rules"}) + "\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port in (taken.getsockname()[1], 99_999):
            result = invoke(*(word.format(folder=tmp_path) for word in command), "--port", port)
            assert isinstance(result.exception, VLAssayError)
            assert f"nothing can be served at 127.0.0.1:{port}" in str(result.exception)
            assert "Ctrl-C" not in result.output


def test_a_decision_without_a_status_says_which_there_are(tmp_path):
    error = invoke("moderate", "0123456789abcdef", "--storage", tmp_path / "s").exception
    assert isinstance(error, SubmissionError)
    assert "add accepted, flagged or withdrawn" in str(error)


def test_what_others_have_named_commands_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["vl-assay", "report", "a\x1b]0;owned\x07\x1b[2J.parquet"])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err == "error: a ]0;owned  [2J.parquet: no such predictions file\n"
