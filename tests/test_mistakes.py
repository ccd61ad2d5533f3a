"""What a newcomer is told of a wrong file, folder or address, before any work is done."""

from __future__ import annotations

import json
import socket

import pytest
from console import invoke

from vl_assay.hub_datasets.authoring.data.tables import read_rows
from vl_assay.hub_datasets.authoring.review.pictures import Pictures
from vl_assay.metrics.common.command_line import main
from vl_assay.metrics.common.errors import DataError, ModelError, StorageError, SubmissionError, VLAssayError
from vl_assay.metrics.common.serving import check_address

PAIRS = "image,positive,negative\n" + "".join(f"{n}.jpg,a cat on mat {n},a mat on cat {n}\n" for n in range(8))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'caption\r\n"a; b, ü"\r\n'),
        ("a.jsonl", '{"caption": "a; b, ü"}\r\n'),
        ("a.json", '[{"caption": "a; b, ü"}]'),
    ],
)
def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_a_caption(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode("utf-8-sig"))
    assert read_rows(tmp_path / name) == [("0", {"caption": "a; b, ü"})]


@pytest.mark.parametrize("content", ["", "positive,negative\n"])
def test_a_table_without_rows_is_not_asked_for_its_columns(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    assert "a.csv has no row" in str(invoke("audit", tmp_path / "a.csv", "--out", tmp_path / "out").exception)


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


def test_a_run_without_any_answer_fails_and_does_not_ask_for_judgement(tmp_path, monkeypatch):
    monkeypatch.setattr("vl_assay.hub_datasets.authoring.generate.asking.FIRST_WAIT", 0.001)
    (tmp_path / "a.csv").write_text("caption\na dog on a cat\n")
    words = ("--model", "m", "--base-url", "http://127.0.0.1:9", "--kind", "swap_obj", "--timeout", 1)
    result = invoke("generate", tmp_path / "a.csv", *words, "--out", tmp_path / "made")
    assert isinstance(result.exception, ModelError)
    assert "nothing was made, 1 without an answer" in str(result.exception)
    assert "vl-assay review" not in result.output
    assert json.loads((tmp_path / "made" / "report.json").read_text())["rejected"] == {"swap_obj": {"no answer": 1}}


def test_images_that_the_review_would_not_show_are_spoken_of_and_its_command_can_be_copied(tmp_path):
    (tmp_path / "a.csv").write_text("caption,image\na red dog chases a black cat,a.png\n")
    (tmp_path / "a.png").touch()
    result = invoke("generate", tmp_path / "a.csv", "--rules", "--kind", "swap_obj", "--out", tmp_path / "my judges")
    assert "the same command with --images" in result.output
    assert f"vl-assay review '{tmp_path / 'my judges'}'" in result.output.replace("\n", "")
    with pytest.raises(DataError, match=r"outside .* --images, or copy them"):
        Pictures(tmp_path / "my judges").path("../a.png")


@pytest.mark.parametrize(
    "command", [("leaderboard", "--storage", "{folder}/s"), ("review", "{folder}/candidates.jsonl")]
)
def test_an_address_that_cannot_be_served_is_told_before_the_page_is_announced(tmp_path, command):
    one = {"id": "1", "image": "", "caption": "a", "candidate": "b", "kind": "swap_obj", "is_positive": False}
    (tmp_path / "candidates.jsonl").write_text(json.dumps(one | {"source": "rules"}) + "\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port in (taken.getsockname()[1], 99_999, -1):
            result = invoke(*(word.format(folder=tmp_path) for word in command), "--port", port)
            assert isinstance(result.exception, VLAssayError)
            assert f"nothing can be served at 127.0.0.1:{port}" in str(result.exception)
            assert "Ctrl-C" not in result.output


def test_a_free_address_can_be_served():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    check_address("127.0.0.1", port)
    check_address("0.0.0.0", port)
    with pytest.raises(VLAssayError, match="another --port"):
        check_address("no host", port)


def test_a_decision_without_a_status_says_which_there_are(tmp_path):
    error = invoke("moderate", "0123456789abcdef", "--storage", tmp_path / "s").exception
    assert isinstance(error, SubmissionError)
    assert "add accepted, flagged or withdrawn" in str(error)
    waiting = invoke("moderate", "--storage", tmp_path / "s").output
    assert f"no submission waits for a decision in {tmp_path / 's'}" in waiting


def test_what_others_have_named_commands_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["vl-assay", "report", "a\x1b]0;owned\x07\x1b[2J.parquet"])
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr().err
    assert "a ]0;owned  [2J.parquet" in told
    assert "\x1b" not in told
