"""Visitors who send too much, too slowly, others' names or what was withdrawn, beside those who mean well."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import gradio as gr
import httpx
import pytest
import uvicorn
from login_support import call, cookie, on_a_space
from space_support import VQA, served
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from submission_support import model_predictions

from vl_assay.metrics.common.errors import PredictionsError, SubmissionError
from vl_assay.space_app.board.views import OVERVIEW
from vl_assay.space_app.storage import open_storage
from vl_assay.space_app.submissions.submissions import review
from vl_assay.space_app.submissions.traffic import UploadLimit
from vl_assay.space_app.submissions.uploads import check_files

pytestmark = pytest.mark.usefixtures("one_reading_of_certificates")
BEGIN = b"POST /gradio_api/upload HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\n"


@pytest.fixture(scope="module")
def space(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("storage")
    with on_a_space(folder, VL_ASSAY_RATE_LIMIT="100"), served(folder) as space:
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


def slow_upload(address):
    """A connection that has begun to upload and sends nothing more."""
    connection = socket.create_connection((address.hostname, address.port), timeout=30)
    connection.sendall(BEGIN + b"Content-Length: 900\r\n\r\n--b\r\n")
    return connection


@pytest.mark.slow
def test_a_thousand_slow_uploads_do_not_keep_others_from_the_page(space):
    with ExitStack() as stack:
        for _ in range(1100):
            stack.enter_context(slow_upload(urlsplit(space.address)))
        assert httpx.get(space.address, timeout=10).status_code == 200


def handler(space, event, name):
    """The function of a name that runs when a page is opened ("load") or every minute ("tick")."""
    functions = [each.fn for each in space.blocks.fns.values() if any(kind == event for _, kind in each.targets)]
    return next(function for function in functions if getattr(function, "__name__", "") == name)


@pytest.mark.parametrize(("event", "number"), [("load", 94), ("tick", 95)])
def test_what_is_withdrawn_elsewhere_goes_from_pages_that_open_and_from_open_ones(event, number, space, toy, tmp_path):
    receipt = call(space, model_predictions(toy, tmp_path, number), {"cookie": cookie("ada")})
    assert space.catalogue.board.entry(VQA, f"model {number}", "recomputed")
    seen = space.catalogue.version
    review(open_storage(space.folder), receipt["id"], "withdrawn", "a copy", "maintainer")
    if event == "load":
        *_, table, _ = handler(space, event, "open")(SimpleNamespace(query_params="view=Toy+Scenes"))
        assert "demo-clip" in table
    else:
        tick, choices = handler(space, event, "_tick"), (OVERVIEW, [VQA.heading], "", *[None] * 4, False, False, "")
        version, *_, table, _ = tick(seen, *choices)
        assert version == space.catalogue.version > seen
        assert all(update == gr.skip() for update in tick(version, *choices))
    assert f"model {number}" not in table
    assert space.catalogue.board.entry(VQA, f"model {number}", "recomputed") is None


@pytest.fixture(scope="module")
def small_server():
    """A server that reads uploads, with small limits; the address of its uploads."""

    async def upload(request):
        return PlainTextResponse(str(len(await request.body())))

    limits = Middleware(UploadLimit, size=1000, body=500, at_once=2, wait=0.3, patience=0.6, rate=100.0)
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
    for method, path in (("POST", "call/upload"), ("PUT", "x"), ("GET", "queue/data"), ("POST", "")):
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


@pytest.mark.parametrize("path", ["queue/join", "call/submit", "run/upload"])
def test_a_large_body_takes_no_memory_whatever_page_it_is_for(path, space):
    body = b'{"data": [' + b"{}," * (6 << 20) + b"{}]}"
    with memory_below(60):
        address, headers = f"{space.address}/gradio_api/{path}", {"content-type": "application/json"}
        answer = httpx.post(address, content=body, headers=headers, timeout=60)
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
