"""Models behind servers: scored like any other, paid once, and right whatever the server does."""

from __future__ import annotations

import itertools
import json
import time

import numpy as np
import pytest
from console import invoke
from vision_model_stand_in import QUICK_FAULTS, TinyVisionModel, VisionModelStandIn, oracle, start_run, yes_or_no

from vl_assay.hub_datasets.core.repository import cache_folder
from vl_assay.metrics.common.errors import ModelError, UnknownNameError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import LoadOptions, check, load_model, plan, predict, run
from vl_assay.model_wrappers.serving.answers import UNLISTED

ITM = "toy_scenes/itm"
KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch, toy):
    monkeypatch.setattr("vl_assay.hub_datasets.chat.calls.FIRST_WAIT", 0.01)


def ask(server, out, benchmark=ITM, limit=6, **settings):
    """The predictions of a server's model on the first examples of a benchmark."""
    settings = {"base_url": server.url, **settings}
    [file] = predict("endpoint:tiny", benchmark, out=out, limit=limit, settings=settings, progress=False)
    return read_predictions(file)


def scores_of(predictions):
    return np.array([np.ravel(row.scores if hasattr(row, "scores") else row.score) for row in predictions.rows])


@pytest.mark.parametrize(
    ("score", "benchmark"), [("auto", "toy_scenes/vqa"), ("answers", ITM), ("choice", "toy_scenes/groups")]
)
def test_a_model_that_sees_everything_is_always_right(benchmark, score, tmp_path):
    with VisionModelStandIn(oracle) as server:
        settings = {"base_url": server.url, "score": score}
        report = run("endpoint:tiny", benchmark, out=tmp_path, limit=6, settings=settings, progress=False)
        assert len(server.asked) == server.asked.total() == len(server.requests)
    [file] = tmp_path.glob("*.parquet")
    recorded = read_predictions(file).metadata["model"]["settings"]
    assert load_model("endpoint:tiny", LoadOptions(settings=recorded)).info.settings == recorded
    assert {result.scores.get("accuracy", result.scores.get("group_score")) for result in report} == {1.0}


def test_a_served_model_can_be_checked_first():
    with VisionModelStandIn(oracle) as server:
        found = check("endpoint:tiny", LoadOptions(settings={"base_url": server.url}))
        assert server.asked.total() == len(server.asked), "what was asked in one way is not asked again"
    assert found.is_passed, found.findings
    assert {finding.name for finding in found.findings} >= {"scores", "answers", "batches"}


def test_log_odds_of_the_listed_tokens_are_the_scores_and_the_metadata_say_how(tmp_path):
    # p = 0.9 and 0.2 of what "yes" and "no" have together, 0.98: p / (1 - p).
    high, low = (np.log(0.98 * p / (1 - 0.98 * p)) for p in (0.9, 0.2))
    with VisionModelStandIn(oracle) as server:
        found = ask(server, tmp_path)
    np.testing.assert_allclose(scores_of(found), [[high, low]] * 6, atol=1e-9)
    model, facts = found.metadata["model"], found.metadata["run"]
    assert model["settings"] | {"template": ""} == {
        **{"base_url": server.url, "score": "logprobs", "top_logprobs": "20", "template": ""}
    }
    assert (model["name"], model["revision"], model["dtype"]) == ("endpoint:tiny", "tiny fp_1, me/tiny", "unknown")
    assert model["preprocessing"]["server"] == {"root": "me/tiny"}
    assert facts["served"] == {"tiny fp_1": facts["requests"]}
    assert (facts["bounded_answers"], facts["refused_requests"], facts["device"]) == (0, 0, "remote")


def test_a_yes_that_is_not_listed_is_counted_and_ties_at_the_bottom(tmp_path):
    with VisionModelStandIn(lambda image, prompt: [("No", -0.1), ("Perhaps", -3.0)]) as server:
        matched = ask(server, tmp_path)
        answered = ask(server, tmp_path, "toy_scenes/vqa")
    assert (scores_of(matched) == UNLISTED).all()
    assert matched.metadata["run"]["bounded_answers"] == matched.metadata["run"]["requests"]
    # Yes has at most what "Perhaps" has, and at most what the two leave.
    bound = min(np.exp(-3.0), 1 - np.exp(-0.1) - np.exp(-3.0))
    np.testing.assert_allclose(scores_of(answered), np.log(bound) - -0.1, atol=1e-9)


def test_without_log_probabilities_answers_count_and_their_ties_are_wrong(tmp_path):
    with VisionModelStandIn(lambda image, prompt: [("Yes, I think so.", 0.0)], most=0) as server:
        found = ask(server, tmp_path)
        assert all(request["max_tokens"] == 16 for request in server.requests[1:])
        after = plan("endpoint:tiny", ITM, limit=6, settings={"base_url": server.url})
        assert after.answered == after.requests == len(server.requests) - 1
        with pytest.raises(ModelError, match=r"gives no log-probabilities; choose -s score=answers or score=choice"):
            ask(server, tmp_path / "other", score="logprobs")
    assert (scores_of(found) == 1).all()
    assert found.metadata["model"]["settings"]["score"] == "answers"
    with VisionModelStandIn(lambda image, prompt: [("I cannot tell", 0.0)], most=0) as server:
        assert (scores_of(ask(server, tmp_path / "mute")) == 0).all()
        asked = ask(server, tmp_path / "mute", "toy_scenes/vqa")
    assert (scores_of(asked) == 0).all()
    assert asked.metadata["run"]["no_answer"] == asked.metadata["run"]["requests"] == 6


def test_a_choice_is_asked_in_both_orders_and_one_that_is_none_is_a_tie(tmp_path):
    with VisionModelStandIn(lambda image, prompt: [("A", 0.0)]) as server:
        found = ask(server, tmp_path, score="choice")
        prompts = [request["messages"] for request in server.requests[1:]]
    assert (scores_of(found) == 0.5).all()
    lines = {tuple(prompt.splitlines()[1:3]) for prompt in prompts}
    swapped = {(f"A. {second[3:]}", f"B. {first[3:]}") for first, second in lines}
    assert lines == swapped
    with VisionModelStandIn(lambda image, prompt: [("None of them", 0.0)]) as server:
        found = ask(server, tmp_path / "none", score="choice")
    assert load_model("endpoint:tiny", LoadOptions(settings=found.metadata["model"]["settings"])).task_types == (
        "matching",
        "vqa",
    )
    assert (scores_of(found) == 0).all()
    assert found.metadata["run"]["no_answer"] == found.metadata["run"]["requests"] == 12


def test_a_server_that_lists_fewer_tokens_is_asked_for_fewer(tmp_path):
    with VisionModelStandIn(oracle, most=5) as server:
        found = ask(server, tmp_path)
        assert {request["top_logprobs"] for request in server.requests[1:]} == {5}
    assert found.metadata["model"]["settings"]["top_logprobs"] == "5"


def test_whatever_a_server_does_wrong_each_question_is_answered_once_and_rightly(tmp_path):
    faults = itertools.cycle(QUICK_FAULTS)

    def fault(number, times):
        return next(faults) if times < 2 else None  # the first two answers to each question

    with VisionModelStandIn(oracle) as good, VisionModelStandIn(oracle, fault=fault) as bad:
        expected, found = ask(good, tmp_path / "good", limit=12), ask(bad, tmp_path / "bad", limit=12)
        assert set(bad.faults) >= set(QUICK_FAULTS)
        assert set(bad.answered.values()) - {0} == {1}
        assert bad.answered.total() == good.answered.total()
        asked = len(bad.requests)
        again = ask(bad, tmp_path / "again", limit=12)
        assert len(bad.requests) == asked
    assert (scores_of(found) == scores_of(expected)).all()
    assert (scores_of(again) == scores_of(expected)).all()
    assert again.metadata["run"]["sent_requests"] == 0


def test_an_answer_that_does_not_come_within_the_timeout_is_asked_for_again(tmp_path):
    with VisionModelStandIn(oracle, fault=lambda number, times: "late" if number == 1 else None) as server:
        found = ask(server, tmp_path, limit=1, timeout="1")
        assert len(server.requests) > len(server.asked)
    assert (np.diff(scores_of(found)) < 0).all()


def test_a_refused_request_is_no_yes_and_is_counted(tmp_path):
    with VisionModelStandIn(oracle, fault=lambda number, times: "refused" if number == 3 else None) as server:
        found = ask(server, tmp_path)
    assert found.metadata["run"]["refused_requests"] == 1
    assert (scores_of(found) == UNLISTED).sum() >= 1
    refusing = VisionModelStandIn(oracle, fault=lambda number, times: "refused")
    with refusing as server, pytest.raises(ModelError, match=r"refuses a question about an image: .*the filter"):
        ask(server, tmp_path / "none")


def test_a_server_that_fails_for_good_ends_the_run_and_a_later_one_continues(tmp_path):
    def fault(number, times):
        return "5xx" if number > 5 else None

    with VisionModelStandIn(oracle, fault=fault) as server:
        with pytest.raises(ModelError, match=r"503|no answer"):
            ask(server, tmp_path)
        server.fault = None
        found = ask(server, tmp_path)
        assert set(server.answered.values()) == {1}
    assert found.metadata["run"]["sent_requests"] < found.metadata["run"]["requests"]


def test_a_plan_tells_requests_and_tokens_and_sends_no_question(tmp_path):
    with VisionModelStandIn(oracle) as server:
        settings = {"base_url": server.url}
        planned = plan("endpoint:tiny", ITM, limit=6, settings=settings)
        assert server.requests == []
        assert (planned.answered, planned.completion_tokens) == (0, planned.requests)
        words = ["--limit", 6, "--plan", f"--setting=base_url={server.url}"]
        output = invoke("run", "endpoint:tiny", ITM, *words, folder=tmp_path).output
        assert output == f"endpoint:tiny: {planned}. Nothing was computed or sent.\n"
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(ModelError, match=rf"may be sent 2 requests \(max_requests\), and .* more: {planned}"):
            ask(server, tmp_path, max_requests="2")
        assert server.requests == []
        ask(server, tmp_path)
        assert len(server.requests) == planned.requests + 1  # and the grey image
        after = plan("endpoint:tiny", ITM, limit=6, settings=settings)
    assert (after.answered, after.prompt_tokens) == (planned.requests, 0)


def test_retries_count_to_the_limit_of_requests(tmp_path):
    with VisionModelStandIn(oracle, fault=lambda number, times: "5xx" if times < 1 else None) as server:
        most = plan("endpoint:tiny", ITM, limit=6, settings={"base_url": server.url}).requests + 3
        with pytest.raises(ModelError, match="requests were sent to tiny, retries included, which is the limit"):
            ask(server, tmp_path, max_requests=str(most))
        assert len(server.requests) == most


def test_the_key_goes_to_the_server_alone(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("MY_KEY", KEY)
    with VisionModelStandIn(oracle, token=KEY) as server:
        ask(server, tmp_path, limit=4, key_variable="MY_KEY")
        with pytest.raises(ModelError, match=r"401.*-s key_variable"):
            ask(server, tmp_path / "without")
    journals = [*(cache_folder() / "answers").glob("*.jsonl")]
    written = [path for path in (*tmp_path.rglob("*"), *journals) if path.is_file()]
    assert len(written) > 1
    assert all(KEY.encode() not in path.read_bytes() for path in written)
    printed = capfd.readouterr()
    assert KEY not in printed.out + printed.err


def test_a_provider_of_the_hub_is_reached_by_its_router(monkeypatch):
    asked = []

    def get(self, path):
        asked.append((self.base_url, self.name, self._key))

    monkeypatch.setattr("vl_assay.hub_datasets.chat.client.Endpoint.get", get)
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    for name in ("hf/together/Qwen/Qwen2.5-VL-7B-Instruct", "hf/auto/Qwen/Qwen2.5-VL-7B-Instruct"):
        load_model(f"endpoint:{name}").plan([])
    router = "https://router.huggingface.co/v1"
    model = "Qwen/Qwen2.5-VL-7B-Instruct"
    assert list(dict.fromkeys(asked)) == [(router, f"{model}:together", "hf_mine"), (router, model, "hf_mine")]
    with pytest.raises(ModelError, match="expected endpoint:hf/PROVIDER/OWNER/NAME"):
        load_model("endpoint:hf/together/Qwen")


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({}, ModelError, "needs the server's address"),
        ({"base_url": "http://me:secret@host/v1"}, ModelError, "without user or key; got 'host'"),
        ({"base_url": "http://host/v1?key=1"}, ModelError, "without user or key"),
        ({"base_url": "http://host", "top_logprobs": ""}, ModelError, "top_logprobs of endpoint is a number above 0"),
        ({"base_url": "http://host", "template": "Is it so?"}, ModelError, "has {} once"),
        ({"base_url": "http://host", "score": "cosine"}, UnknownNameError, "known: auto, logprobs, answers, choice"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, error, message):
    with pytest.raises(error, match=message) as caught:
        load_model("endpoint:tiny", LoadOptions(settings=settings))
    assert "secret" not in str(caught.value)


def test_dtype_and_revision_are_the_servers_and_a_server_that_is_gone_is_named(tmp_path):
    for options in ({"dtype": "bfloat16"}, {"revision": "main"}):
        with pytest.raises(ModelError, match="the server chooses revision and dtype"):
            load_model("endpoint:tiny", LoadOptions(settings={"base_url": "http://127.0.0.1:9"}, **options))
    with VisionModelStandIn(oracle) as server:
        pass
    with pytest.raises(ModelError, match=rf"cannot reach a server at {server.url}"):
        ask(server, tmp_path)


def test_another_model_under_the_same_name_is_asked_anew(tmp_path):
    with VisionModelStandIn(oracle) as server:
        ask(server, tmp_path / "first")
        server.pages["/v1/models"]["data"][0]["root"] = "me/other"
        before = len(server.requests)
        found = ask(server, tmp_path / "second")
        assert len(server.requests) == 2 * before
    assert found.metadata["model"]["revision"] == "tiny fp_1, me/other"


def test_a_tiny_real_model_scores_the_same_behind_a_server(folders, tmp_path):
    tiny = TinyVisionModel(folders["llava"])
    template = 'Does this figure show "{}"? Please answer yes or no.'
    with VisionModelStandIn(tiny, most=10**6) as server:
        for task in (ITM, "toy_scenes/vqa"):
            served = ask(server, tmp_path, task, 3, template=template, top_logprobs=str(len(tiny.tokens)))
            [local] = predict(f"vqascore:{folders['llava']}", task, out=tmp_path / "here", limit=3, progress=False)
            ours, theirs = scores_of(served), scores_of(read_predictions(local))
            np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=0)
            assert np.ptp(ours) > 0.01


@pytest.mark.slow
def test_a_killed_run_asks_again_only_what_was_under_way(tmp_path):
    """Three kills of 300 questions, of which a tenth is answered wrongly at first."""
    questions, kills, concurrency = 300, 3, 8
    rng = np.random.default_rng(0)
    faulty = {number: QUICK_FAULTS[number % len(QUICK_FAULTS)] for number in range(10**4) if rng.random() < 0.1}
    places = tmp_path / "out", tmp_path / "cache"
    settings = {"concurrency": concurrency, "limit": questions, "timeout": 2}
    answering = VisionModelStandIn(
        lambda image, prompt: yes_or_no(0.7), latency=0.02, slots=8, fault=lambda number, times: faulty.get(number)
    )
    with answering as server:
        for kill in range(kills):
            process = start_run(server, *places, **settings)
            while server.answered.total() < (kill + 1) * questions // (kills + 2):
                assert process.poll() is None, "the run ended before it could be killed"
                time.sleep(0.005)
            process.kill()
            process.wait()
        assert start_run(server, *places, **settings).wait() == 0
        answered, twice = len(server.answered), server.answered.total() - len(server.answered)
    [journal] = (tmp_path / "cache" / "answers").glob("*.jsonl")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    kept = [line["key"] for line in lines if "answer" in line]
    assert len(kept) == len(set(kept)) == answered == questions + 1
    assert twice <= kills * concurrency
    [file] = (tmp_path / "out").glob("*.parquet")
    assert all(row.score is not None for row in read_predictions(file).rows)
