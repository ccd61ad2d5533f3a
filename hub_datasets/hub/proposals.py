"""Results in the repository of someone else's model: a pull request on the Hub, opened once.

The pull request changes the model's card (``model-index``) and ``.eval_results``, see `model_cards`, in one commit on
the current content. Before it, the predictions may be uploaded to a dataset repository of the user, to which the
results link. Proposing the same results again is safe, also after an interrupted run and by another user: an open pull
request of the same user is found by its title and updated; an open pull request of any user that already has the
results is not changed; and nothing is proposed if the model has the results.
"""

from __future__ import annotations

import difflib
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.common.errors import DataError
from ...metrics.records.predictions import file_hash
from ...metrics.records.results import Result
from .calls import call_hub
from .model_cards import FOLDER, OWNER, ResultsSource, predictions_path, write_model_card
from .publish import check_repo_name

TITLE = "Add evaluation results by VL-Assay"
_DESCRIPTION = (
    "Scores of composition with their intervals, recomputed from predictions whose hash each entry names. Written by "
    "`vl-assay publish`; other parts of the card are unchanged."
)
_MOST_PULLS = 20  # the most pull requests of other users with our title that are inspected
# The lines of a card and of results with the reporting user and the address of the predictions.
_REPORTER = re.compile(rb"^[ -]*(?:user|url): .*\n", re.MULTILINE)


class PullRequest(NamedTuple):
    """The change of a pull request: files of the model at a commit, and as they would be."""

    commit: str
    before: Mapping[str, bytes]
    after: Mapping[str, bytes]

    @property
    def changed(self) -> dict[str, bytes]:
        """The files that would change."""
        return {path: content for path, content in self.after.items() if self.before.get(path) != content}

    @property
    def is_reported(self) -> bool:
        """Return whether the files have the results, whoever reports them."""
        return all(
            _REPORTER.sub(b"", self.before.get(path, b"")) == _REPORTER.sub(b"", content)
            for path, content in self.changed.items()
        )

    def diff(self) -> str:
        """Return the change as a unified diff; empty if the model has the results."""
        lines: list[str] = []
        for path, content in self.changed.items():
            old = self.before.get(path, b"").decode(errors="replace").splitlines(keepends=True)
            new = content.decode(errors="replace").splitlines(keepends=True)
            lines += difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
        return "".join(lines)


def preview(
    results: Sequence[Result], repo: str, *, dataset_owner: str = OWNER, predictions_repo: str = "", api: Any = None
) -> str:
    """Return as a unified diff how `propose` would change the newest commit of a model; empty if nothing changes.

    Raises:
        DataError, StorageError: as `propose`; it needs no login, without which the results name no user.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import LocalTokenNotFoundError

    api = api or HfApi()
    _check_names(repo, predictions_repo)

    def attempt() -> str:
        try:
            user = api.whoami(cache=True)["name"]
        except LocalTokenNotFoundError:
            user = ""
        return _prepare(results, repo, dataset_owner, ResultsSource(user, predictions_repo), api).diff()

    return call_hub(attempt, f"read {repo}", repo)


def propose(
    results: Sequence[Result],
    repo: str,
    *,
    dataset_owner: str = OWNER,
    predictions: Sequence[Path] = (),
    predictions_repo: str = "",
    api: Any = None,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Open a pull request with results of a model in its repository, or update an open one.

    Args:
        results: the results of one model on complete tasks, from `report`.
        repo: the model's repository, ``owner/name``.
        dataset_owner: the owner of the benchmarks' datasets on the Hub.
        predictions, predictions_repo: the files that the results come from, and the dataset repository, ``owner/name``,
            to which they are uploaded, public if it is new; the results then link to them.
        api: a `huggingface_hub.HfApi` by default, with the login of ``hf auth login`` or ``HF_TOKEN``.
        sleep: waits for some seconds before the next try.

    Returns:
        The address of the pull request, which may be another user's with the same results; empty if the model has
        them.

    Raises:
        DataError: as `write_model_card`, or the repository is not a model repository.
        StorageError: the model does not exist, or the Hub denies access, cannot be reached, or fails repeatedly. A
            later call continues from what was uploaded.
    """
    from huggingface_hub import HfApi

    api = api or HfApi()
    _check_names(repo, predictions_repo)

    def attempt() -> str:
        source = ResultsSource(api.whoami(cache=True)["name"], predictions_repo)
        prepare = partial(_prepare, results, repo, dataset_owner, source, api)
        if not (proposal := prepare()).changed:
            return ""
        own_pull, others = _open_pulls(repo, source.user, api)
        if own_pull is not None:
            proposal = prepare(_branch(own_pull))
        elif reported := _reported(others, prepare):
            return reported
        if predictions_repo:
            _upload(predictions, predictions_repo, api, sleep)
        if own_pull is not None and not proposal.changed:
            return own_pull.url
        return _commit(proposal, repo, own_pull, api)

    return call_hub(attempt, f"open a pull request at {repo}", repo, sleep=sleep)


def _check_names(repo: str, predictions_repo: str) -> None:
    for name in (repo, predictions_repo or repo):
        check_repo_name(name)


def _prepare(
    results: Sequence[Result], repo: str, dataset_owner: str, source: ResultsSource, api: Any, branch: str | None = None
) -> PullRequest:
    """Return the change to the newest commit of a model, or of a branch of it."""
    commit = _head(repo, branch, api)
    names = api.list_repo_files(repo, revision=commit)
    result_files = [name for name in names if name == "README.md" or name.startswith(f"{FOLDER}/vl-assay-")]
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        before = {}
        for name in result_files:
            before[name] = Path(api.hf_hub_download(repo, name, revision=commit)).read_bytes()
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(before[name])
        write_model_card(folder / "README.md", results, dataset_owner=dataset_owner, source=source)
        files = [path for path in folder.rglob("*") if path.is_file()]
        after = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    return PullRequest(commit, before, after)


def _head(repo: str, branch: str | None, api: Any) -> str:
    """Return the newest commit of a model."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        return api.model_info(repo, revision=branch).sha
    except RepositoryNotFoundError as error:
        if isinstance(error, GatedRepoError) or not api.repo_exists(repo, repo_type="dataset"):
            raise
        raise DataError(f"{repo} is a dataset; results go to the repository of a model: name that") from error


def _open_pulls(repo: str, user: str, api: Any) -> tuple[Any, list[Any]]:
    """Return the user's open pull request with our title, or None, and the other users' ones."""
    discussions = api.get_repo_discussions(repo, discussion_type="pull_request", discussion_status="open")
    ours = [pull for pull in discussions if pull.title == TITLE]
    own_pull = next((pull for pull in ours if pull.author == user), None)
    return own_pull, [pull for pull in ours if pull.author != user]


def _reported(pulls: Sequence[Any], prepare: Callable[[str], PullRequest]) -> str:
    """Return the address of another user's first pull request with the results; empty if none has them."""
    for pull in pulls[:_MOST_PULLS]:
        with suppress(DataError):  # its card cannot be read
            if prepare(_branch(pull)).is_reported:
                return pull.url
    return ""


def _commit(proposal: PullRequest, repo: str, pull: Any, api: Any) -> str:
    """Commit the changes to the given pull request or to a new one, and return its address."""
    from huggingface_hub import CommitOperationAdd

    where = {"create_pr": True} if pull is None else {"revision": _branch(pull)}
    commit = api.create_commit(
        repo,
        [CommitOperationAdd(path, content) for path, content in proposal.changed.items()],
        commit_message=TITLE,
        commit_description=_DESCRIPTION,
        parent_commit=proposal.commit,
        **where,
    )
    return commit.pr_url if pull is None else pull.url


def _branch(pull: Any) -> str:
    return pull.git_reference or f"refs/pr/{pull.num}"


def _upload(files: Sequence[Path], repo: str, api: Any, sleep: Callable[[float], None]) -> None:
    """Add those files of predictions that a dataset repository has not, in one commit."""
    from huggingface_hub import CommitOperationAdd

    named = {predictions_path(file_hash(file)): file for file in files}

    def attempt() -> None:
        api.create_repo(repo, repo_type="dataset", exist_ok=True)
        there = set(api.list_repo_files(repo, repo_type="dataset"))
        new = [CommitOperationAdd(path, file) for path, file in named.items() if path not in there]
        if new:
            api.create_commit(repo, new, commit_message="Add predictions", repo_type="dataset")

    call_hub(attempt, f"write {repo}", repo, "dataset", sleep=sleep)
