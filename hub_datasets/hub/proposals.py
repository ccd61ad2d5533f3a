"""Results in the repository of someone else's model: a pull request on the Hub, opened once.

The pull request changes the model's card (``model-index``) and ``.eval_results``, see `model_cards`, in one commit on
what was there. What may have happened is looked up before it is done again: an open pull request of the same user is
found by its title and brought up to date, one that has the results is left as it is, and where the model has them
nothing is proposed. So a run that was cut off, or whose answer was lost, is repeated safely.
"""

from __future__ import annotations

import difflib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.common.errors import DataError, StorageError
from ...metrics.records.results import Result
from .model_cards import FOLDER, OWNER, write_model_card

TITLE = "Add evaluation results by VL-Assay"
_DESCRIPTION = (
    "Scores of composition with their intervals, recomputed from predictions whose hash each entry names. Written by "
    "`vl-assay publish`; other parts of the card are unchanged."
)
_LONGEST_WAIT = 60
_WAITS = (1, 2, 4, 8, 16)  # seconds before another try
# Another commit came first, too many requests, and errors of the server.
_PASSING = (409, 412, 429)


class Proposal(NamedTuple):
    """What a pull request would change: files of the model at a commit, and as they would be."""

    commit: str
    before: Mapping[str, bytes]
    after: Mapping[str, bytes]

    @property
    def changed(self) -> dict[str, bytes]:
        """The files that would change."""
        return {path: content for path, content in self.after.items() if self.before.get(path) != content}

    def diff(self) -> str:
        """The change as a unified diff; empty if the model has the results."""
        lines: list[str] = []
        for path, content in self.changed.items():
            old = self.before.get(path, b"").decode(errors="replace").splitlines(keepends=True)
            new = content.decode(errors="replace").splitlines(keepends=True)
            lines += difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
        return "".join(lines)


def prepare(
    results: Sequence[Result], repo: str, *, dataset_owner: str = OWNER, api: Any, revision: str = ""
) -> Proposal:
    """What to change in a model's repository, at a revision or at its newest commit.

    Raises:
        DataError: as `write_model_card`.
    """
    commit = revision or api.model_info(repo).sha
    names = api.list_repo_files(repo, revision=commit)
    wanted = [name for name in names if name == "README.md" or name.startswith(f"{FOLDER}/vl-assay-")]
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        before = {}
        for name in wanted:
            before[name] = Path(api.hf_hub_download(repo, name, revision=commit)).read_bytes()
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(before[name])
        write_model_card(folder / "README.md", results, dataset_owner=dataset_owner)
        files = [path for path in folder.rglob("*") if path.is_file()]
        after = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    return Proposal(commit, before, after)


def propose(
    results: Sequence[Result],
    repo: str,
    *,
    dataset_owner: str = OWNER,
    api: Any = None,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Open a pull request with results of a model in its repository, or bring an open one up to date.

    Args:
        results: what `report` returned, of one model, of whole tasks.
        repo: the model's repository, ``owner/name``.
        dataset_owner: the owner of the benchmarks' datasets on the Hub.
        api: a `huggingface_hub.HfApi` by default, with the login of ``hf auth login`` or ``HF_TOKEN``.
        sleep: waits for some seconds before the next try.

    Returns:
        The address of the pull request; empty if the model has the results.

    Raises:
        DataError: as `write_model_card`, or there is no such model.
        StorageError: the Hub denies it, cannot be reached, or fails again and again. What was sent is found again.
    """
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, RepositoryNotFoundError

    api = api or HfApi()
    try:
        for wait in _WAITS:
            try:
                return _propose_once(results, repo, dataset_owner, api)
            except (HfHubHTTPError, httpx.TransportError, OSError) as error:
                if not _may_pass(error):
                    raise
                sleep(max(wait, _asked_to_wait(error)))
        return _propose_once(results, repo, dataset_owner, api)
    except RepositoryNotFoundError as error:
        raise DataError(f"there is no model {repo} on the Hub, or it is private or gated for this login") from error
    except (HfHubHTTPError, httpx.TransportError, LocalTokenNotFoundError, OSError) as error:
        raise StorageError(
            f"no pull request could be opened at {repo} ({error}); log in with `hf auth login`, check the network, and "
            "run the same command again: what was opened is found"
        ) from error


def _propose_once(results: Sequence[Result], repo: str, dataset_owner: str, api: Any) -> str:
    from huggingface_hub import CommitOperationAdd

    proposal = prepare(results, repo, dataset_owner=dataset_owner, api=api)
    if not proposal.changed:
        return ""
    user = api.whoami()["name"]
    found = api.get_repo_discussions(repo, author=user, discussion_type="pull_request", discussion_status="open")
    own = next((each for each in found if each.title == TITLE), None)
    branch = "" if own is None else own.git_reference or f"refs/pr/{own.num}"
    if own is not None:
        proposal = prepare(results, repo, dataset_owner=dataset_owner, api=api, revision=branch)
        if not proposal.changed:
            return own.url
    operations = [CommitOperationAdd(path, content) for path, content in proposal.changed.items()]
    where = {"create_pr": True, "parent_commit": proposal.commit} if own is None else {"revision": branch}
    commit = api.create_commit(repo, operations, commit_message=TITLE, commit_description=_DESCRIPTION, **where)
    return own.url if own is not None else commit.pr_url


def _may_pass(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    import httpx
    from huggingface_hub.errors import OfflineModeIsEnabled

    response = getattr(error, "response", None)
    if response is not None:
        return response.status_code in _PASSING or response.status_code >= 500
    passing = isinstance(error, httpx.TransportError | ConnectionError | TimeoutError)
    return passing and not isinstance(error, OfflineModeIsEnabled)


def _asked_to_wait(error: Exception) -> float:
    """The seconds that the Hub asks to wait, at most `_LONGEST_WAIT`; 0 if it does not say."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        return min(max(0.0, float(headers.get("retry-after", 0))), _LONGEST_WAIT)
    except ValueError:
        return 0.0
