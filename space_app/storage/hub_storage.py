"""Storage in two dataset repositories of the Hugging Face Hub: additions are commits."""

from __future__ import annotations

import hashlib
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, cast

from ...metrics.common.errors import StorageError
from .storage import TOP_FOLDERS, check_addition, check_path, folders_of, is_path, other_content

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile, RepoFolder

_Result = TypeVar("_Result")
_PASSING_STATUSES = {408, 409, 412, 425, 429}
_TRIES_TO_READ, _TRIES_TO_ADD = 5, 12  # who opens a page waits for seconds, who submits for minutes
_MOST_SECONDS = 300.0  # of all the tries of one call together
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_SILENCE_SECONDS = 60.0


class HubStorage:
    """The dataset repositories ``<name>-requests`` and ``<name>-results``, made by the first addition to each.

    An addition is one commit on the head that was read before it, so the Hub refuses it where another one came between.
    After a refusal, a time-out or an error that may pass it waits and begins anew, by looking at what is there: a
    commit whose answer was lost is found and not repeated.

    Args:
        name: ``"owner/name"``.
        private: whether repositories that are made here are private.
        endpoint, token: of the Hub; by default what huggingface_hub takes from the environment and the login.
        seed: of the jitter of the waits.
        sleep: what waits.

    Raises:
        StorageError: `name` cannot be the name of repositories.
    """

    def __init__(
        self,
        name: str,
        *,
        private: bool = False,
        endpoint: str | None = None,
        token: str | None = None,
        seed: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        from huggingface_hub import HfApi
        from huggingface_hub.utils import validate_repo_id

        repositories = {top: f"{name}-{top}" for top in TOP_FOLDERS}
        try:
            for repository in repositories.values():
                validate_repo_id(repository)
            if name.count("/") != 1:
                raise ValueError("it has not the form owner/name")
        except ValueError as error:
            raise StorageError(f"{name!r} cannot name repositories of the Hub: {error}") from error
        api = HfApi(endpoint=endpoint, token=token)
        patience = _Patience(random.Random(seed), sleep)
        self._repositories = {top: _Repository(api, repositories[top], private, patience) for top in TOP_FOLDERS}

    def paths(self, prefix: str = "") -> list[str]:
        """See ``Storage``."""
        asked = [top for top in TOP_FOLDERS if f"{top}/".startswith(prefix) or prefix.startswith(f"{top}/")]
        found = [(top, path) for top in asked for path in self._repositories[top].list_head()[1]]
        return sorted(path for top, path in found if path.startswith(prefix) and path.startswith(f"{top}/"))

    def read(self, path: str) -> bytes:
        """See ``Storage``."""
        return self._repository(path).read(path)

    def add(self, files: Mapping[str, bytes], message: str) -> None:
        """See ``Storage``; the message is the commit's."""
        check_addition(files, message)
        if files:
            self._repository(next(iter(files))).add(files, message)

    def _repository(self, path: str) -> _Repository:
        check_path(path)
        return self._repositories[path.partition("/")[0]]


class _Repository:
    """One dataset repository whose files never change."""

    def __init__(self, api: HfApi, name: str, private: bool, patience: _Patience) -> None:
        self._api, self._name, self._private, self._patience = api, name, private, patience
        self._listed: tuple[str | None, dict[str, str]] = (None, {})
        self._first_seen: dict[tuple[str, str], str] = {}
        self._adding = threading.Lock()  # the threads of one process would only drive each other into conflicts

    def list_head(self) -> tuple[str | None, dict[str, str]]:
        """The head commit, None where there is no repository yet, and the git hashes of its files by their paths."""

        def look() -> tuple[str | None, dict[str, str]]:
            known, head = self._listed, self._head()
            if head is None or head == known[0]:
                return known if head else (None, {})
            tree = self._api.list_repo_tree(self._name, recursive=True, revision=head, repo_type="dataset")
            return head, {entry.path: entry.blob_id for entry in tree if _is_file(entry) and is_path(entry.path)}

        self._listed = self._patience.try_until_done(f"list {self._name}", _TRIES_TO_READ, look)
        return self._listed

    def read(self, path: str) -> bytes:
        """The content of a file, from the cache of huggingface_hub where it has been read before."""
        head, files = self._listed
        if path not in files:
            head, files = self.list_head()
        if head is None or path not in files:
            raise StorageError(f"there is no file {path!r} in the dataset repository {self._name}")
        # That cache goes by commits; of a file that never changes, the first one that it was seen in is as good.
        revision = self._first_seen.setdefault((path, files[path]), head)

        def download() -> bytes:
            file = self._api.hf_hub_download(self._name, path, repo_type="dataset", revision=revision)
            return Path(file).read_bytes()

        try:
            return self._patience.try_until_done(f"read {path} of {self._name}", _TRIES_TO_READ, download)
        except StorageError:
            self._listed, self._first_seen = (None, {}), {}  # the history may have been rewritten
            raise

    def add(self, files: Mapping[str, bytes], message: str) -> None:
        """Commit the files that are not there yet, all at once."""
        with self._adding:
            task = f"add to {self._name}"
            self._patience.try_until_done(task, _TRIES_TO_ADD, lambda: self._commit(files, message))

    def _commit(self, files: Mapping[str, bytes], message: str) -> None:
        from huggingface_hub import CommitOperationAdd

        head = self._head()
        if head is None:
            self._api.create_repo(self._name, private=self._private, repo_type="dataset", exist_ok=True)
            head = self._head()
        if head is None:
            raise FileNotFoundError(f"{self._name} was made, but is not there yet")
        missing = self._missing(files, head)
        if missing:
            operations = [CommitOperationAdd(path, content) for path, content in missing.items()]
            self._api.create_commit(
                self._name, operations, commit_message=message, repo_type="dataset", parent_commit=head
            )

    def _missing(self, files: Mapping[str, bytes], head: str) -> dict[str, bytes]:
        """What of `files` is not there at the commit `head`."""
        asked = list(dict.fromkeys(each for path in files for each in (path, *folders_of(path))))
        infos = self._api.get_paths_info(self._name, asked, revision=head, repo_type="dataset")
        there = {info.path: info for info in infos}
        for path, content in files.items():
            blocked = any(_is_file(there[folder]) for folder in folders_of(path) if folder in there)
            if blocked or (path in there and not _is_same(there[path], content)):
                raise other_content(path)
        return {path: content for path, content in files.items() if path not in there}

    def _head(self) -> str | None:
        from huggingface_hub.errors import RepositoryNotFoundError

        try:
            return self._api.dataset_info(self._name, expand=["sha"]).sha
        except RepositoryNotFoundError as error:
            if error.response.status_code != 404:
                raise
            return None


class _Patience:
    """Tries again what may yet succeed, after waits that grow, differ by chance and are as long as the Hub asks for."""

    def __init__(self, rng: random.Random, sleep: Callable[[float], None]) -> None:
        self._rng, self._sleep = rng, sleep

    def try_until_done(self, task: str, tries: int, action: Callable[[], _Result]) -> _Result:
        """What `action` returns.

        Raises:
            StorageError: it fails for a reason that does not pass, or too often or too long; the message names `task`.
        """
        from huggingface_hub.errors import HfHubHTTPError

        # The bases are OSError and the error of the HTTP client, which depends on the version; uploads of large files
        # end in RuntimeError, and answers that are no JSON, or not the expected, in ValueError.
        bases = cast("tuple[type[Exception], ...]", HfHubHTTPError.__bases__)
        started = time.monotonic()
        for number in range(1, tries + 1):
            try:
                _limit_silence()
                return action()
            except StorageError:
                raise
            except (*bases, RuntimeError, ValueError) as error:
                wait = self._wait(task, number, error)
                if number == tries or time.monotonic() - started + wait > _MOST_SECONDS:
                    raise _failure(task, error, f"Try again in {wait:.0f} seconds or later") from error
            self._sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _wait(self, task: str, number: int, error: BaseException) -> float:
        """The seconds before the next try, if one is of use."""
        response = _response(error)
        if response is None:
            asked = 0.0
        elif response.status_code in _PASSING_STATUSES or response.status_code >= 500:
            asked = _asked_wait(response.headers)
        else:
            raise _failure(task, error, "Check its name, and what HF_TOKEN or the login may do") from error
        return max(asked, min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (number - 1)) * self._rng.uniform(0.5, 1))


def _failure(task: str, error: BaseException, remedy: str) -> StorageError:
    # Without the queries of addresses, which may be signed.
    text = re.sub(r"(https?://[^\s?]+)\?[^\s'\"]*", r"\1", " ".join(str(error).split()))[:500] or type(error).__name__
    return StorageError(
        f"cannot {task} on the Hub: {text}. {remedy}; nothing is there by half, and trying again is safe"
    )


def _response(error: BaseException | None) -> Any:
    """The Hub's answer that an error, or what caused it, tells of; None where there was no answer."""
    while error is not None:
        if (response := getattr(error, "response", None)) is not None:
            return response
        error = error.__cause__
    return None


def _asked_wait(headers: Mapping[str, str]) -> float:
    """The seconds that the Hub asks to wait, by Retry-After or its rate limit's reset; 0 where it does not."""
    from huggingface_hub.utils import parse_ratelimit_headers

    asked = headers.get("retry-after", "").strip()
    limit = parse_ratelimit_headers(headers)
    return float(asked) if asked.isdecimal() else float(limit.reset_in_seconds) if limit else 0.0


def _limit_silence() -> None:
    """Let no request of huggingface_hub wait for ever: it makes some, such as commits, without a time limit."""
    from huggingface_hub import get_session

    hooks = get_session().event_hooks["request"]
    if _set_time_limit not in hooks:
        hooks.append(_set_time_limit)


def _set_time_limit(request: Any) -> None:
    limits = request.extensions.get("timeout", {})
    request.extensions["timeout"] = {
        kind: _SILENCE_SECONDS if limits.get(kind) is None else limits[kind]
        for kind in ("connect", "read", "write", "pool")
    }


def _is_file(entry: RepoFile | RepoFolder) -> TypeGuard[RepoFile]:
    from huggingface_hub.hf_api import RepoFile

    return isinstance(entry, RepoFile)


def _is_same(entry: RepoFile | RepoFolder, content: bytes) -> bool:
    """Whether the file has that content, by SHA-256 where it is a large one, by git's hash otherwise."""
    if not _is_file(entry):
        return False
    if entry.lfs is not None:
        return entry.lfs.sha256 == hashlib.sha256(content).hexdigest()
    return entry.blob_id == hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
