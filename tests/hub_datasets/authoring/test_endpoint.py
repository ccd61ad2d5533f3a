"""The models that `generate` asks: an endpoint and its key, and a checkpoint on this machine, also behind a server."""

import gzip
import json
import sys
import threading
import time
import tracemalloc
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest
from language_model_stand_in import LanguageModelStandIn, Reply
from tiny_models import bpe_words, ordinary_weights, save_parts

from vl_assay.hub_datasets.authoring.data.sources import Captioned
from vl_assay.hub_datasets.authoring.generate.checks import KINDS
from vl_assay.hub_datasets.authoring.generate.generate import generate
from vl_assay.hub_datasets.authoring.generate.language_models import LocalModel, open_model
from vl_assay.hub_datasets.chat.client import Completion, Endpoint, Refused, Unanswered
from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers.serving.answers import read_answer
from vl_assay.model_wrappers.serving.server import describe

ASKED = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "a cat"}]
KEY = "sk-very-secret-0123456789"
TEMPLATE = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}<assistant>"


@pytest.fixture(scope="module")
def tiny_llama(tmp_path_factory):
    """A causal language model of two layers with random weights, which reads 4,096 tokens."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = bpe_words(bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    tower = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=4096, **tower, **ends)
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny-llama"
    return save_parts(folder, ordinary_weights(LlamaForCausalLM(config)), tokenizer)


def test_the_key_comes_from_the_variable_and_is_shown_to_the_endpoint_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MY_KEY", KEY)
    with LanguageModelStandIn(lambda request, times: "{}", token=KEY) as server:
        model = open_model("stand-in", server.url, key_variable="MY_KEY")
        generate([Captioned("0", "", "a cat on a mat")], model, tmp_path, ["swap_obj"], progress=False)
        assert set(server.authorizations) == {f"Bearer {KEY}"}
    printed = capsys.readouterr()
    assert KEY not in printed.out + printed.err
    assert all(KEY not in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_without_a_key_no_login_of_the_user_is_sent(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_login")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-service")
    monkeypatch.delenv("VL_ASSAY_API_KEY", raising=False)
    with LanguageModelStandIn(lambda request, times: "hello") as server:
        assert open_model("stand-in", server.url).complete(ASKED, 0.0, 5) == Completion("hello", 100, 10)
        assert set(server.authorizations) == {"Bearer none"}


def test_a_wrong_key_ends_the_run_at_once_and_is_not_repeated(tmp_path):
    with LanguageModelStandIn(token="another") as server:
        model = Endpoint("stand-in", server.url, KEY)
        with pytest.raises(ModelError, match=r"401.*--key-variable") as caught:
            generate([Captioned(str(n), "", "a cat on a mat") for n in range(50)], model, tmp_path, progress=False)
        assert KEY not in str(caught.value)
        assert server.authorizations.total() <= 8


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_the_address_may_be_written_in_any_usual_way(ending):
    with LanguageModelStandIn(lambda request, times: "hello") as server:
        model = Endpoint("stand-in", server.url.removesuffix("/v1") + ending)
        assert model.complete(ASKED, 1.5, 5, seed=3).text == "hello"
        assert '"seed": 3, "temperature": 1.5' in server.requests[0]


@pytest.mark.parametrize(
    ("reply", "error", "wait"),
    [
        (Reply(status=500), Unanswered, 0),
        (Reply(status=429, headers={"Retry-After": "7"}), Unanswered, 7),
        (Reply(status=503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), Unanswered, 0),
        (Reply(status=503, headers={"Retry-After": "soon"}), Unanswered, 0),
        (Reply(status=400), Refused, None),
        (Reply(status=422), Refused, None),
        (Reply(status=404), ModelError, None),
        (Reply(dropped=True), Unanswered, 0),
        (Reply(delay=2), Unanswered, 0),
        (Reply(body=b"<html>"), Unanswered, 0),
        (Reply(body=b"[]"), Unanswered, 0),
        (Reply(body=b"{}"), Unanswered, 0),
        (Reply(body=b'{"choices": [{"message": {"content": 3}}]}'), Unanswered, 0),
        (Reply(body=b'{"choices": [{"message": 3}]}'), Unanswered, 0),
    ],
    ids=str,
)
def test_what_goes_wrong_is_told_apart(reply, error, wait):
    with LanguageModelStandIn(lambda request, times: reply) as server:
        model = Endpoint("stand-in", server.url, timeout=0.5 if reply.delay else 20)
        with pytest.raises(error) as caught:
            model.complete(ASKED, 0.0, 5)
    assert getattr(caught.value, "wait", None) == wait


def test_an_endpoint_that_is_not_running_is_retried():
    with LanguageModelStandIn() as server:
        url = server.url
    with pytest.raises(Unanswered, match="Connection error"):
        Endpoint("stand-in", url).complete(ASKED, 0.0, 5)


@pytest.mark.parametrize("library", ["openai", "tenacity"])
def test_without_the_libraries_of_the_extra_the_message_names_it(library, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModelError, match=rf"needs {library}.*vl-assay\[endpoint\]"):
        generate([], open_model("m", "http://127.0.0.1:9"), tmp_path)


def test_a_local_model_answers_the_same_to_the_same_seed_and_at_temperature_0(tiny_llama):
    model = open_model(f"local:{tiny_llama}", None)
    likeliest = model.complete(ASKED, 0.0, 12)
    assert likeliest == model.complete(ASKED, 0.0, 12, seed=5)
    assert likeliest.prompt_tokens > 10
    assert 0 < likeliest.completion_tokens <= 12
    sampled = [model.complete(ASKED, 1.5, 12, seed=seed).text for seed in (0, 1, 2, 0)]
    assert sampled[0] == sampled[3]
    assert len(set(sampled)) > 1


def test_a_local_model_is_asked_in_its_chat_template_and_known_by_its_files(tiny_llama, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    tokenizer.chat_template = TEMPLATE
    folder = save_parts(tmp_path / "chat", AutoModelForCausalLM.from_pretrained(tiny_llama), tokenizer)
    plain, chat = LocalModel(tiny_llama), LocalModel(folder)
    for model, prompt in (
        (chat, "<system>Answer.<user>a cat<assistant>"),
        (plain, "<s>system: Answer.\n\nuser: a cat\n\nassistant:"),
    ):
        expected = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
        assert model.complete(ASKED, 0.0, 5).prompt_tokens == expected
    (folder / "note.txt").write_text("another file")
    assert LocalModel(folder).name != chat.name
    assert LocalModel(tiny_llama).name == plain.name


def test_a_local_model_refuses_more_than_it_can_read_and_a_folder_without_one(tiny_llama, tmp_path):
    with pytest.raises(Refused, match="context of 4096"):
        LocalModel(tiny_llama).complete([{"role": "user", "content": "cat " * 5000}], 0.0, 5)
    with pytest.raises(ModelError, match=r"config\.json"):
        LocalModel(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ModelError, match="cannot be loaded"):
        LocalModel(tmp_path)


class Short(LocalModel):
    def complete(self, messages, temperature, max_tokens, seed=None):
        return super().complete(messages, temperature, 6, seed)


@pytest.mark.parametrize("served", [False, True])
def test_a_tiny_real_model_goes_through_all_of_it_by_itself_and_behind_a_server(tiny_llama, tmp_path, served):
    captions = [Captioned(str(n), "", caption) for n, caption in enumerate(["a red cat", "two big dogs near a box."])]
    local = Short(tiny_llama)
    with LanguageModelStandIn(model=local) as server:
        model = Endpoint("tiny", server.url) if served else local
        report = generate(captions, model, tmp_path, progress=False)
    # Random weights write no JSON: each of the 3 locating and 4 other first questions, which two kinds share, fails.
    assert report.candidates == []
    assert sum(own.total() for own in report.rejected.values()) == 2 * len(KINDS)
    assert report.usage is not None
    assert report.usage.calls == 2 * 7
    assert report.usage.prompt_tokens > 14 * 200
    assert 0 < report.usage.completion_tokens <= 14 * 6


def send_forever(connection, first, part, pause=0.1):
    connection.sendall(first)
    while True:
        connection.sendall(part)
        time.sleep(pause)


BOMB = gzip.compress(b" " * (64 << 20))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ENDLESS = {
    "nothing": (b"", b"", "Request timed out"),
    "a header a second": (HEAD, b"X-A: b\r\n", "no whole answer within 2 seconds"),
    "a byte of a header": (HEAD + b"X-A: ", b"b", "no whole answer within 2 seconds"),
    "early hints": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "no whole answer within 2 seconds"),
    "going on": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", "no whole answer within 2 seconds"),
    "a byte": (HEAD + b"\r\n", b" ", "no whole answer within 2 seconds"),
    "a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", "no whole answer within 2 seconds"),
    "trailers": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-A: b\r\n", "no whole answer within 2 seconds"),
    "megabytes": (HEAD + b"\r\n", b" " * (1 << 20), "more than 1,048,576 bytes"),
    "an error": (b"HTTP/1.1 500 No\r\n\r\n", b" " * (1 << 20), "more than 1,048,576 bytes"),
    "a small huge one": (HEAD + b"Content-Encoding: gzip\r\n\r\n" + BOMB, b"", "not a chat completion"),
}  # fmt: skip


@contextmanager
def serving(answer):
    """A server that passes each connection on to `answer` once it has sent something; its address."""

    class Handler(BaseRequestHandler):
        def handle(self):
            with suppress(OSError):
                self.request.recv(65536)
                answer(self.request)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("call", ["complete", "get"])
@pytest.mark.parametrize("kind", ENDLESS)
def test_an_answer_without_an_end_is_given_up(kind, call):
    first, part, message = ENDLESS[kind]

    def answer(connection):
        if kind.endswith("huge one"):
            connection.sendall(first)
        else:
            send_forever(connection, first, part, 0 if len(part) > 999 else 0.1)

    start = time.monotonic()
    with serving(answer) as address:
        endpoint = Endpoint("m", address, timeout=0.5)
        if call == "get" and kind.endswith("huge one"):
            assert endpoint.get("/models") is None
            return
        with pytest.raises(Unanswered, match=message):
            endpoint.complete(ASKED, 0, 10) if call == "complete" else endpoint.get("/models")
    assert time.monotonic() - start < 10


def test_a_large_answer_of_many_objects_takes_little_memory():
    """A megabyte of empty objects, which the client's own classes would make 400 MB of."""
    body = b'{"choices": [' + b"{}," * 340_000 + b"{}]}"
    with LanguageModelStandIn(lambda request, times: Reply(body=body)) as server:
        tracemalloc.start()
        with pytest.raises(Unanswered, match="not a chat completion"):
            Endpoint("m", server.url).complete(ASKED, 0, 10)
        assert tracemalloc.get_traced_memory()[1] < 60 << 20
        tracemalloc.stop()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_its_address_is_named(status):
    with LanguageModelStandIn(lambda request, times: "hello") as other:
        reply = Reply(status=status, headers={"Location": f"{other.url}/chat/completions"})
        with (
            LanguageModelStandIn(lambda *_: reply) as server,
            pytest.raises(ModelError, match=f"redirects to {other.url}"),
        ):
            Endpoint("m", server.url, KEY).complete(ASKED, 0, 10)
        assert other.requests == []


def test_what_a_server_says_of_itself_and_of_errors_commands_no_terminal():
    evil = "m\x1b]0;owned\x07\x1b[2J\u202e\nnext\x9b1m"
    with LanguageModelStandIn(
        lambda request, times: Reply(status=404, body=json.dumps({"error": evil}).encode())
    ) as server:
        server.pages = {"/v1/models": {"data": [{"id": "m", "root": evil}]}, "/version": {"version": evil}}
        endpoint = Endpoint("m", server.url)
        with pytest.raises(ModelError) as caught:
            endpoint.complete(ASKED, 0, 10)
        described = describe(endpoint, lambda call: call())
    answer = {"choices": [{"message": {"content": "Yes"}}], "model": evil, "system_fingerprint": evil}
    for text in (str(caught.value), *described.values(), read_answer(answer, needs_logprobs=False).served):
        assert text.isprintable()
        assert "owned" in text or text.startswith("the endpoint")
    assert len(described) == 2
