"""Results in the repository of someone else's model: a pull request on the Hub."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from ...metrics.common.errors import DataError
from ...metrics.records.results import Result
from .calls import call_hub, check_repo_name
from .model_cards import FOLDER, OWNER, write_model_card

TITLE = "Add evaluation results by VL-Assay"
_DESCRIPTION = (
    "Scores of composition with their intervals, recomputed from predictions whose hash each entry names. Written by "
    "`vl-assay publish`; other parts of the card are unchanged, but for comments in its metadata."
)


def propose(
    results: Sequence[Result],
    repo: str,
    *,
    dataset_owner: str = OWNER,
    dry_run: bool = False,
    api: Any = None,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Open a pull request with results in a model's card and its ``.eval_results``, in one commit.

    Args:
        results: the results of one model on complete tasks, from `report`.
        repo: the model's repository, ``owner/name``.
        dataset_owner: the owner of the benchmarks' datasets on the Hub.
        dry_run: return the change as a unified diff instead; this needs no login.
        api: a `huggingface_hub.HfApi` by default, with the login of ``hf auth login`` or ``HF_TOKEN``.
        sleep: waits for some seconds before the next try.

    Returns:
        The address of the pull request, or the diff; empty if the model has the results.

    Raises:
        DataError: as `write_model_card`, or `repo` is not a valid name or is a dataset.
        StorageError: the model does not exist, or the Hub denies access, cannot be reached, or fails.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    api = api or HfApi()
    check_repo_name(repo)
    with TemporaryDirectory() as work:

        def download() -> tuple[str, Path]:
            head, folder = _head(repo, api), Path(mkdtemp(dir=work))
            api.snapshot_download(
                repo, revision=head, allow_patterns=["README.md", f"{FOLDER}/vl-assay-*"], local_dir=folder
            )
            return head, folder

        head, folder = call_hub(download, f"read {repo}", repo, sleep=sleep)
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        changed = write_model_card(folder / "README.md", results, dataset_owner=dataset_owner)
        files = {path.relative_to(folder).as_posix(): path for path in changed}
        if dry_run:
            return "".join(_diff(name, before.get(path, b""), path.read_bytes()) for name, path in files.items())
        if not files:
            return ""
        commit = {
            "operations": [CommitOperationAdd(name, path) for name, path in files.items()],
            "commit_message": TITLE,
            "commit_description": _DESCRIPTION,
            "parent_commit": head,
            "create_pr": True,
        }
        # Tried once: a commit whose answer was lost has opened its pull request.
        check = f"the pull request may be open already: look at {api.endpoint}/{repo}/discussions, and only if not, "
        return call_hub(
            lambda: api.create_commit(repo, **commit).pr_url, f"write {repo}", repo, attempts=1, before_retry=check
        )


def _head(repo: str, api: Any) -> str:
    """Return the newest commit of a model; raise `DataError` if the repository is a dataset."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        return api.model_info(repo).sha
    except RepositoryNotFoundError as error:
        if isinstance(error, GatedRepoError) or not api.repo_exists(repo, repo_type="dataset"):
            raise
        raise DataError(f"{repo} is a dataset; results go to the repository of a model") from error


def _diff(name: str, old: bytes, new: bytes) -> str:
    before, after = (content.decode(errors="replace").splitlines(keepends=True) for content in (old, new))
    return "".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))
