"""A web server for a folder, which sends ranges, counts what it sends, and fails where a test says."""

import math
import re
import threading
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class FileServer(ThreadingHTTPServer):
    """The server of a folder.

    Attributes, for tests to read and to set, all by the name of a file:
        requests: how often each method asked for it; `sent`: how many bytes of content were sent of it.
        down: files whose requests fail with statuses, the last one ever after, such as ``{"a.zip": [503, 429]}``; a
            last 200 ends the failures.
        cut: files of which only half of what was asked for is sent, before the connection ends.
        altered: files of which the last byte that is sent is another.
        moved: the new addresses of files that were moved.
        has_ranges: whether parts of files are sent; `limit`: how many requests for a file are answered before the
            others wait.
    """

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
        self.requests, self.sent = Counter(), Counter()
        self.down = {}
        self.cut, self.altered = set(), set()
        self.moved = {}
        self.has_ranges, self.limit = True, math.inf
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """A client that was killed is no error of the server."""


@contextmanager
def serving(folder):
    """A server of a folder, until the end of the block."""
    with FileServer(folder) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FileServer

    def do_HEAD(self):
        if not self._fails("HEAD"):
            super().do_HEAD()

    def do_GET(self):
        server, name = self.server, self.path.rsplit("/", 1)[-1]
        while server.requests["GET", name] >= server.limit:
            time.sleep(0.002)
        if self._fails("GET"):
            return
        if name in server.moved:
            self.send_response(302)
            self.send_header("Location", server.moved[name])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        size, range = path.stat().st_size, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        start, end = 0, size
        if range and server.has_ranges:
            start, end = int(range[1]), min(int(range[2]) + 1, size)
        with path.open("rb") as file:
            file.seek(start)
            content = file.read(end - start)
        if range and server.has_ranges:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if name in server.altered and content:
            content = content[:-1] + bytes([content[-1] ^ 1])
        if name in server.cut:
            content, self.close_connection = content[: len(content) // 2], True
        server.sent[name] += len(content)
        self.wfile.write(content)

    def _fails(self, method):
        name = self.path.rsplit("/", 1)[-1]
        self.server.requests[method, name] += 1
        statuses = self.server.down.get(name)
        status = statuses.pop(0) if statuses and statuses[1:] else statuses[0] if statuses else 200
        if status != 200:
            self.send_error(status)
        return status != 200

    def log_message(self, *_):
        """Nothing is printed."""
