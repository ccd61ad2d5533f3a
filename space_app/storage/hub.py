"""The storage in two dataset repositories of the Hugging Face Hub; additions are commits."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub import CommitOperationAdd, HfApi, get_session
from huggingface_hub.errors import RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import validate_repo_id

from ...hub_datasets.hub.calls import call_hub
from ...metrics.common.errors import StorageError
from .protocol import TOP_FOLDERS, check_addition, check_path, folders_of, is_path, other_content

_Result = TypeVar("_Result")
_READ_ATTEMPTS, _ADD_ATTEMPTS = 5, 12  # who opens a page waits for seconds, who submits for minutes


class HubStorage:
    """The dataset repositories ``<name>-requests`` and ``<name>-results``, created by the first addition to each.

    An addition is one commit whose parent is the head that was read before it, so the Hub refuses it if another commit
    came in between. Refusals, time-outs and temporary errors are retried from the start, which reads the repository
    again: a commit whose response was lost is found and not repeated.

    Args:
        name: ``"owner/name"``.
        endpoint, token: the Hub's address and token; by default from huggingface_hub's environment variables and login.
        timeout: seconds without a response after which a request is retried.
        sleep: called with the seconds to wait before a retry.

    Raises:
        StorageError: `name` cannot name repositories.
    """

    def __init__(
        self,
        name: str,
        *,
        endpoint: str | None = None,
        token: str | None = None,
        timeout: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        repositories = {top: f"{name}-{top}" for top in TOP_FOLDERS}
        try:
            for repository in repositories.values():
                validate_repo_id(repository)
            if name.count("/") != 1:
                raise ValueError("expected 'owner/name'")
        except ValueError as error:
            raise StorageError(f"{name!r} cannot name repositories of the Hub: {error}") from error
        api = HfApi(endpoint=endpoint, token=token)
        self._repositories = {top: _Repository(api, repositories[top], timeout, sleep) for top in TOP_FOLDERS}

    def paths(self, prefix: str = "") -> list[str]:
        """See `Storage`."""
        tops = [top for top in TOP_FOLDERS if f"{top}/".startswith(prefix) or prefix.startswith(f"{top}/")]
        paths = (path for top in tops for path in self._repositories[top].list_head()[1] if path.startswith(f"{top}/"))
        return sorted(path for path in paths if path.startswith(prefix))

    def read(self, path: str) -> bytes:
        """See `Storage`."""
        return self._repository(path).read(path)

    def add(self, files: Mapping[str, bytes], message: str) -> None:
        """See `Storage`; the message is the commit's."""
        check_addition(files, message)
        if files:
            self._repository(next(iter(files))).add(files, message)

    def _repository(self, path: str) -> _Repository:
        check_path(path)
        return self._repositories[path.partition("/")[0]]


class _Repository:
    """A dataset repository whose files never change."""

    def __init__(self, api: HfApi, name: str, timeout: float, sleep: Callable[[float], None]) -> None:
        self._api, self._name, self._timeout, self._sleep = api, name, timeout, sleep
        self._listed: tuple[str | None, dict[str, str]] = (None, {})
        self._first_seen: dict[tuple[str, str], str] = {}
        self._adding = threading.Lock()  # concurrent threads of one process would only cause conflicts

    def list_head(self) -> tuple[str | None, dict[str, str]]:
        """Return the head commit, None if there is no repository yet, and the git hashes of its files by path."""

        def list_files() -> tuple[str | None, dict[str, str]]:
            known, head = self._listed, self._head()
            if head is None or head == known[0]:
                return known if head else (None, {})
            tree = self._api.list_repo_tree(self._name, recursive=True, revision=head, repo_type="dataset")
            return head, {
                entry.path: entry.blob_id for entry in tree if isinstance(entry, RepoFile) and is_path(entry.path)
            }

        self._listed = self._call(f"list {self._name}", _READ_ATTEMPTS, list_files)
        return self._listed

    def read(self, path: str) -> bytes:
        """Return the content of a file, from the cache of huggingface_hub if it was read before."""
        head, files = self._listed
        if path not in files:
            head, files = self.list_head()
        if head is None or path not in files:
            raise StorageError(f"there is no file {path!r} in the dataset repository {self._name}")
        # The cache is keyed by commit. Files never change, so the commit where one was first seen serves for all.
        revision = self._first_seen.setdefault((path, files[path]), head)

        def download() -> bytes:
            file = self._api.hf_hub_download(self._name, path, repo_type="dataset", revision=revision)
            return Path(file).read_bytes()

        try:
            return self._call(f"read {path} of {self._name}", _READ_ATTEMPTS, download)
        except StorageError:
            self._listed, self._first_seen = (None, {}), {}  # the history may have been rewritten
            raise

    def add(self, files: Mapping[str, bytes], message: str) -> None:
        """Commit the files that are missing, all at once."""
        with self._adding:
            self._call(f"add to {self._name}", _ADD_ATTEMPTS, lambda: self._commit(files, message))

    def _commit(self, files: Mapping[str, bytes], message: str) -> None:
        """Try once to commit the files that the head does not have."""
        head = self._head()
        if head is None:
            self._api.create_repo(self._name, repo_type="dataset", exist_ok=True)
            head = self._head()
        if head is None:
            raise FileNotFoundError(f"{self._name} was created, but cannot be found yet")
        asked = list(dict.fromkeys(asked_path for path in files for asked_path in (path, *folders_of(path))))
        infos = self._api.get_paths_info(self._name, asked, revision=head, repo_type="dataset")
        there = {info.path: info for info in infos}
        for path, content in files.items():
            blocked = any(isinstance(there.get(folder), RepoFile) for folder in folders_of(path))
            if blocked or (path in there and not _is_same(there[path], content)):
                raise other_content(path)
        missing = [CommitOperationAdd(path, content) for path, content in files.items() if path not in there]
        if missing:
            self._api.create_commit(
                self._name, missing, commit_message=message, repo_type="dataset", parent_commit=head
            )

    def _head(self) -> str | None:
        try:
            return self._api.dataset_info(self._name, expand=["sha"]).sha
        except RepositoryNotFoundError as error:
            if error.response.status_code != 404:
                raise
            return None

    def _call(self, task: str, attempts: int, action: Callable[[], _Result]) -> _Result:
        """Call the Hub as `call_hub` does, with a time limit for each request."""

        def attempt() -> _Result:
            hooks = get_session().event_hooks["request"]  # the session may be a new one
            if self._set_timeout not in hooks:
                hooks.append(self._set_timeout)
            return action()

        return call_hub(attempt, task, self._name, "dataset", attempts=attempts, sleep=self._sleep)

    def _set_timeout(self, request: Any) -> None:
        """Set a time limit for requests that huggingface_hub makes without one, such as commits."""
        limits = request.extensions.get("timeout", {})
        request.extensions["timeout"] = {
            kind: self._timeout if limits.get(kind) is None else limits[kind]
            for kind in ("connect", "read", "write", "pool")
        }


def _is_same(entry: Any, content: bytes) -> bool:
    """Compare contents by SHA-256 for large files and by git's hash for others; a folder is never the same."""
    if not isinstance(entry, RepoFile):
        return False
    if entry.lfs is not None:
        return entry.lfs.sha256 == hashlib.sha256(content).hexdigest()
    return entry.blob_id == hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
