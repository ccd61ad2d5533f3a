"""The models that `generate` asks: an endpoint, its key, its errors and its limits."""

import gzip
import json
import re
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest
from language_model_stand_in import LanguageModelStandIn, Reply

from vl_assay.hub_datasets.authoring.data.sources import Captioned
from vl_assay.hub_datasets.authoring.generate.asking import open_model
from vl_assay.hub_datasets.authoring.generate.generate import generate
from vl_assay.hub_datasets.chat.client import Completion, Endpoint, Refused, Unanswered
from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers.serving.answers import read_answer
from vl_assay.model_wrappers.serving.server import describe

ASKED = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "a cat"}]
KEY = "sk-very-secret-0123456789"


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


@pytest.mark.parametrize("ending", ["", "/v1/", "/v1/chat/completions"])
def test_the_address_may_be_written_in_any_usual_way(ending):
    with LanguageModelStandIn(lambda request, times: "hello") as server:
        model = Endpoint("stand-in", server.url.removesuffix("/v1") + ending)
        assert model.complete(ASKED, 1.5, 5, seed=3).text == "hello"
        assert '"seed": 3, "temperature": 1.5' in server.requests[0]


@pytest.mark.parametrize(
    ("reply", "error", "wait"),
    [
        (Reply(status=429, headers={"Retry-After": "7"}), Unanswered, 7),
        (Reply(status=503, headers={"Retry-After": "soon"}), Unanswered, 0),
        (Reply(status=400), Refused, None),
        (Reply(status=404), ModelError, None),
        (Reply(delay=1), Unanswered, 0),
        (Reply(body=b'{"choices": [{"message": {"content": 3}}]}'), Unanswered, 0),
    ],
    ids=str,
)
def test_what_goes_wrong_is_told_apart(reply, error, wait):
    with LanguageModelStandIn(lambda request, times: reply) as server:
        model = Endpoint("stand-in", server.url, timeout=0.2 if reply.delay else 20)
        with pytest.raises(error) as caught:
            model.complete(ASKED, 0.0, 5)
    assert getattr(caught.value, "wait", None) == wait


@pytest.mark.parametrize("library", ["openai", "tenacity"])
def test_without_the_libraries_of_the_extra_the_message_names_it(library, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModelError, match=rf"needs {library}.*vl-assay\[endpoint\]"):
        generate([], open_model("m", "http://127.0.0.1:9"), tmp_path)


def send_forever(connection, first, part, pause=0.1):
    connection.sendall(first)
    while True:
        connection.sendall(part)
        time.sleep(pause)


BOMB = gzip.compress(b" " * (64 << 20))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ENDLESS = {
    "nothing": (b"", b"", "Request timed out"),
    "a byte of a header": (HEAD + b"X-A: ", b"b", "no whole answer within 2 seconds"),
    "going on": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", "no whole answer within 2 seconds"),
    "a byte": (HEAD + b"\r\n", b" ", "no whole answer within 2 seconds"),
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


def outcome_of(kind, call):
    """The error that a call to such a server ends with, or what it returns."""
    first, part, _ = ENDLESS[kind]

    def answer(connection):
        if kind.endswith("huge one"):
            connection.sendall(first)
        else:
            send_forever(connection, first, part, 0 if len(part) > 999 else 0.1)

    with serving(answer) as address:
        endpoint = Endpoint("m", address, timeout=0.5)
        try:
            return endpoint.complete(ASKED, 0, 10) if call == "complete" else endpoint.get("/models")
        except Unanswered as error:
            return str(error)


def test_an_answer_without_an_end_is_given_up():
    start, calls = time.monotonic(), ("complete", "get")
    with ThreadPoolExecutor(2 * len(ENDLESS)) as pool:
        outcomes = {(kind, call): pool.submit(outcome_of, kind, call) for kind in ENDLESS for call in calls}
    assert time.monotonic() - start < 20
    for (kind, call), outcome in outcomes.items():
        if (kind, call) == ("a small huge one", "get"):
            assert outcome.result() is None
        else:
            assert re.search(ENDLESS[kind][2], outcome.result()), (kind, call)


def test_a_large_answer_of_many_objects_takes_little_memory():
    """A megabyte of empty objects, which the client's own classes would make 400 MB of."""
    body = b'{"choices": [' + b"{}," * 340_000 + b"{}]}"
    with LanguageModelStandIn(lambda request, times: Reply(body=body)) as server:
        tracemalloc.start()
        with pytest.raises(Unanswered, match="not a chat completion"):
            Endpoint("m", server.url).complete(ASKED, 0, 10)
        assert tracemalloc.get_traced_memory()[1] < 60 << 20
        tracemalloc.stop()


@pytest.mark.parametrize("status", [302, 307])
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
