"""Submissions: stored whole or not at all, evaluated as by `report`, finished after a crash, reviewed and withdrawn."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from submission_support import MemoryStorage, changed, of_model

from vl_assay.hub_datasets import report
from vl_assay.metrics.common.errors import (
    PredictionsError,
    RateLimitError,
    StorageError,
    SubmissionError,
    UnknownNameError,
)
from vl_assay.metrics.common.storage import json_hash
from vl_assay.metrics.modules.discovery import get_spec
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import BoardColumn
from vl_assay.space_app.board.imports import COLUMNS, parse_table, store_table
from vl_assay.space_app.board.launch import published_names
from vl_assay.space_app.board.names import check_name, is_same_name
from vl_assay.space_app.storage import records
from vl_assay.space_app.storage.records import results_of, results_path, results_version, submissions
from vl_assay.space_app.submissions.submissions import OPTIONS, finish, preview, review, submit, withdraw

TASKS = ("groups", "vqa")
MODEL = {"name": "", "family": "mock", "parameters": "1.5M", "training_data": "none", "link": "https://a.example/b"}
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def storage():
    return MemoryStorage()


def at(minutes):
    return lambda: NOON + timedelta(minutes=minutes)


def test_a_submission_is_stored_with_its_predictions_and_evaluated_as_by_report(toy, storage):
    paths = [toy.path(task, "shuffled") for task in TASKS]
    receipt = submit(storage, [path.read_bytes() for path in paths], MODEL, "someone", now=at(0))
    ours = report(paths, **OPTIONS)
    for received, computed in zip(receipt.results, ours, strict=True):
        # Blind levels come from this package, which has none for these small scenes, and not from an upload.
        benchmark = computed.benchmark | {"blind": {}}
        assert received == dataclasses.replace(computed, predictions=received.predictions, benchmark=benchmark)
        assert received.blind == {}
    assert [each.predictions["sha256"] for each in receipt.results] == [each.predictions["sha256"] for each in ours]
    assert results_of(storage, receipt) == receipt.results
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    assert set(storage.files) == {
        f"requests/{receipt.id}/submission.json",
        *(f"requests/{receipt.id}/{sha256}.parquet" for sha256 in hashes),
        results_path(receipt),
    }
    record = json.loads(storage.read(f"requests/{receipt.id}/submission.json"))
    assert record["model"] == MODEL | {"name": "mock:shuffled", "parameters": 1_500_000}
    assert (record["user"], record["time"], record["flags"]) == ("someone", "2026-01-02T12:00:00.000000+00:00", [])
    assert [predictions["model"]["name"] for predictions in record["predictions"]] == ["mock:shuffled"] * 2
    assert [predictions["rows"] for predictions in record["predictions"]] == [40, 80]
    [found] = submissions(storage)
    assert (found.id, found.status, found.user, found.problems) == (receipt.id, "accepted", "someone", ())
    assert receipt.status == "accepted"


def test_the_same_submission_again_changes_nothing_even_when_the_hour_is_full(toy, storage, monkeypatch):
    predictions = [toy.predictions("groups", "shuffled"), toy.predictions("vqa", "shuffled")]
    first = submit(storage, predictions, MODEL, "someone", now=at(0))
    files = dict(storage.files)
    monkeypatch.setenv("VL_ASSAY_RATE_LIMIT", "1")
    again = submit(storage, predictions[::-1], dict(reversed(MODEL.items())), "someone", now=at(5))
    assert again == first
    assert storage.files == files
    monkeypatch.undo()
    for uploads, model, user in (
        (predictions[:1], MODEL, "someone"),
        (predictions, MODEL | {"link": ""}, "someone"),
        (predictions, MODEL | {"name": "Other"}, "another"),
    ):
        assert submit(storage, uploads, model, user, now=at(6)).id != first.id


def test_a_preview_tells_what_a_submission_would_and_stores_nothing(toy, storage):
    shown = preview(storage, [toy.predictions("groups", "constant")], MODEL, "someone", now=at(0))
    assert storage.files == {}
    assert shown == submit(storage, [toy.predictions("groups", "constant")], MODEL, "someone", now=at(0))
    assert shown.status == "flagged"
    assert shown.flags == ("toy_scenes/groups: All 160 scores are the same, 0.",)


def shifted(content, change):
    """Predictions of the same model whose scores are changed row by row."""
    return changed(content, rows=lambda rows: [row.update(score=change(n, row["score"])) for n, row in enumerate(rows)])


def named(content, name):
    """The same predictions of a model with another name."""
    return changed(content, metadata=lambda metadata: metadata["model"].update(name=name))


def copied(number, score):
    return score + 1e-3 * (number % 7)


def test_copies_of_another_model_are_flagged_however_they_are_hidden(toy, storage):
    content = of_model(toy, 1)
    first = submit(storage, [content], {}, "someone", now=at(0))
    for minute, hidden in enumerate((changed(content, rows=list.reverse), shifted(content, copied)), start=1):
        receipt = submit(storage, [named(hidden, "mine")], {}, f"another {minute}", now=at(minute))
        flag = receipt.flags[0]
        assert flag.startswith("toy_scenes/vqa: The scores are ")
        assert f"those of model 1 in the submission {first.id}" in flag
        assert receipt.status == "flagged"
        review(storage, receipt.id, "withdrawn", "a copy", "maintainer", now=at(minute))
    assert submit(storage, [of_model(toy, 2)], {}, "another", now=at(3)).flags == ()


def test_ones_own_scores_again_are_not_flagged_unless_they_were_withdrawn(toy, storage):
    content = of_model(toy, 1)
    first = submit(storage, [content], {}, "someone", now=at(0))
    assert submit(storage, [content], {"link": "https://a.example"}, "someone", now=at(1)).flags == ()
    review(storage, first.id, "withdrawn", "trained on the test set", "maintainer", now=at(2))
    for minute, (field, version) in enumerate(
        [("family", content), ("link", content), ("family", shifted(content, copied))], start=3
    ):
        again = submit(storage, [version], {field: "https://b.example"}, "someone", now=at(minute))
        assert again.status == "flagged"
        assert f"model 1 in the submission {first.id}, which is withdrawn" in " ".join(again.flags)


def test_who_withdraws_their_own_submission_does_not_undo_what_a_maintainer_decided(toy, storage):
    content = of_model(toy, 1)
    first = submit(storage, [content], {}, "someone", now=at(0))
    review(storage, first.id, "flagged", "odd", "maintainer", now=at(1))
    withdraw(storage, first.id, "someone", now=at(2))
    assert submit(storage, [content], {"family": "clip"}, "someone", now=at(3)).status == "flagged"
    assert submit(storage, [content], {}, "someone", now=at(4)).status == "flagged"
    review(storage, first.id, "accepted", "checked", "maintainer", now=at(5))
    assert submit(storage, [content], {"link": "https://a.example"}, "someone", now=at(6)).flags == ()


def test_without_a_login_a_submission_is_withdrawn_replaced_and_sent_again_by_its_receipt(toy, storage):
    first = submit(storage, [of_model(toy, 1)], {}, now=at(0))
    assert first.key not in str(storage.files)
    for user, key in (("", ""), ("", "guessed"), ("", "\ud800"), ("someone", "")):
        with pytest.raises(SubmissionError, match=r"the key is not that of|is not one of 'someone'"):
            withdraw(storage, first.id, user, key=key)
    assert withdraw(storage, first.id, "", "a mistake", key=first.key, now=at(1)).status == "withdrawn"
    with pytest.raises(SubmissionError, match="is withdrawn already"):
        withdraw(storage, first.id, "", key=first.key)
    # Nobody knows who sends the same scores now, so a maintainer decides.
    noisy = shifted(of_model(toy, 1), copied)
    assert submit(storage, [noisy], {"family": "clip"}, now=at(2)).status == "flagged"
    assert submit(storage, [named(of_model(toy, 2), "model 1")], {}, now=at(2)).status == "accepted"
    again = submit(storage, [of_model(toy, 1)], {}, now=at(3))
    assert (again.id, again.status, again.key) == (first.id, "flagged", "")
    assert [each.reviewer for each in submissions(storage) if each.id == first.id] == ["a visitor without a login"]
    assert review(storage, first.id, "accepted", "", "maintainer", now=at(4)).status == "accepted"
    assert withdraw(storage, first.id, "", key=first.key, now=at(5)).status == "withdrawn"
    assert submit(storage, [of_model(toy, 1)], {}, now=at(6)).status == "flagged"


RESERVED = (
    *("Human", "hum\u0430n", "H\u00fcman", "\uff28uman", "CHANCE", "Random  Chance", "\u3164", "\u2800\u2800", "- -"),
    *("best\ufe0f", "demo-clip, shipped with VL-Assay", "NegCLIP", "neg_clip", "N e g - C L I P", "Neg.CLlP"),
    *("\u0274egCLIP", "\U0001f17degCLIP", "N\u0435gCLIP", "\uff2eegCLIP", "\u0272egCLIP", "gpt4v", "GPT\u20144V"),
    *("clip vit b/32", "CLIP Vi\u1d1b-B/32"),
)


def test_reserved_and_invisible_names_are_refused_typed_and_in_the_metadata(toy, storage):
    for name in RESERVED:
        with pytest.raises(SubmissionError, match="the model's name"):
            check_name(name, published_names())
    renamed = named(of_model(toy, 1), RESERVED[1])
    for content, typed in ((of_model(toy, 1), {"name": RESERVED[1]}), (renamed, {})):
        with pytest.raises(SubmissionError, match="the model's name"):
            submit(storage, [content], typed, "someone")
    assert storage.files == {}


def test_a_name_of_imported_values_is_refused_also_when_a_withdrawn_submission_is_sent_again(toy, storage):
    first = submit(storage, [of_model(toy, 1)], {}, "someone", now=at(0))
    withdraw(storage, first.id, "someone", now=at(1))
    assert submit(storage, [of_model(toy, 1)], {}, "someone", now=at(2)).status == "accepted"
    withdraw(storage, first.id, "someone", now=at(3))
    table = f"{','.join(COLUMNS)}\nModel 1,sugarcrepe,itm,,sugarcrepe_itm,accuracy,1,x"
    store_table(storage, parse_table(table.encode(), "a.csv"))
    for call, number, typed in ((submit, 1, {}), (preview, 2, {"name": "m\u1d0fdel_1"})):
        with pytest.raises(
            SubmissionError, match="looks like 'Model 1', which stands on the leaderboard for published"
        ):
            call(storage, [of_model(toy, number)], typed, "someone", now=at(4))
    assert [each.status for each in submissions(storage)] == ["withdrawn"]


def test_a_name_belongs_to_its_first_user_until_a_maintainer_withdraws_it(toy, storage):
    names = ("model 1", "Model-1", "model1", "M\u043edel 1", "model l", "rnodel I", "\uff4dodel 1")
    assert all(is_same_name(name, "model 1") for name in names)
    first, theirs = submit(storage, [of_model(toy, 1)], {}, "someone", now=at(0)), {"name": names[3]}
    for call in (submit, preview):
        with pytest.raises(SubmissionError, match=f"which someone has submitted first \\({first.id}\\)"):
            call(storage, [of_model(toy, 2)], theirs, "another", now=at(1))
    withdraw(storage, first.id, "someone", now=at(2))
    with pytest.raises(SubmissionError, match="which someone has submitted first"):
        submit(storage, [of_model(toy, 2)], theirs, "another", now=at(3))
    assert submit(storage, [of_model(toy, 3)], {"name": "model 1"}, "someone", now=at(3)).status != "withdrawn"
    for each in submissions(storage):
        review(storage, each.id, "withdrawn", "not theirs", "maintainer", now=at(4))
    assert submit(storage, [of_model(toy, 2)], theirs, "another", now=at(5)).id


BAD_LINKS = ("javascript:alert(1)", "ftp://x", "https://", 'https://x/"onload=', "//x", "https://[")


def test_typed_fields_that_cannot_be_shown_are_refused(storage):
    for model, error, message in (
        ({"name": "a\nb"}, PredictionsError, "the model's name is .*printable"),
        ({"name": "\ud800"}, PredictionsError, "the model's name is .*printable"),
        ({"family": "x" * 201}, PredictionsError, "the model's family is .*200"),
        *(({"link": link}, PredictionsError, "the model's link is .*https://") for link in BAD_LINKS),
        ({"parameters": "lots"}, PredictionsError, "the model's parameters are 'lots'; give a number, such as"),
        ({"colour": "red"}, UnknownNameError, "unknown field of a model 'colour'; known: name, family"),
    ):
        with pytest.raises(error, match=message):
            submit(storage, [b""], model)
    assert storage.files == {}


def test_predictions_that_do_not_belong_together_are_refused(toy, storage):
    vqa, other = toy.predictions("vqa", "shuffled"), toy.predictions("groups")
    for uploads, message in (
        ([], "got 0 predictions files; a submission has 1 to 50"),
        ([vqa] * 51, "got 51 predictions files"),
        ([vqa, other], "the predictions are of 2 models, mock:shuffled and mock:bag-of-words"),
        ([vqa, shifted(vqa, lambda n, score: score / 2)], "got 2 predictions files of toy_scenes/vqa"),
        ([vqa] * 25, "file 2 has the same content as file 1; keep one"),
    ):
        with pytest.raises(SubmissionError, match=message):
            submit(storage, uploads, MODEL)
    with pytest.raises(PredictionsError, match=r"^file 2 is not a Parquet file"):
        submit(storage, [vqa, b"x"], MODEL)
    with pytest.raises(PredictionsError, match=r"^b\.txt is not a Parquet file"):
        submit(storage, [vqa, b"x"], MODEL, names=["a.parquet", "b.txt"])
    assert storage.files == {}


class Failing(MemoryStorage):
    """Fails, or dies, when results are added."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def add(self, files, message):
        if self.error and any(path.startswith("results/") for path in files):
            raise self.error
        super().add(files, message)


@pytest.mark.parametrize("error", [StorageError("the disk is full"), KeyboardInterrupt()])
def test_results_that_could_not_be_stored_are_computed_later(toy, error):
    storage, predictions = Failing(error), [toy.predictions("vqa", "shuffled"), toy.predictions("groups", "shuffled")]
    if isinstance(error, StorageError):
        assert submit(storage, predictions, MODEL, now=at(0)).status == "pending"
    else:
        with pytest.raises(KeyboardInterrupt):
            submit(storage, predictions, MODEL, now=at(0))
    [found] = submissions(storage)
    assert found.status == "pending"
    assert results_of(storage, found) == []
    storage.error = None
    assert finish(storage) == []
    receipt = submit(storage, predictions, MODEL, now=at(9))
    assert (receipt.status, receipt.time) == ("accepted", found.time)
    assert results_of(storage, found) == receipt.results


@pytest.fixture
def no_known_versions():
    results_version.cache_clear()
    yield
    results_version.cache_clear()


@pytest.mark.usefixtures("no_known_versions")
def test_a_new_version_of_the_estimation_has_everything_computed_again(toy, storage, monkeypatch):
    receipt = submit(storage, [toy.predictions("vqa", "shuffled")], MODEL, now=at(0))
    old = results_path(receipt)
    results_version.cache_clear()
    monkeypatch.setattr(records, "ESTIMATION_VERSION", 0)
    assert finish(storage) == []
    assert storage.paths("results/") == sorted([old, results_path(receipt)])
    assert results_of(storage, receipt) == receipt.results
    files = dict(storage.files)
    assert finish(storage) == []
    assert storage.files == files


@pytest.mark.usefixtures("no_known_versions")
def test_the_version_follows_the_metrics_of_a_submissions_tasks_and_no_others(monkeypatch):
    tasks = ((("sugarcrepe", "itm"),), (("winoground", "groups"),))
    before = [results_version(each) for each in tasks]
    assert before[0] != before[1]
    newer = dataclasses.replace(get_spec("group_match"), version=2)
    monkeypatch.setattr(records, "get_spec", lambda name: newer if name == "group_match" else get_spec(name))
    results_version.cache_clear()
    assert [results_version(each) == old for each, old in zip(tasks, before, strict=True)] == [True, False]


def test_too_many_submissions_in_an_hour_wait_for_the_oldest_of_all_or_of_the_user_to_pass(toy, monkeypatch):
    for name, user, told in (
        ("VL_ASSAY_RATE_LIMIT", "user{}", "2 submissions within"),
        ("VL_ASSAY_USER_RATE_LIMIT", "someone", "2 submissions of someone within"),
    ):
        storage = MemoryStorage()
        with monkeypatch.context() as context:
            context.setenv(name, "2")
            for number in range(2):
                submit(storage, [of_model(toy, number)], MODEL, user.format(number), now=at(10 * number))
            with pytest.raises(RateLimitError, match=f"{told} the last hour.* after 13:00:00 UTC") as caught:
                submit(storage, [of_model(toy, 2)], MODEL, user.format(2), now=at(59))
            assert caught.value.retry_at == NOON + timedelta(hours=1)
            assert preview(storage, [of_model(toy, 2)], MODEL, user.format(2), now=at(59)).status == "accepted"
            if user == "someone":
                assert submit(storage, [of_model(toy, 4)], {}, "another", now=at(59)).status == "accepted"
            assert submit(storage, [of_model(toy, 2)], MODEL, user.format(2), now=at(60)).status == "accepted"
            with pytest.raises(RateLimitError, match="after 13:10:00 UTC"):
                submit(storage, [of_model(toy, 3)], MODEL, user.format(3), now=at(61))
            # A clock that was set back by hours keeps nobody out.
            assert submit(storage, [of_model(toy, 3)], {}, user.format(3), now=at(-600)).status == "accepted"


def test_checks_have_a_limit_in_an_hour_for_each_user_and_for_all_without_a_login(toy, storage, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_RATE_LIMIT", "1")
    monkeypatch.setenv("VL_ASSAY_USER_RATE_LIMIT", "1")

    def check(user, minute):
        with pytest.raises(PredictionsError):
            preview(storage, [b"damaged"], {}, user, now=at(minute))

    for user in ("", "ada"):
        for minute in range(10):
            check(user, minute)
        with pytest.raises(RateLimitError, match=r"there have been 10 checks .* after 13:00:00 UTC"):
            preview(storage, [toy.predictions("vqa")], {}, user, now=at(59))
        with pytest.raises(RateLimitError, match="10 checks"):  # refused files cost as much
            submit(storage, [b"damaged"], {}, user, now=at(59))
    for user, minute in (("bob", 59), ("", 60), ("ada", 60)):
        check(user, minute)


def submitted(*contents):
    """The scores of the first of some submissions, and its paired difference to the second in what was stored."""
    storage = MemoryStorage()
    receipts = [submit(storage, [content], {}) for content in contents]
    catalogue, files = Catalogue(storage), [each.predictions[0]["sha256"] for each in receipts]
    result = receipts[0].results[0]
    column = BoardColumn(result.benchmark["name"], result.benchmark["task"], result.metric, result.main_score)
    return [each.scores for each in receipts[0].results], catalogue.paired.difference(*files, column)


def test_intervals_and_tests_do_not_depend_on_the_submitters_keys_of_images(toy):
    honest, other = of_model(toy, 1, "groups"), of_model(toy, 2, "groups")
    expected = submitted(honest, other)
    for key in (lambda n, side: "0" * 32, lambda n, side: f"{n:031x}{side}", lambda n, side: f"file:{n % 2}.jpg"):

        def rekey(rows, key=key):
            for n, row in enumerate(rows):
                row["images"] = [key(n, side) for side, _ in enumerate(row["images"])]

        assert submitted(changed(honest, rows=rekey), other) == expected


def test_submissions_that_meet_are_all_stored_and_the_limit_holds(toy, storage, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_RATE_LIMIT", "8")

    def one(number):
        try:
            return submit(storage, [of_model(toy, number)], MODEL, f"user{number}", now=at(0)).id
        except RateLimitError:
            return None

    with ThreadPoolExecutor(10) as pool:
        ids = [id for id in pool.map(one, range(10)) if id]
    assert len(set(ids)) == 8
    assert {(each.id, each.status) for each in submissions(storage)} == {(id, "accepted") for id in ids}


def test_the_same_submission_from_another_process_meanwhile_is_taken_for_this_one(toy):
    class Other(MemoryStorage):
        def add(self, files, message):
            record = next((path for path in files if path.endswith("submission.json")), None)
            if record and record not in self.files:
                theirs = json.loads(files[record]) | {"time": "2026-01-02T11:59:59.000000+00:00"}
                theirs["sha256"] = json_hash(theirs)
                super().add(files | {record: json.dumps(theirs).encode()}, message)
            super().add(files, message)

    receipt = submit(Other(), [toy.predictions("vqa", "shuffled")], MODEL, now=at(0))
    assert (receipt.time, receipt.status) == ("2026-01-02T11:59:59.000000+00:00", "accepted")


def test_the_latest_review_counts(toy, storage):
    receipt = submit(storage, [toy.predictions("groups", "constant")], MODEL, "someone", now=at(0))
    assert receipt.status == "flagged"
    assert review(storage, receipt.id, "accepted", "a baseline", "maintainer", now=at(2)).status == "accepted"
    # The clock was set back; the order of the reviews counts.
    assert review(storage, receipt.id, "flagged", "a copy", "maintainer", now=at(1)).status == "flagged"
    withdrawn = withdraw(storage, receipt.id, "someone", "a mistake", now=at(0))
    assert (withdrawn.status, withdrawn.reason) == ("withdrawn", "a mistake")
    # Sent again it waits, since a maintainer has reviewed it.
    assert submit(storage, [toy.predictions("groups", "constant")], MODEL, "someone", now=at(4)).status == "flagged"
    assert finish(storage) == []


def test_reviews_that_say_nothing_or_of_nothing_are_refused(toy, storage):
    id = submit(storage, [toy.predictions("vqa", "shuffled")], MODEL, "someone", now=at(0)).id
    files = dict(storage.files)
    for arguments, error, message in (
        (("0" * 16, "accepted", "", "m"), SubmissionError, "there is no submission '0000000000000000'"),
        (("../" + id, "accepted", "", "m"), SubmissionError, "there is no submission"),
        ((id, "pending", "", "m"), UnknownNameError, "unknown status of a review 'pending'; known: accepted, flagged"),
        ((id, "accepted", "a\nb", "m"), PredictionsError, "the reason is"),
        ((id, "accepted", "", " "), SubmissionError, "a review needs the name of the reviewer"),
    ):
        with pytest.raises(error, match=message):
            review(storage, *arguments)
    for user, message in (("", "the key is not that of the submission"), ("another", "is not one of 'another'")):
        with pytest.raises(SubmissionError, match=message):
            withdraw(storage, id, user)
    assert storage.files == files


ODD_FIELDS = (
    *({"time": "yesterday"}, {"time": 5}, {"user": None}, {"flags": [1]}, {"model": {}}, {"version": 9}),
    *({"predictions": []}, {"predictions": [{}]}),
)


def test_a_damaged_record_is_told_of_and_harms_no_other(toy, storage):
    receipt = submit(storage, [toy.predictions("vqa", "shuffled")], MODEL, "someone", now=at(0))
    record = json.loads(storage.files[f"requests/{receipt.id}/submission.json"]) | {"id": "0" * 16}
    del record["sha256"]
    odd = [record | change for change in ODD_FIELDS]
    odd = [json.dumps(each | {"sha256": json_hash(each)}).encode() for each in odd]
    for content in (b"", b"[]", b"[" * 100_000, b"{}", *odd):
        other = MemoryStorage()
        other.files = storage.files | {
            "requests/0000000000000000/submission.json": content,
            f"requests/{receipt.id}/reviews/20260102T120000.000000Z-00000000.json": content,
        }
        damaged, ours = submissions(other)
        assert (damaged.id, damaged.status) == ("0000000000000000", "damaged")
        assert "requests/0000000000000000/submission.json cannot be read" in damaged.problems[0]
        assert (ours.id, ours.status) == (receipt.id, "flagged")  # a review may have withdrawn it
        assert len(ours.problems) == len(finish(other)) - 1 == 1
    assert submit(other, [of_model(toy, 1)], MODEL, "someone", now=at(1)).status == "accepted"
    other = MemoryStorage()
    other.files = storage.files | {f"requests/{receipt.id}/submission.json": b"{}"}
    with pytest.raises(SubmissionError, match=r"damaged: requests/.*tell a maintainer"):
        submit(other, [toy.predictions("vqa", "shuffled")], MODEL, "someone", now=at(2))


def test_records_reviews_results_and_predictions_that_were_edited_are_told_of(toy):
    storage = MemoryStorage()
    receipt = submit(storage, [toy.predictions("vqa", "shuffled")], MODEL, "someone", now=at(0))
    review(storage, receipt.id, "withdrawn", "a copy", "maintainer", now=at(1))
    [review_path] = storage.paths(f"requests/{receipt.id}/reviews/")
    record, results = f"requests/{receipt.id}/submission.json", results_path(receipt)

    def edited(path, before, after):
        other = MemoryStorage()
        other.files = storage.files | {path: storage.files[path].replace(before, after)}
        assert other.files != storage.files
        return other

    [found] = submissions(edited(record, b"someone", b"another"))
    assert (found.status, "changed since it was written" in found.problems[0]) == ("damaged", True)
    [found] = submissions(edited(review_path, b"withdrawn", b"accepted"))
    assert (found.status, "changed since it was written" in found.problems[0]) == ("flagged", True)
    with pytest.raises(PredictionsError, match="was changed since it was written"):
        results_of(edited(results, b'"n": 80', b'"n": 81'), receipt)


def test_damaged_predictions_are_reported(toy, monkeypatch):
    storage = Failing(StorageError("full"))
    submit(storage, [toy.predictions("vqa", "shuffled")], MODEL, now=at(0))
    storage.error = None
    [path] = storage.paths("requests/")[:1]
    storage.files[path] = storage.files[path][:-5]
    [problem] = finish(storage)
    assert "is damaged: its content has another hash" in problem
    del storage.files[path]
    assert "there is no requests/" in finish(storage)[0]
