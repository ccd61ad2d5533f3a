"""Decisions of annotators: nothing that was answered is lost, undo goes back, the export follows the majority."""

from __future__ import annotations

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
from review_support import candidate, write_items, write_set

from vl_assay.hub_datasets.authoring.data.pairs import read_pairs
from vl_assay.hub_datasets.authoring.review.decisions import DECISIONS, decide, export, labels, verdict
from vl_assay.hub_datasets.authoring.review.desk import ReviewDesk
from vl_assay.hub_datasets.authoring.review.journal import DecisionJournal, Entry
from vl_assay.hub_datasets.authoring.review.pictures import Pictures
from vl_assay.hub_datasets.authoring.review.review import open_review
from vl_assay.metrics.common.errors import DataError, StorageError, UnknownNameError
from vl_assay.metrics.common.wording import mark_changes


@pytest.fixture
def path(tmp_path):
    return tmp_path / "DECISIONS.jsonl"


def open_journal(path):
    return DecisionJournal(path, DECISIONS)


def entry(annotator, id, decision, **rest):
    return Entry("", annotator, id, decision, **rest)


def decided(journal):
    return {
        who: {id: each.decision for (id, _), each in entries.items()} for who, entries in journal.standing().items()
    }


def test_a_decision_is_one_line_with_time_annotator_id_decision_and_text(path):
    journal = open_journal(path)
    journal.decide(entry("ana", "1", "keep", shown="a dog"))
    journal.decide(entry("ana", "2", "fix", text="ein Hund – ‘ja’\u2028", shown="a dog"))
    first, second = map(json.loads, path.read_bytes().split(b"\n")[:-1])
    assert set(first) == {"time", "annotator", "id", "decision", "shown"}
    assert second["text"] == "ein Hund – ‘ja’\u2028"
    assert first["time"].endswith("+00:00")
    assert decided(open_journal(path)) == {"ana": {"1": "keep", "2": "fix"}}


actions = st.lists(
    st.tuples(
        st.sampled_from(["ana", "ben"]), st.sampled_from(["1", "2", "3"]), st.sampled_from(["keep", "nonsensical", "u"])
    ),
    max_size=20,
)


@settings(max_examples=40, deadline=None)
@given(actions)
def test_a_journal_that_is_read_anew_says_what_a_plain_history_says(tmp_path_factory, actions):
    path = tmp_path_factory.mktemp("journal") / "DECISIONS.jsonl"
    journal, history = open_journal(path), {"ana": [], "ben": []}
    for who, id, decision in actions:
        if decision != "u":
            journal.decide(entry(who, id, decision))
            history[who].append((id, decision))
        else:
            undone = journal.undo(who)
            assert (undone and (undone.id, undone.decision)) == (history[who].pop() if history[who] else None)
    expected = {who: dict(done) for who, done in history.items() if done}
    assert decided(journal) == decided(open_journal(path)) == expected


@pytest.mark.parametrize("cut", [1, 2, 10, 40])
def test_a_torn_last_line_is_mended_and_the_rest_is_kept(path, cut):
    journal = open_journal(path)
    for id in "123":
        journal.decide(entry("ana", id, "keep"))
    path.write_bytes(path.read_bytes()[:-cut])
    again = open_journal(path)
    whole = {"1": "keep", "2": "keep"} | ({"3": "keep"} if cut == 1 else {})  # only the line break was missing
    assert decided(again) == {"ana": whole}
    again.decide(entry("ana", "4", "keep"))
    assert decided(open_journal(path)) == {"ana": whole | {"4": "keep"}}


def test_a_line_that_is_no_decision_is_named_and_nothing_is_changed(path):
    open_journal(path).decide(entry("ana", "1", "keep"))
    for line in (b"nonsense\n", b'{"time": "", "annotator": "ana", "id": "2", "decision": "kep"}\n', b"[1]\n"):
        content = path.read_bytes()
        path.write_bytes(content + line)
        with pytest.raises(DataError, match="line 2 of"):
            open_journal(path)
        assert path.read_bytes() == content + line
        path.write_bytes(content)


def test_two_journals_over_one_file_see_each_others_decisions(path):
    one, other = open_journal(path), open_journal(path)
    threads = [
        threading.Thread(target=lambda j=j, who=who: [j.decide(entry(who, str(n), "keep")) for n in range(25)])
        for j, who in ((one, "ana"), (other, "ben"), (other, "cleo"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {who: len(each) for who, each in decided(one).items()} == {"ana": 25, "ben": 25, "cleo": 25}
    assert decided(one) == decided(other) == decided(open_journal(path))


KILLED = """
import sys
from vl_assay.hub_datasets.authoring.review.journal import DecisionJournal, Entry
journal = DecisionJournal(sys.argv[1], ["keep"])
for number in range(100_000):
    journal.decide(Entry("", "ana", sys.argv[2] + str(number), "keep"))
    print(sys.argv[2] + str(number), flush=True)
"""


def test_a_kill_loses_no_decision_that_was_answered(path):
    answered = []
    for round_ in "abc":
        command = [sys.executable, "-c", KILLED, str(path), round_]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            answered += [process.stdout.readline().strip() for _ in range(20)]
            os.kill(process.pid, signal.SIGKILL)
            answered += [line.strip() for line in process.stdout if line.endswith("\n")]
    kept = decided(open_journal(path))["ana"]
    assert len(answered) >= 60
    assert set(answered) <= set(kept)


def test_only_what_can_be_decided_is_taken(path):
    journal, one = open_journal(path), candidate()
    positive = candidate(is_positive=True)
    assert list(labels(one)) == ["keep", "false_negative", "not_fluent", "nonsensical", "fix"]
    assert list(labels(positive)) == ["keep", "false_positive", "not_fluent", "nonsensical", "fix"]
    with pytest.raises(UnknownNameError, match="false_negative"):
        decide(journal, positive, "ana", "false_negative")
    for text in ("", "  ", one.caption, one.candidate, f"  {one.candidate} "):
        with pytest.raises(DataError, match="the text is"):
            decide(journal, one, "ana", "fix", text)
    assert not path.exists()
    assert decide(journal, one, "ana", "fix", "  a  new\ttext\n").text == "a new text"


def votes(*decisions):
    return [
        Entry(f"{number}", f"annotator {number}", "x", decision.split(":")[0], text=decision.partition(":")[2])
        for number, decision in enumerate(decisions)
    ]


@pytest.mark.parametrize(
    ("decisions", "status", "text"),
    [
        ([], "undecided", "old"),
        (["keep"], "kept", "old"),
        (["keep", "not_fluent"], "dropped", "old"),  # a tie is not kept
        (["keep", "fix:new", "nonsensical"], "kept", "old"),  # one voice each: the candidate stays
        (["fix:new", "fix:new", "keep"], "kept", "new"),
        (["fix:new", "fix:newer"], "kept", "new"),  # the first that was saved
        (["fix:new", "false_negative", "false_negative"], "dropped", "old"),
        (["keep", "keep", "nonsensical", "not_fluent"], "dropped", "old"),
    ],
)
def test_the_majority_decides_and_a_tie_is_not_kept(decisions, status, text):
    assert verdict(candidate(candidate="old"), votes(*decisions)) == (status, text)


def test_the_export_has_every_candidate_and_the_kept_pairs_can_be_read(path, tmp_path):
    candidates = [candidate(0), candidate(1), candidate(2, is_positive=True), candidate(3), candidate(4)]
    journal = open_journal(path)
    for who in ("ana", "ben"):
        decide(journal, candidates[0], who, "keep")
        decide(journal, candidates[1], who, "fix", "a better text")
        decide(journal, candidates[2], who, "keep")
    decide(journal, candidates[3], "ana", "nonsensical")
    journal.decide(entry("ana", candidates[4].id, "keep", shown="what it was before"))
    statuses, number, pairs_path = export(candidates, journal, tmp_path / "judged.jsonl")
    assert (statuses, number) == ({"kept": 3, "dropped": 1, "undecided": 1}, 2)
    told = ReviewDesk(candidates, journal, Pictures(tmp_path)).export(tmp_path / "judged.jsonl")
    assert told.startswith("3 kept, 1 dropped, 1 undecided; written to ")
    assert told.endswith(f"{pairs_path}; 1 decisions are on texts that have changed, and do not count")
    rows = [json.loads(line) for line in (tmp_path / "judged.jsonl").read_text("utf-8").splitlines()]
    assert [row["status"] for row in rows] == ["kept", "kept", "kept", "dropped", "undecided"]
    assert rows[1]["text"] == "a better text"
    assert rows[1]["candidate"] == candidates[1].candidate
    assert rows[1]["decisions"]["ben"]["decision"] == "fix"
    pairs = read_pairs(pairs_path)
    assert [(pair.id, pair.negative, pair.category) for pair in pairs] == [
        (candidates[0].id, candidates[0].candidate, "swap_att"),
        (candidates[1].id, "a better text", "swap_att"),
    ]
    with pytest.raises(DataError, match=r"\.csv"):
        export(candidates, journal, tmp_path / "judged.csv")


def test_the_page_goes_to_the_next_undecided_item_and_refuses_what_it_does_not_know(tmp_path):
    candidates = write_set(tmp_path, 4)
    desk = open_review(tmp_path, annotators=["ana", "ben"])
    ask = {"annotator": "ana"}
    assert desk.open_item(ask)["index"] == 0
    assert desk.decide(ask | {"id": candidates[2].id, "decision": "keep"})["index"] == 3
    assert desk.decide(ask | {"id": candidates[3].id, "decision": "keep"})["index"] == 0  # round to the first
    assert desk.open_item(ask | {"after": 1})["index"] == 0
    assert desk.open_item(ask | {"index": 2})["decision"] == "keep"
    assert desk.open_item({"annotator": "ben"})["done"] == 0
    view = desk.decide(ask | {"id": candidates[0].id, "decision": "fix", "text": "other words"})
    assert (view["index"], view["done"], view["total"], view["finished"]) == (1, 3, 4, False)
    assert desk.decide(ask | {"id": candidates[1].id, "decision": "keep"})["finished"]
    assert desk.undo(ask)["index"] == 1
    assert desk.open_item(ask | {"index": 0})["text"] == "other words"
    for bad in ({"annotator": "cleo"}, {"annotator": ""}, {"annotator": "a\nb"}, {"annotator": 3}, {}):
        with pytest.raises((DataError, UnknownNameError)):
            desk.open_item(bad)
    for bad in ({"id": "gone"}, {"id": 3}, {}):
        with pytest.raises(DataError, match="no item"):
            desk.decide(ask | bad | {"decision": "keep"})
    for index in (-1, 4, "0", 1.0):
        with pytest.raises(DataError, match="items 0 to 3"):
            desk.open_item(ask | {"index": index})


texts = st.text(st.sampled_from("ab ,<é\t"), max_size=12)


@given(texts, texts)
def test_marked_pieces_make_up_both_texts_and_the_unmarked_ones_are_equal(caption, text):
    one, other = mark_changes(caption, text)
    assert ("".join(piece for piece, _ in one), "".join(piece for piece, _ in other)) == (caption, text)
    same = ["".join(piece for piece, is_changed in side if not is_changed) for side in (one, other)]
    assert same[0] == same[1]


def test_images_are_taken_from_the_folder_and_nowhere_else(tmp_path):
    outside = tmp_path / "secret.png"
    write_set(tmp_path / "set", 3)
    outside.write_bytes((tmp_path / "set" / "images" / "0.png").read_bytes())
    (tmp_path / "set" / "link.png").symlink_to(outside)
    review = open_review(tmp_path / "set")
    assert review.pictures.shown("images/0.png").startswith("data:image/png;base64,")
    assert review.pictures.path(str(tmp_path / "set" / "images" / "0.png")).name == "0.png"
    for image in ("../secret.png", "images/../../secret.png", str(outside), "link.png", "/etc/hostname"):
        with pytest.raises(DataError, match="outside"):
            review.pictures.shown(image)
        with pytest.raises(DataError, match="outside"):
            review.similar({"name": image})
    for image in ("images", "gone.png", "a\0b", "x" * 5000, ""):
        with pytest.raises(DataError, match="no image"):
            review.pictures.path(image)
    with pytest.raises(DataError, match="not a readable image"):
        review.pictures.shown("candidates.jsonl")


@contextmanager
def room_for(path, size):
    """Files may grow to that many bytes beyond what this one has, as on a disk that is nearly full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_line_for_half_of_which_there_is_room_leaves_nothing_behind(path):
    journal = open_journal(path)
    journal.decide(entry("ana", "1", "keep"))
    before = path.read_bytes()
    with room_for(path, 60), pytest.raises(StorageError, match=r"too large|No space"):
        journal.decide(entry("ana", "2", "keep"))
    assert path.read_bytes() == before
    journal.decide(entry("ana", "3", "keep"))
    assert decided(open_journal(path)) == {"ana": {"1": "keep", "3": "keep"}}


@pytest.mark.parametrize("boxes", [False, True])
def test_an_export_does_not_take_the_place_of_a_journal_or_of_what_is_reviewed(tmp_path, boxes):
    write_set(tmp_path, 2)
    source = write_items(tmp_path) if boxes else tmp_path / "candidates.jsonl"
    review = open_review(source, boxes=boxes)
    for name in (source.name, "DECISIONS.jsonl", "BOXES.jsonl", "RATINGS.jsonl", "journal.jsonl"):
        with pytest.raises(DataError, match="would be overwritten; name another file"):
            review.export(tmp_path / name)
    assert open_review(source, boxes=boxes).items == review.items


def test_kept_pairs_do_not_take_the_place_of_what_is_reviewed(tmp_path):
    write_set(tmp_path, 2)
    source = (tmp_path / "candidates.jsonl").rename(tmp_path / "a.pairs.jsonl")
    with pytest.raises(DataError, match="is a journal, or what is reviewed"):
        open_review(source).export(tmp_path / "a.jsonl")
