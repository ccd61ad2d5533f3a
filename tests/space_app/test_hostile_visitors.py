"""Visitors who send too much, too slowly, others' names or what was withdrawn, beside those who mean well."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import gradio as gr
import httpx
import pytest
import uvicorn
from gradio_client import Client, handle_file
from login_support import TYPED, call, cookie, on_a_space
from space_support import VQA, served
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from submission_support import changed, model_predictions, of_model

from vl_assay.metrics.common.errors import PredictionsError, SubmissionError
from vl_assay.space_app.board.views import OVERVIEW
from vl_assay.space_app.storage import open_storage
from vl_assay.space_app.storage.records import submissions
from vl_assay.space_app.submissions.submissions import review
from vl_assay.space_app.submissions.traffic import UploadLimit
from vl_assay.space_app.submissions.uploads import check_files

pytestmark = pytest.mark.usefixtures("one_reading_of_certificates")
BEGIN = b"POST /gradio_api/upload HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\n"


@pytest.fixture
def space(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_RATE_LIMIT", "100")
    folder = tmp_path / "storage"
    with on_a_space(folder), served(folder) as space:
        yield space


@contextmanager
def memory_below(megabytes):
    """Check that this process has not taken more than so many megabytes more at any time."""
    clear, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not clear.exists():
        pytest.skip("the most memory of a process is not told here")

    def most():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))

    clear.write_text("5")
    before = most()
    yield
    assert most() - before < 1024 * megabytes


def as_user(space, name):
    return Client(space.address, verbose=False, headers={"cookie": cookie(name)})


def submit_files(space, name, files):
    return as_user(space, name).predict(files, *TYPED, api_name="/submit")


def slow_upload(address):
    """A connection that has begun to upload and sends nothing more."""
    connection = socket.create_connection((address.hostname, address.port), timeout=30)
    connection.sendall(BEGIN + b"Content-Length: 900\r\n\r\n--b\r\n")
    return connection


@pytest.mark.slow
def test_fifty_submitters_at_once_are_served_in_a_minute_with_hostile_ones_among_them(space, toy, tmp_path):
    withdrawn = call(space, model_predictions(toy, tmp_path, 100), {"cookie": cookie("mallory")})["id"]
    review(space.storage, withdrawn, "withdrawn", "made from the labels", "maintainer")
    paths = [model_predictions(toy, tmp_path, number) for number in range(45)]
    huge = tmp_path / "huge.parquet"
    with huge.open("wb") as file:
        file.truncate(70 << 20)
    again = tmp_path / "again.parquet"
    again.write_bytes(changed(of_model(toy, 100), rows=lambda rows: rows[3].update(score=0.5)))
    squatting = tmp_path / "squatting.parquet"
    call(space, paths[0], {"cookie": cookie("user0")})
    squatting.write_bytes(changed(of_model(toy, 101), metadata=lambda m: m["model"].update(name="Model-O")))

    def honest(number):
        return call(space, paths[number], {"cookie": cookie(f"user{number}")})

    def hostile(kind):
        user = kind
        if kind == "huge":
            with pytest.raises(Exception, match=r"."):
                submit_files(space, user, [handle_file(huge)])
            return "refused"
        if kind == "duplicate":
            uploaded = httpx.post(
                f"{space.address}/gradio_api/upload",
                files={"files": ("a.parquet", paths[1].read_bytes())},
                headers={"cookie": cookie(user)},
            ).json()[0]
            data = {"path": uploaded, "meta": {"_type": "gradio.FileData"}}
            return submit_files(space, user, [data] * 25)["error"]
        if kind == "withdrawn":
            return submit_files(space, "mallory", [handle_file(again)])["status"]
        return submit_files(space, user, [handle_file(squatting)])["error"]

    start = time.monotonic()
    with ExitStack() as stack, ThreadPoolExecutor(50) as pool, memory_below(1000):
        for _ in range(20):
            stack.enter_context(slow_upload(urlsplit(space.address)))
        attacks = [pool.submit(hostile, kind) for kind in ("huge", "duplicate", "withdrawn", "squatting")]
        receipts = list(pool.map(honest, range(45)))
        seconds = time.monotonic() - start
        answers = [attack.result() for attack in attacks]
    assert seconds <= 60
    stored = {each.id: each for each in submissions(space.storage)}
    for number, (path, receipt) in enumerate(zip(paths, receipts, strict=True)):
        assert receipt["status"] == stored[receipt["id"]].status == "accepted"
        assert (stored[receipt["id"]].user, stored[receipt["id"]].model["name"]) == (f"user{number}", f"model {number}")
        assert receipt["predictions"][0]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(stored) == 47
    assert answers[:1] == ["refused"]
    assert "names one uploaded file several times" in answers[1]
    assert answers[2] == "flagged"
    assert "which user0 has submitted first" in answers[3]


def test_a_thousand_slow_uploads_do_not_keep_others_from_the_page(space):
    with ExitStack() as stack:
        for _ in range(1100):
            stack.enter_context(slow_upload(urlsplit(space.address)))
        assert httpx.get(space.address, timeout=10).status_code == 200


def withdrawn_elsewhere(space, toy, folder):
    """A model that was shown until a maintainer withdrew it with the command, in another process."""
    receipt = call(space, model_predictions(toy, folder, 1), {"cookie": cookie("ada")})
    assert space.catalogue.board.entry(VQA, "model 1", "recomputed")
    review(open_storage(space.folder), receipt["id"], "withdrawn", "a copy", "maintainer")


def handlers(space, event):
    """The functions that run when a page is opened ("load") or every minute ("tick")."""
    return [each.fn for each in space.blocks.fns.values() if any(name == event for _, name in each.targets)]


def test_a_model_that_is_withdrawn_elsewhere_goes_from_the_page_when_it_is_opened(space, toy, tmp_path):
    withdrawn_elsewhere(space, toy, tmp_path)
    opening = next(handler for handler in handlers(space, "load") if getattr(handler, "__name__", "") == "open")
    *_, table, _ = opening(SimpleNamespace(query_params="view=Toy+Scenes"))
    assert "demo-clip" in table
    assert space.catalogue.board.entry(VQA, "model 1", "recomputed") is None


def test_an_open_page_is_told_of_reviews_and_is_left_alone_without_any(space, toy, tmp_path):
    withdrawn_elsewhere(space, toy, tmp_path)
    [tick], seen = handlers(space, "tick"), space.catalogue.version
    choices = (OVERVIEW, [VQA.heading], "", *[None] * 4, False, False, "")
    told = tick(seen, *choices)
    assert told[0] == space.catalogue.version > seen
    assert "demo-clip" not in told[-2]  # it has no answers
    assert "model 1" not in told[-2]
    assert all(update == gr.skip() for update in tick(told[0], *choices))


@pytest.fixture(scope="module")
def small_server():
    """A server that reads uploads, with small limits; the address of its uploads."""

    async def upload(request):
        return PlainTextResponse(str(len(await request.body())))

    limits = Middleware(UploadLimit, size=1000, body=500, at_once=2, wait=0.3, patience=1.0, rate=100.0)
    config = uvicorn.Config(
        Starlette(routes=[Route("/{path:path}", upload, methods=["GET", "POST", "PUT"])], middleware=[limits]),
        port=0,
        log_level="error",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()
    yield f"http://{host}:{port}/gradio_api/upload"
    server.should_exit = True
    thread.join()


def test_uploads_are_limited_in_size_in_time_and_in_number(small_server):
    assert httpx.post(small_server, content=b"x" * 1000).text == "1000"
    large = httpx.post(small_server, content=b"x" * 1001)
    assert (large.status_code, "send fewer" in large.text) == (413, True)
    for method, path in (
        ("POST", "run/predict"),
        ("POST", "call/upload"),
        ("PUT", "x"),
        ("GET", "queue/data"),
        ("POST", ""),
    ):
        address = small_server.replace("upload", path)
        assert httpx.request(method, address, content=b"x" * 500).text == "500"
        for content in (b"x" * 501, iter([b"x"] * 501)):  # in one piece, and without a length
            assert httpx.request(method, address, content=content).status_code == 413

    address, start = urlsplit(small_server), time.monotonic()
    with ExitStack() as stack:
        slow = [stack.enter_context(slow_upload(address)) for _ in range(2)]
        time.sleep(0.1)
        third = httpx.post(small_server, content=b"x")
        answers = [connection.recv(100) for connection in slow]
    assert (third.status_code, third.headers["retry-after"]) == (503, "60")
    assert [answer.split()[1] for answer in answers] == [b"408", b"408"]
    assert time.monotonic() - start < 4
    assert httpx.post(small_server, content=b"x").text == "1"


@pytest.mark.parametrize(
    "path", ["run/predict", "queue/join", "call/submit", "run/upload", "call/v2/submit", "api/predict"]
)
def test_a_large_body_takes_no_memory_whatever_page_it_is_for(path, shared_space):
    body = b'{"data": [' + b"{}," * (6 << 20) + b"{}]}"
    with memory_below(60):
        answer = httpx.post(
            f"{shared_space.address}/gradio_api/{path}",
            content=body,
            headers={"content-type": "application/json"},
            timeout=60,
        )
    assert answer.status_code == 413


def test_files_are_refused_before_they_are_read(tmp_path):
    paths = [tmp_path / f"{number}.parquet" for number in range(51)]
    for path in paths:
        with path.open("wb") as file:
            file.truncate(50 << 20)
    large = tmp_path / "large.parquet"
    with large.open("wb") as file:
        file.truncate(65 << 20)
    with memory_below(20):
        for files, error, message in (
            (paths, SubmissionError, "got 51 predictions files; a submission has 1 to 50"),
            (paths[:3], SubmissionError, r"150\.0 MB together; those of a submission may have 128 MB"),
            ([paths[0], paths[0].parent / "." / paths[0].name], SubmissionError, "one uploaded file several times"),
            ([large], PredictionsError, r"large\.parquet has 65\.0 MB; a predictions file may have 64 MB"),
        ):
            with pytest.raises(error, match=message):
                check_files(files)
    check_files(paths[:2])
