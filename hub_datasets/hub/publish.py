"""Upload a dataset repository, a metric's Space or the leaderboard to the Hub, in one commit.

A dataset that can be asked as multiple choice also gets what `multiple_choice.export` writes: these questions, and an
``eval.yaml``, which marks it as a benchmark on the Hub and names tasks and the framework that runs them, inspect-ai.
Other datasets get no such file, as the Hub takes only frameworks that its team has listed
(``docs/hub-registration.md``). A dataset of a benchmark of this package also gets the ``builder.py`` that made it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...metrics.common.errors import DataError, UnknownNameError
from ...metrics.modules.discovery import metric_names
from ..core.repository import BUILD_FILE, read_build
from .calls import call_hub, check_repo_name
from .multiple_choice import EVAL_FILE, export
from .spaces import CARRIED, PACKAGE, files_in, space_files

LEADERBOARD = "leaderboard"
BUILDER_FILE = "builder.py"
_BUILDER_NOTE = """

## Code

`builder.py` is the code that made these files. It needs the package VL-Assay. `load_dataset` reads the Parquet files
alone and does not run it.
"""


@dataclass(frozen=True)
class Publication:
    """The files of a publication.

    Args:
        repo: the repository on the Hub, ``owner/name``.
        kind: "dataset" or "space".
        contents: by path in the repository, sorted, each file to copy, or the content of a generated one: a card,
            pinned requirements.
        message: the commit's message.
        note: why a dataset has no ``eval.yaml``; may be empty.
        work: a folder with some of the files, which goes with the plan.
    """

    repo: str
    kind: str
    contents: Mapping[str, Path | bytes]
    message: str
    note: str = ""
    work: TemporaryDirectory[str] | None = None

    @property
    def files(self) -> tuple[tuple[str, int], ...]:
        """Path in the repository and size in bytes of each file, sorted by path."""
        return tuple(
            (path, len(content) if isinstance(content, bytes) else content.stat().st_size)
            for path, content in self.contents.items()
        )


def plan(what: str | Path, repo: str) -> Publication:
    """Return the files that `publish` would upload, without network access.

    Args:
        what: as for `publish`.
        repo: where to, ``owner/name``.

    Raises:
        DataError: as for `publish`.
    """
    folder = _folder(what)
    kind = _kind(folder)
    check_repo_name(repo)
    contents: dict[str, Path | bytes] = space_files(folder) if kind == "space" else {**files_in(folder)}
    if script := contents.get(f"{folder.resolve().name}.py"):
        # ``evaluate.load("owner/name")`` asks for name.py, whatever the metric is called.
        contents[f"{repo.partition('/')[2]}.py"] = script
    note, work = "", None
    if kind == "dataset" and EVAL_FILE not in contents:
        work = TemporaryDirectory(prefix="vl-assay-publish-")
        try:
            contents = _with_choices(folder, contents, repo, Path(work.name) / "choices")
        except (DataError, UnknownNameError) as error:
            note = f"other tools cannot run it ({error})"
    if kind == "dataset":
        contents |= _builder_files(read_build(folder)["benchmark"], contents, repo)
    return Publication(repo, kind, dict(sorted(contents.items())), f"Publish {folder.resolve().name}", note, work)


def _builder_files(benchmark: str, contents: Mapping[str, Path | bytes], repo: str) -> dict[str, bytes]:
    """Return ``builder.py`` of a benchmark, and the card with a section on it; empty for one of another package.

    Raises:
        DataError: the repository is called "builder", so that `datasets` would take the file for a loading script.
    """
    if not (PACKAGE / "hub_datasets" / benchmark / BUILDER_FILE).is_file() or BUILDER_FILE in contents:
        return {}
    if repo.endswith("/builder"):
        raise DataError(f"{repo} cannot hold {BUILDER_FILE}: `datasets` refuses NAME/NAME.py; choose another name")
    card = contents["README.md"]
    text = card if isinstance(card, bytes) else card.read_bytes()
    return {BUILDER_FILE: builder_code(benchmark).encode(), "README.md": text.rstrip() + _BUILDER_NOTE.encode()}


def builder_code(benchmark: str) -> str:
    """Return the text of a benchmark's ``builder.py`` with absolute imports, so that it runs from any folder."""
    code = (PACKAGE / "hub_datasets" / benchmark / BUILDER_FILE).read_text(encoding="utf-8")
    ours = "vl_assay.hub_datasets"
    for dots, package in (("...", "vl_assay"), ("..", ours), (".", f"{ours}.{benchmark}")):
        code = code.replace(f"\nfrom {dots}", f"\nfrom {package}.")
    return code


def _with_choices(folder: Path, contents: Mapping[str, Path | bytes], repo: str, work: Path) -> dict[str, Path | bytes]:
    """Return the files of a dataset with the output of `export`; raise a `DataError` if it has no choices."""
    from huggingface_hub import DatasetCard

    export(str(folder.absolute()), work, repo=repo)
    own, card = DatasetCard.load(folder / "README.md"), DatasetCard.load(work / "README.md")
    configs = [*own.data["configs"], *card.data["configs"]]
    if len(own.data["configs"]) == 1:
        configs[0] |= {"default": True}  # it still opens without a name
    own.data["configs"] = configs
    return {**files_in(work), **contents, "README.md": str(own).encode()}


def publish(what: str | Path, repo: str, *, private: bool = False, api: Any = None) -> str:
    """Upload to the Hub in one commit; the repository is created if it does not exist.

    A Space contains the parts of this package that it needs, see ``spaces``; the same commit deletes parts of an
    earlier version, and nothing else. The login comes from ``hf auth login`` or ``HF_TOKEN``.

    Args:
        what: a folder that ``vl-assay build`` wrote, the folder of a Space, the name of a metric (for its Space), or
            "leaderboard".
        repo: where to, ``owner/name``.
        private: whether a new repository is private.
        api: a `huggingface_hub.HfApi` by default.

    Returns:
        The address of the commit; its last part is the revision.

    Raises:
        DataError: there is nothing to publish, a Space needs what is not installed, or `repo` is not a valid name.
        StorageError: the Hub cannot be reached, or denies write access; the message has the next step.
    """
    return upload(plan(what, repo), private=private, api=api)


def upload(
    planned: Publication, *, private: bool = False, api: Any = None, sleep: Callable[[float], None] = time.sleep
) -> str:
    """Carry out a plan, see `publish`; `sleep` waits for some seconds before the next try."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    api, repo = api or HfApi(), planned.repo
    space = {"space_sdk": "gradio"} if planned.kind == "space" else {}

    def attempt() -> str:
        api.create_repo(repo, repo_type=planned.kind, private=private, exist_ok=True, **space)
        there = api.list_repo_files(repo, repo_type="space") if space else ()
        old = [path for path in there if path.startswith(CARRIED) and path not in planned.contents]
        operations = [
            *(CommitOperationAdd(path, content) for path, content in planned.contents.items()),
            *(CommitOperationDelete(path) for path in old),
        ]
        commit = api.create_commit(repo, operations, commit_message=planned.message, repo_type=planned.kind)
        return commit.commit_url

    return call_hub(attempt, f"write {repo}", repo, planned.kind, sleep=sleep)


def _folder(what: str | Path) -> Path:
    """Return the folder to publish: an existing one, or the folder of a Space by name."""
    if Path(what).is_dir():
        return Path(what)
    if str(what) == LEADERBOARD:
        return PACKAGE / "space_app"
    if str(what) in metric_names():
        return PACKAGE / "metrics" / what
    raise DataError(
        f"there is no folder {what}; name what `vl-assay build` wrote, a Space's folder, {LEADERBOARD!r}, or a metric: "
        f"{', '.join(metric_names())}"
    )


def _kind(folder: Path) -> str:
    if (folder / BUILD_FILE).is_file():
        return "dataset"
    card = folder / "README.md"
    if card.is_file() and "\nsdk: gradio\n" in card.read_text(encoding="utf-8"):
        return "space"
    raise DataError(
        f"{folder} is neither a dataset that `vl-assay build` wrote (it has no {BUILD_FILE}) nor a Space (its card "
        "names no sdk)"
    )
