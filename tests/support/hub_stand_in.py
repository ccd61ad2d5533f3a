"""A local HTTP server that answers like the part of the Hub's API that storage in datasets and pull requests need.

It can be told to fail at random: see ``HubStandIn``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit

from vl_assay.space_app.storage.hub import HubStorage

COMMIT_FAULTS = ("conflict", "lost", "stalled", "late")
REQUESTS = "owner/board-requests"
PAGE = 20  # entries of a page of a tree, so that the pages are followed


@dataclass
class Commit:
    sha: str
    parent: str
    message: str
    added: dict[str, bytes]
    files: dict[str, bytes]


@dataclass
class Repository:
    commits: list[Commit] = field(default_factory=list)
    pulls: list[Repository] = field(default_factory=list)  # of each the branch, which begins with a commit of main

    def commit(self, message, added):
        parent, files = (self.commits[-1].sha, self.commits[-1].files) if self.commits else ("0" * 40, {})
        sha = hashlib.sha1(f"{parent} {len(self.commits)} {message}".encode()).hexdigest()
        self.commits.append(Commit(sha, parent, message, added, files | added))
        return self.commits[-1]

    def at(self, revision):
        if revision.startswith("refs/pr/"):
            return self.pulls[int(revision.rpartition("/")[2]) - 1].commits[-1]
        known = [*(commit for pull in self.pulls for commit in pull.commits), *self.commits]
        return next((c for c in reversed(known) if revision in ("main", c.sha)), None)


class HubStandIn:
    """Use it with `with`; `url` is the endpoint.

    Args:
        seed: of the faults.
        faults: how likely each of these is: "conflict" (a commit is refused with 409 or 412), "lost" (a commit is made,
            and the connection dropped), "stalled" (a commit is made, and not answered for `stall` seconds), "late" (a
            commit is tried only after `stall` seconds), "dropped" (a request is not answered), "busy" (429, with
            Retry-After or the Hub's own header), "broken" (5xx).
        token: what requests must bear, if anything.
        stall: seconds.
    """

    def __init__(self, seed=0, faults=None, token=None, stall=1.0):
        self.faults, self.token, self.stall = faults or {}, token, stall
        self.repositories: dict[str, Repository] = {}
        self.seen: Counter[str] = Counter()  # faults by their names and requests by their kinds
        self.gated: set[str] = set()  # names of repositories that need a login that was granted access
        self.datasets: set[str] = set()  # names of repositories that are not models
        self.read_only: set[str] = set()  # names of repositories to which this login may not write
        self.lock = threading.RLock()
        self.closed = False
        self.pages: list[bytes] = []  # sent in place of the next answers to "info"
        self._rng = random.Random(seed)
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.closed = True  # for the connections that are still open
        self._server.shutdown()
        self._server.server_close()

    def draw_fault(self, kind):
        possible = ["dropped", "busy", "broken", *(COMMIT_FAULTS if kind == "commit" else ())]
        with self.lock:
            point = self._rng.random()
            for fault in possible:
                point -= self.faults.get(fault, 0)
                if point < 0:
                    self.seen[fault] += 1
                    return fault
        return None

    def choose(self, values):
        with self.lock:
            return self._rng.choice(values)

    def added(self, name):
        """How often each path was added to a repository, over all its commits."""
        return Counter(path for commit in self.repositories[name].commits[1:] for path in commit.added)


def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def describe_file(path, content):
    entry = {"type": "file", "path": path, "size": len(content), "oid": git_hash(content)}
    if path.endswith(".parquet"):  # such files are pointers in git, so its hash is not that of the content
        digest = hashlib.sha256(content).hexdigest()
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n".encode()
        entry |= {"oid": git_hash(pointer), "lfs": {"oid": digest, "size": len(content), "pointerSize": len(pointer)}}
    return entry


def describe_tree(files):
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents} - {"."}
    entries = [{"type": "directory", "path": path, "size": 0, "oid": git_hash(path.encode())} for path in folders]
    return sorted(entries + [describe_file(*item) for item in files.items()], key=lambda entry: entry["path"])


_API = r"/api/(?:datasets|models)/([^/]+/[^/]+)"


class _Handler(BaseHTTPRequestHandler):
    hub: HubStandIn
    protocol_version = "HTTP/1.1"
    ROUTES = (
        ("create", "POST", r"/api/repos/create"),
        ("validate_yaml", "POST", r"/api/validate-yaml"),
        ("info", "GET", rf"{_API}(?:/revision/([^/]+))?"),
        ("tree", "GET", rf"{_API}/tree/([^/]+)"),
        ("paths_info", "POST", rf"{_API}/paths-info/([^/]+)"),
        ("preupload", "POST", rf"{_API}/preupload/([^/]+)"),
        ("commit", "POST", rf"{_API}/commit/([^/]+)"),
        ("resolve", "GET", r"(?:/datasets)?/([^/]+/[^/]+)/resolve/([^/]+)/(.+)"),
    )

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        address = urlsplit(self.path)
        self.query = parse_qs(address.query)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        method = "GET" if self.command == "HEAD" else self.command
        for kind, wanted, pattern in self.ROUTES:
            match = re.fullmatch(pattern, address.path)
            if match and method == wanted:
                return self.answer(kind, [unquote(part) for part in match.groups() if part is not None])
        return self.send(404, {"error": f"no route for {self.command} {self.path}"})

    do_POST = do_HEAD = do_GET

    def answer(self, kind, parts):
        if self.hub.closed:
            return self.drop()
        if self.hub.token and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self.send(401, {"error": "Invalid username or password."}, {"X-Error-Code": "RepoNotFound"})
        fault = self.hub.draw_fault(kind)
        with self.hub.lock:
            self.hub.seen[kind] += 1
            self.hub.seen["authorized"] += "Authorization" in self.headers
        if fault == "dropped":
            return self.drop()
        if fault == "busy":
            limit = {"RateLimit": '"api";r=0;t=1', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}
            return self.send(429, {"error": "Too many requests"}, self.hub.choose([{"Retry-After": "1"}, limit]))
        if fault == "broken":
            return self.send(self.hub.choose([500, 502, 503, 504]), {"error": "Something went wrong"})
        if fault == "conflict":
            return self.send(self.hub.choose([409, 412]), {"error": "A commit has happened since. Please refresh."})
        if fault == "late":
            time.sleep(self.hub.stall)
        with self.hub.lock:
            pages = self.hub.pages if kind == "info" else []
            act = partial(self.find, kind, *parts) if parts else getattr(self, kind)
            answer = (200, pages.pop()) if pages else act()
        if fault == "stalled":
            time.sleep(self.hub.stall)
        if fault in ("lost", "stalled", "late"):
            return self.drop()
        return self.send(*answer)

    def drop(self):
        self.close_connection = True

    def send(self, status, body, headers=None):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def find(self, kind, name, revision="main", *path):
        """The answer of the method of that name to a commit, or that there is none."""
        if name in self.hub.gated:
            return 403, {"error": "Access to this repository is restricted"}, {"X-Error-Code": "GatedRepo"}
        is_other = self.path.startswith("/api/models/") and name in self.hub.datasets
        if name not in self.hub.repositories or is_other:
            return 404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"}
        commit = self.hub.repositories[name].at(revision)
        if commit is None:
            return 404, {"error": f"Invalid rev id: {revision}"}, {"X-Error-Code": "RevisionNotFound"}
        return getattr(self, kind)(name, commit, *path)

    def create(self):
        asked = json.loads(self.body)
        name = f"{asked['organization']}/{asked['name']}"
        url = {"url": f"{self.hub.url}/datasets/{name}"}
        if name in self.hub.repositories:
            return 409, url | {"error": "You already created this dataset repo"}
        self.hub.repositories[name] = Repository()
        self.hub.repositories[name].commit("initial commit", {".gitattributes": b"*.parquet filter=lfs\n"})
        return 200, url

    def validate_yaml(self):
        asked = json.loads(self.body)
        assert asked["content"].startswith("---\n")
        return 200, {"errors": [], "warnings": []}

    def info(self, name, commit):
        return 200, {
            "id": name,
            "_id": "0",
            "sha": commit.sha,
            "siblings": [{"rfilename": path} for path in commit.files],
        }

    def tree(self, name, commit):
        entries, start = describe_tree(commit.files), int(self.query.get("cursor", ["0"])[0])
        following = f"{self.hub.url}{urlsplit(self.path).path}?recursive=True&cursor={start + PAGE}"
        link = {"Link": f'<{following}>; rel="next"'} if start + PAGE < len(entries) else {}
        return 200, entries[start : start + PAGE], link

    def paths_info(self, name, commit):
        asked = parse_qs(self.body.decode()).get("paths", [])
        return 200, [entry for entry in describe_tree(commit.files) if entry["path"] in asked]

    def preupload(self, name, commit):
        paths = [file["path"] for file in json.loads(self.body)["files"]]
        return 200, {"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]}

    def commit(self, name, commit):
        if name in self.hub.read_only:
            return 403, {"error": "Forbidden: pass `create_pr=1` as a query parameter to create a Pull Request"}
        header, *operations = (json.loads(line) for line in self.body.splitlines())
        assert header["key"] == "header"
        assert {operation["key"] for operation in operations} == {"file"}
        if header["value"].get("parentCommit", commit.sha) != commit.sha:
            self.hub.seen["overtaken"] += 1
            return 412, {"error": "A commit has happened since. Please refresh and try again."}
        added = {each["value"]["path"]: base64.b64decode(each["value"]["content"]) for each in operations}
        repository, title, pull = self.hub.repositories[name], header["value"]["summary"], {}
        if "create_pr" in self.query:
            repository.pulls.append(branch := Repository([commit]))
            pull = {"pullRequestUrl": f"{self.hub.url}/{name}/discussions/{len(repository.pulls)}"}
        else:
            branch = repository
        made = branch.commit(title, added)
        url = f"{self.hub.url}/datasets/{name}/commit/{made.sha}"
        return 200, {"success": True, "commitOid": made.sha, "commitUrl": url} | pull

    def resolve(self, name, commit, path):
        headers = {"X-Repo-Commit": commit.sha}
        if path not in commit.files:
            return 404, {"error": "Entry not found"}, headers | {"X-Error-Code": "EntryNotFound"}
        content = commit.files[path]
        return 200, content, headers | {"ETag": f'"{git_hash(content)}"', "Accept-Ranges": "none"}


class Waits(list):
    """What stands in for `time.sleep`: it notes the seconds and waits for a thousandth."""

    def __call__(self, seconds):
        self.append(seconds)
        time.sleep(seconds / 1000)


def hub_storage(hub, **options):
    return HubStorage("owner/board", endpoint=hub.url, **{"sleep": Waits(), "token": "secret"} | options)
