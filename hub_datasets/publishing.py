"""Upload a dataset repository or a metric's Space to the Hub, in one commit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..metrics.errors import DataError, StorageError
from .repository import BUILD_FILE


@dataclass(frozen=True)
class Plan:
    """What a publication would do.

    Args:
        repo: the repository on the Hub, ``owner/name``.
        kind: "dataset" or "space".
        files: path in the repository and size in bytes of each file, sorted by path.
        message: the commit's message.
    """

    repo: str
    kind: str
    files: tuple[tuple[str, int], ...]
    message: str

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for _, size in self.files)


def plan(folder: str | Path, repo: str) -> Plan:
    """Say what `publish` would upload, without the network.

    Args:
        folder: what ``vl-assay build`` wrote, or the folder of a metric or an app with its card.
        repo: where to, ``owner/name``.

    Raises:
        DataError: the folder is neither, or `repo` is no name on the Hub.
    """
    folder = Path(folder)
    kind = _kind(folder)
    _check_repo(repo)
    files = sorted(
        (path.relative_to(folder).as_posix(), path.stat().st_size)
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    return Plan(repo, kind, tuple(files), f"Publish {folder.resolve().name}")


def publish(folder: str | Path, repo: str, *, private: bool = False, api: Any = None) -> str:
    """Upload a folder to the Hub: the repository is made where it is missing, and all files come in one commit.

    Nothing that lies there already is deleted. The login is that of ``hf auth login`` or of ``HF_TOKEN``.

    Args:
        folder: what ``vl-assay build`` wrote, or the folder of a metric or an app with its card.
        repo: where to, ``owner/name``.
        private: whether a new repository is private.
        api: what speaks to the Hub; a `huggingface_hub.HfApi` by default.

    Returns:
        The address of the commit.

    Raises:
        DataError: the folder is neither, or `repo` is no name on the Hub.
        StorageError: the Hub cannot be reached, or does not let the user write there.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    what = plan(folder, repo)
    api = api or HfApi()
    operations = [CommitOperationAdd(path, str(Path(folder) / path)) for path, _ in what.files]
    space = {"space_sdk": "gradio"} if what.kind == "space" else {}
    try:
        api.create_repo(repo, repo_type=what.kind, private=private, exist_ok=True, **space)
        commit = api.create_commit(repo, operations, commit_message=what.message, repo_type=what.kind)
    except (HfHubHTTPError, LocalTokenNotFoundError, OSError) as error:
        raise StorageError(
            f"{repo} could not be written on the Hub ({error}); log in with `hf auth login`, and check the network and "
            "that the repository is yours. Nothing was changed there"
        ) from error
    return commit.commit_url


def _kind(folder: Path) -> str:
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; name what `vl-assay build` wrote, or a metric's folder")
    if (folder / BUILD_FILE).is_file():
        return "dataset"
    card = folder / "README.md"
    if card.is_file() and "\nsdk: gradio\n" in card.read_text(encoding="utf-8"):
        return "space"
    raise DataError(
        f"{folder} is neither a dataset that `vl-assay build` wrote (it has no {BUILD_FILE}) nor a Space (its card "
        "names no sdk)"
    )


def _check_repo(repo: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise DataError(f"{repo!r} is no repository on the Hub ({error}); write owner/name") from error
    if repo.count("/") != 1:
        raise DataError(f"{repo!r} names no owner; write owner/name")
