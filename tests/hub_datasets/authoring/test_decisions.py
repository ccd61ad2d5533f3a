"""Decisions of annotators: an answered decision is never lost, undo goes back, the export follows the majority."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from review_support import candidate, decide, write_set

from vl_assay.hub_datasets.authoring.data.pairs import read_pairs
from vl_assay.hub_datasets.authoring.review.candidates import verdict
from vl_assay.hub_datasets.authoring.review.journal import Decision, DecisionJournal
from vl_assay.hub_datasets.authoring.review.review import open_review
from vl_assay.metrics.common.errors import DataError, StorageError, UnknownNameError
from vl_assay.metrics.common.wording import mark_changes


@pytest.fixture
def path(tmp_path):
    return tmp_path / "candidates.decisions.jsonl"


def record(journal, annotator, id, decision="keep"):
    return journal.record(annotator, id, "hash", {"decision": decision})


def decided(journal):
    standing = journal.standing()
    return {who: {id: each.answer("decision") for id, each in own.items()} for who, own in standing.items()}


actions = st.lists(
    st.tuples(
        st.sampled_from(["ana", "ben"]), st.sampled_from(["1", "2", "3"]), st.sampled_from(["keep", "drop", "u"])
    ),
    max_size=20,
)


@settings(max_examples=12)
@given(actions)
def test_a_journal_that_is_read_anew_equals_a_plain_history(tmp_path_factory, actions):
    path = tmp_path_factory.mktemp("journal") / "x.decisions.jsonl"
    journal, history = DecisionJournal(path), {"ana": [], "ben": []}
    for who, id, decision in actions:
        if decision != "u":
            record(journal, who, id, decision)
            history[who].append((id, decision))
        else:
            undone = journal.undo(who)
            assert (undone and (undone.id, undone.answer("decision"))) == (history[who].pop() if history[who] else None)
    expected = {who: dict(done) for who, done in history.items() if done}
    assert decided(journal) == decided(DecisionJournal(path)) == expected


@pytest.mark.parametrize("cut", [1, 10])
def test_a_torn_last_line_is_mended_and_the_others_are_kept(path, cut):
    journal = DecisionJournal(path)
    for id in "123":
        record(journal, "ana", id)
    path.write_bytes(path.read_bytes()[:-cut])
    again = DecisionJournal(path)
    whole = {"1": "keep", "2": "keep"} | ({"3": "keep"} if cut == 1 else {})  # only the line break was missing
    assert decided(again) == {"ana": whole}
    record(again, "ana", "4")
    assert decided(DecisionJournal(path)) == {"ana": whole | {"4": "keep"}}


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b'{"time": "", "annotator": "ana", "id": 2, "shown": "", "answers": {}}\n',
        b'{"time": "", "annotator": "ana", "id": "2", "shown": "", "answers": {"boxes": [[1, 2, 3]]}}\n',
    ],
)
def test_an_invalid_line_is_named_and_the_file_stays(path, line):
    record(DecisionJournal(path), "ana", "1")
    content = path.read_bytes() + line
    path.write_bytes(content)
    with pytest.raises(DataError, match="line 2 of"):
        DecisionJournal(path)
    assert path.read_bytes() == content


def test_a_journal_with_an_unknown_option_is_refused(tmp_path):
    candidates = write_set(tmp_path, 2)
    decide(open_review(tmp_path), "ana", candidates[0].id, decision="keep")
    path = tmp_path / "candidates.decisions.jsonl"
    path.write_text(path.read_text().replace('"keep"', '"kep"'))
    with pytest.raises(DataError, match=r"of 'ana' on '0/swap_att' is invalid: unknown answer .* 'kep'"):
        open_review(tmp_path)


def test_journals_over_one_file_see_each_others_decisions(path):
    one, other = DecisionJournal(path), DecisionJournal(path)
    threads = [
        threading.Thread(target=lambda j=journal, who=who: [record(j, who, str(n)) for n in range(25)])
        for journal, who in ((one, "ana"), (other, "ben"), (other, "cleo"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {who: len(own) for who, own in decided(one).items()} == {"ana": 25, "ben": 25, "cleo": 25}
    assert decided(one) == decided(other) == decided(DecisionJournal(path))


KILLED = """
import sys
from vl_assay.hub_datasets.authoring.review.journal import DecisionJournal
journal = DecisionJournal(sys.argv[1])
for number in range(100_000):
    journal.record("ana", str(number), "", {"decision": "keep"})
    print(number, flush=True)
"""


def test_a_kill_loses_no_decision_that_was_answered(path):
    answered = []
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        answered += [process.stdout.readline().strip() for _ in range(20)]
        os.kill(process.pid, signal.SIGKILL)
        answered += [line.strip() for line in process.stdout if line.endswith("\n")]
    assert len(answered) >= 20
    assert set(answered) <= set(decided(DecisionJournal(path))["ana"])


@contextmanager
def room_for(path, size):
    """Let files grow by so many bytes beyond the size of this one, as on a disk that is nearly full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_line_that_fits_by_half_leaves_nothing_behind(path):
    journal = DecisionJournal(path)
    record(journal, "ana", "1")
    before = path.read_bytes()
    with room_for(path, 60), pytest.raises(StorageError, match=r"too large|No space"):
        record(journal, "ana", "2")
    assert path.read_bytes() == before
    record(journal, "ana", "3")
    assert decided(DecisionJournal(path)) == {"ana": {"1": "keep", "3": "keep"}}


def made(*decisions):
    return [
        Decision(str(n), f"annotator {n}", "x", "", {"decision": each.split(":")[0], "text": each.partition(":")[2]})
        for n, each in enumerate(decisions)
    ]


@pytest.mark.parametrize(
    ("decisions", "status", "text"),
    [
        ([], "undecided", "old"),
        (["keep"], "kept", "old"),
        (["keep", "not_fluent"], "dropped", "old"),  # a tie is not kept
        (["keep", "fix:new", "nonsensical"], "kept", "old"),  # one vote each: the candidate stays
        (["fix:new", "fix:new", "keep"], "kept", "new"),
        (["fix:new", "fix:newer"], "kept", "new"),  # the first that was saved
        (["fix:new", "false_negative", "false_negative"], "dropped", "old"),
        (["keep", "keep", "nonsensical", "not_fluent"], "dropped", "old"),
    ],
)
def test_the_majority_decides_and_a_tie_is_not_kept(decisions, status, text):
    assert verdict("old", made(*decisions)) == (status, text)


def test_the_results_have_every_candidate_and_the_kept_pairs_can_be_read(tmp_path):
    candidates = write_set(tmp_path, 5, is_positive=True)
    desk = open_review(tmp_path)
    for who in ("ana", "ben"):
        decide(desk, who, candidates[0].id, decision="keep")
        decide(desk, who, candidates[1].id, decision="keep", text="not asked for")
        decide(desk, who, candidates[2].id, decision="fix", text="  a better\ttext\n")
    decide(desk, "ana", candidates[3].id, decision="nonsensical")
    desk.journal.record("ana", candidates[4].id, "hash of another text", {"decision": "keep"})
    report = "\n".join(map(str, open_review(tmp_path).report()))
    assert "Candidates: 3 kept, 1 dropped, 1 undecided" in report
    assert "4 of 5 items are decided. 1 decisions do not count, as texts or images have changed" in report
    (tmp_path / "elsewhere").mkdir()
    desk.write(tmp_path / "elsewhere" / "reviewed.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "elsewhere" / "reviewed.jsonl").read_text("utf-8").splitlines()]
    assert [row["status"] for row in rows] == ["kept", "kept", "kept", "dropped", "undecided"]
    assert rows[0]["image"] == "../images/0.png"
    assert [rows[2][name] for name in ("candidate", "text")] == [candidates[2].candidate, "a better text"]
    assert {who: each["decision"] for who, each in rows[2]["decisions"].items()} == {"ana": "fix", "ben": "fix"}
    assert "text" not in rows[1]["decisions"]["ana"]
    # A hard positive makes no pair.
    assert [(pair.id, pair.negative) for pair in read_pairs(tmp_path / "elsewhere")] == [
        (candidates[1].id, candidates[1].candidate),
        (candidates[2].id, "a better text"),
    ]


def test_a_desk_continues_where_an_annotator_was_and_refuses_invalid_requests(tmp_path):
    candidates = write_set(tmp_path, 4)
    desk = open_review(tmp_path, annotators=["ana", "ben"])
    ask = {"annotator": "ana"}
    assert desk.missing() == 8
    assert desk.open_item(ask)["index"] == 0
    assert decide(desk, "ana", candidates[2].id, decision="keep")["index"] == 3
    assert decide(desk, "ana", candidates[3].id, decision="keep")["index"] == 0  # round to the first
    assert desk.open_item(ask | {"index": 2})["questions"][0]["value"] == "keep"
    assert desk.open_item({"annotator": "ben"})["done"] == 0
    view = decide(desk, "ana", candidates[0].id, decision="fix", text="other words")
    assert [view[name] for name in ("index", "done", "total", "finished")] == [1, 3, 4, False]
    assert decide(desk, "ana", candidates[1].id, decision="keep")["finished"]
    assert desk.undo(ask)["index"] == 1
    assert desk.open_item(ask | {"index": 0})["questions"][1]["value"] == "other words"
    assert desk.missing() == 5
    for bad in ({"annotator": "cleo"}, {"annotator": ""}, {"annotator": "a\nb"}, {"annotator": 3}, {}):
        with pytest.raises((DataError, UnknownNameError)):
            desk.open_item(bad)
    for bad in ({"id": "gone"}, {"id": 3}, {}):
        with pytest.raises(DataError, match="no item"):
            desk.decide(ask | bad | {"answers": {"decision": "keep"}})
    for index in (-1, 4, "0", 1.0):
        with pytest.raises(DataError, match="items 0 to 3"):
            desk.open_item(ask | {"index": index})


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (None, "an object of answers"),
        ({}, "unknown answer to 'decision'"),
        ({"decision": "false_positive"}, "false_negative"),
        ({"decision": "fix"}, "got none"),
        ({"decision": "fix", "text": candidate().caption}, "the caption itself"),
        ({"decision": "fix", "text": f" {candidate().candidate} "}, "the candidate as it was"),
        ({"decision": "fix", "text": "x" * 5_000_000}, "5,000,000 characters"),
        ({"decision": "fix", "text": "half a \ud83d"}, "half a character"),
    ],
)
def test_invalid_answers_are_refused_and_not_recorded(answers, message, tmp_path):
    write_set(tmp_path, 1)
    desk = open_review(tmp_path)
    with pytest.raises((DataError, UnknownNameError), match=message):
        desk.decide({"annotator": "ana", "id": "0/swap_att", "answers": answers})
    assert not desk.journal.path.exists()


texts = st.text(st.sampled_from("ab ,<é\t"), max_size=12)


@given(texts, texts)
def test_marked_segments_make_up_both_texts_and_the_unmarked_ones_are_equal(caption, text):
    one, other = mark_changes(caption, text)
    assert ("".join(piece for piece, _ in one), "".join(piece for piece, _ in other)) == (caption, text)
    same = ["".join(piece for piece, is_changed in side if not is_changed) for side in (one, other)]
    assert same[0] == same[1]


def test_images_are_taken_from_the_folder_alone(tmp_path):
    outside = tmp_path / "secret.png"
    write_set(tmp_path / "set", 3)
    outside.write_bytes((tmp_path / "set" / "images" / "0.png").read_bytes())
    (tmp_path / "set" / "link.png").symlink_to(outside)
    desk = open_review(tmp_path / "set")
    assert desk.picture({"name": "images/0.png"})["src"].startswith("data:image/png;base64,")
    assert desk.pictures.path(str(tmp_path / "set" / "images" / "0.png")).name == "0.png"
    for image in ("../secret.png", "images/../../secret.png", str(outside), "link.png", "/etc/hostname"):
        with pytest.raises(DataError, match="outside"):
            desk.picture({"name": image})
    for image in ("images", "a\0b", "x" * 5000, None, "http://127.0.0.1:9/0.png"):
        with pytest.raises(DataError, match="no image"):
            desk.picture({"name": image})
    with pytest.raises(DataError, match="not a readable image"):
        desk.picture({"name": "candidates.jsonl"})
