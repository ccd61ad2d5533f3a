"""A local server that acts as the Hub for downloads: repositories with the same files at every commit."""

import hashlib
import itertools
import json
import sys
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from file_server import FileServer, _Handler
from huggingface_hub import constants, hf_api

COMMIT = "c" * 40


class HubServer(FileServer):
    """Serves ``folder/owner/name`` as the dataset or model ``owner/name``; `FileServer` counts and can be told things.

    Attributes:
        gated: repositories whose files need `TOKEN`; `revisions`: those that were asked for.
        is_moving: whether a branch is at another commit each time that it is asked for.
    """

    TOKEN = "hf_of_a_reader"

    def __init__(self, folder):
        super().__init__(folder)
        self.folder = folder
        self.gated, self.revisions = set(), []
        self.is_moving = False
        self.RequestHandlerClass = partial(_HubHandler, directory=str(folder))
        self._moves = itertools.count(1)

    def commit(self, revision):
        """The commit of a revision: itself, if it is a full hash."""
        if len(revision) == len(COMMIT):
            return revision
        return f"{next(self._moves):040x}" if self.is_moving else COMMIT


@contextmanager
def serving_hub(folder, monkeypatch):
    """A Hub of the repositories in a folder, in place of the real one; its cache is new."""
    with HubServer(folder) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, server.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(hf_api.api, "endpoint", server.url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / ".cache"))
        if "transformers.utils.hub" in sys.modules:  # which keeps a client of the first endpoint that it has seen
            monkeypatch.setattr(sys.modules["transformers.utils.hub"], "_hf_api", None)
        yield server
        server.shutdown()


class _HubHandler(_Handler):
    server: HubServer
    etag = commit = ""

    def do_GET(self):
        parts = self._parts()
        if parts[0] == "api" and parts[1] not in ("datasets", "models"):  # what the library asks about itself
            self._refuse(404, "EntryNotFound")
        elif parts[0] == "api":
            kind, revision, *below = self.path.partition("?")[0].split("/")[5:] or ("revision", "main")
            self._info("/".join(parts[2:4]), kind, revision, "/".join(below))
        elif self._is_allowed("/".join(parts[:2])):
            self._resolve(parts)
            super().do_GET()

    def do_HEAD(self):
        parts = self._parts()
        if self._is_allowed("/".join(parts[:2])):
            self._resolve(parts)
            super().do_HEAD()

    def _parts(self):
        """The parts of the path; the addresses of models' files begin with the owner."""
        return self.path.lstrip("/").removeprefix("datasets/").split("/")

    def _info(self, repository, kind, revision, below):
        """The commit of a revision, or the files in a commit, those below a folder."""
        folder = self.server.folder / repository
        if revision != COMMIT and revision not in self.server.revisions:
            self.server.revisions.append(revision)
        if not folder.is_dir():
            self._refuse(401, "RepoNotFound")
            return
        files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
        siblings = [{"rfilename": name, "size": path.stat().st_size} for name, path in files.items()]
        is_gated = "auto" if repository in self.server.gated else False
        answer = {"id": repository, "sha": self.server.commit(revision), "gated": is_gated, "siblings": siblings}
        if kind == "tree":
            entries = {"type": "file", "oid": "0" * 40}
            answer = [
                entries | {"path": name, "size": path.stat().st_size}
                for name, path in files.items()
                if name.startswith(below)
            ]
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _is_allowed(self, repository):
        allowed = repository not in self.server.gated
        allowed = allowed or self.headers.get("Authorization") == f"Bearer {self.server.TOKEN}"
        if not allowed:
            self._refuse(403, "GatedRepo")
        return allowed

    def _refuse(self, status, code):
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _resolve(self, parts):
        """The path in the folder of ``owner/name/resolve/revision/path``."""
        self.commit = self.server.commit(parts[3])
        self.path = "/" + "/".join([*parts[:2], *parts[4:]])
        path = Path(self.translate_path(self.path))
        self.etag = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""

    def end_headers(self):
        if self.etag:
            self.send_header("X-Repo-Commit", self.commit)
            self.send_header("ETag", f'"{self.etag}"')
        super().end_headers()
