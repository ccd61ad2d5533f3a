"""Visitors who send too much, too slowly, others' names or what was withdrawn, beside those who mean well."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode, urlsplit

import gradio as gr
import httpx
import pytest
from login_support import call, cookie, on_a_space
from space_support import VQA, served
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


@pytest.mark.slow
def test_a_thousand_slow_uploads_do_not_keep_others_from_the_page(space):
    address = urlsplit(space.address)
    with ExitStack() as stack:
        for _ in range(1100):
            connection = stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=30))
            connection.sendall(BEGIN + b"Content-Length: 900\r\n\r\n--b\r\n")
        assert httpx.get(space.address, timeout=10).status_code == 200


def handler(space, event, name):
    """The function of a name that runs when a page is opened ("load") or every minute ("tick")."""
    functions = [each.fn for each in space.blocks.fns.values() if any(kind == event for _, kind in each.targets)]
    return next(function for function in functions if getattr(function, "__name__", "") == name)


def test_what_is_withdrawn_elsewhere_goes_from_open_pages_and_from_those_that_open(space, toy, tmp_path):
    receipt = call(space, model_predictions(toy, tmp_path, 94), {"cookie": cookie("ada")})
    elsewhere, seen = open_storage(space.folder), space.catalogue.version
    assert space.catalogue.board.entry(VQA, "model 94", "recomputed")
    review(elsewhere, receipt["id"], "withdrawn", "a copy", "maintainer")
    tick, choices = handler(space, "tick", "_tick"), (OVERVIEW, [VQA.heading], "", *[None] * 4, False, False, "")
    version, *_, table, _ = tick(seen, *choices)
    assert version == space.catalogue.version > seen
    assert all(update == gr.skip() for update in tick(version, *choices))
    assert "model 94" not in table
    assert space.catalogue.board.entry(VQA, "model 94", "recomputed") is None
    for status, is_shown in (("accepted", True), ("withdrawn", False)):
        review(elsewhere, receipt["id"], status, "", "maintainer")
        asked = SimpleNamespace(query_params=urlencode({"scores": VQA.heading}))
        *_, table, _ = handler(space, "load", "open")(asked)
        assert ("model 94" in table) is is_shown


async def read_all(scope, receive, send):
    """An application that answers with the size of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message["body"]), message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


async def answer(limited, *chunks, path="/gradio_api/upload", ends=True):
    """Status, text and headers of the answer to a request; without an end its sender stalls after the last chunk."""
    left, sent = [*chunks], []

    async def receive():
        if not left:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or not ends}

    async def send(message):
        sent.append(message)

    await limited({"type": "http", "path": path}, receive, send)
    start, body = sent
    return start["status"], body["body"].decode(), dict(start["headers"])


def test_uploads_are_limited_in_size_in_time_and_in_number():
    async def requests():
        limited = UploadLimit(read_all, size=1000, body=500, at_once=2, wait=0.01, patience=0.5, rate=1e5)
        assert await answer(limited, b"x" * 1000) == (200, "1000", {})
        status, text, _ = await answer(limited, b"x" * 1001)
        assert (status, "send fewer" in text) == (413, True)
        for path in ("/gradio_api/call/upload", "/gradio_api/queue/data", "/"):
            assert await answer(limited, b"x" * 500, path=path) == (200, "500", {})
            for chunks in ([b"x" * 501], [b"x"] * 501):
                assert (await answer(limited, *chunks, path=path))[0] == 413
        slow = [asyncio.create_task(answer(limited, b"x", ends=False)) for _ in range(2)]
        await asyncio.sleep(0)
        status, _, headers = await answer(limited, b"x")
        assert (status, headers[b"retry-after"]) == (503, b"60")
        assert [status for status, *_ in await asyncio.gather(*slow)] == [408, 408]
        assert await answer(limited, b"x") == (200, "1", {})

    asyncio.run(requests())


def test_a_large_body_takes_no_memory(space):
    body = b'{"data": [' + b"{}," * (6 << 20) + b"{}]}"
    with memory_below(60):
        address, headers = f"{space.address}/gradio_api/queue/join", {"content-type": "application/json"}
        refused = httpx.post(address, content=body, headers=headers, timeout=60)
    assert refused.status_code == 413


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
