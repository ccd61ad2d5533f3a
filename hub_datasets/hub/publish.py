"""Upload a dataset repository, a metric's Space or the leaderboard to the Hub, in one commit.

A dataset gets an ``eval.yaml``, which marks it as a benchmark on the Hub and names its tasks and the framework that
runs them. The Hub shows results only for benchmarks and frameworks that its team has listed (documentation of
evaluation results, beta): "vl-assay" has to be added there by a pull request, whose text is in
``docs/hub-registration.md``, and each benchmark on request. Until then the file has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...metrics.common.errors import DataError, StorageError
from ...metrics.modules.discovery import metric_names
from ..core.benchmarks import Benchmark, get_benchmark
from ..core.repository import BUILD_FILE, read_build
from .spaces import CARRIED, PACKAGE, files_in, space_files

EVAL_FILE = "eval.yaml"
LEADERBOARD = "leaderboard"
FRAMEWORK = "vl-assay"


@dataclass(frozen=True)
class Plan:
    """The files of a publication.

    Args:
        repo: the repository on the Hub, ``owner/name``.
        kind: "dataset" or "space".
        contents: by path in the repository, sorted, each file to copy, or the content of a generated one: a dataset's
            ``eval.yaml``, a Space's card and pinned requirements.
        message: the commit's message.
    """

    repo: str
    kind: str
    contents: Mapping[str, Path | bytes]
    message: str

    @property
    def files(self) -> tuple[tuple[str, int], ...]:
        """Path in the repository and size in bytes of each file, sorted by path."""
        return tuple(
            (path, len(content) if isinstance(content, bytes) else content.stat().st_size)
            for path, content in self.contents.items()
        )


def plan(what: str | Path, repo: str) -> Plan:
    """The files that `publish` would upload; needs no network.

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
    if kind == "dataset" and EVAL_FILE not in contents and (content := eval_yaml(folder)):
        contents[EVAL_FILE] = content.encode()
    return Plan(repo, kind, dict(sorted(contents.items())), f"Publish {folder.resolve().name}")


def check_repo_name(repo: str) -> None:
    """Raise `DataError` for what is no name of a repository on the Hub, ``owner/name``."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise DataError(f"{repo!r} is not a valid repository name ({error}); expected owner/name") from error
    if repo.count("/") != 1:
        raise DataError(f"{repo!r} has no owner; expected owner/name")


def eval_yaml(folder: str | Path, benchmark: Benchmark | None = None) -> str | None:
    """The ``eval.yaml`` of a dataset repository: an entry for each of its configurations and each task that scores it.

    The tasks are those that are scored by default, or all if the repository has none of these. An entry's `id` is the
    task's name, followed by "_" and the configuration's if that differs.

    Args:
        folder: what ``vl-assay build`` wrote.
        benchmark: its benchmark, if that is not in this package.

    Returns:
        The file's content, or None if no task scores the repository.

    Raises:
        DataError: the folder was not written by a build.
    """
    import yaml
    from huggingface_hub import DatasetCard

    record = read_build(folder)
    benchmark = benchmark or get_benchmark(record["benchmark"])
    chosen = benchmark.select_built(record["configs"])
    if not chosen:
        return None
    card = DatasetCard.load(Path(folder) / "README.md")
    paragraphs = (" ".join(paragraph.split()) for paragraph in card.text.split("\n\n"))
    what = {
        "name": card.data.to_dict().get("pretty_name") or record["benchmark"],
        "description": next((text for text in paragraphs if text and not text.startswith(("#", "<!--"))), ""),
        "evaluation_framework": FRAMEWORK,
        "tasks": [
            {
                "id": task.name if task.name == config else f"{task.name}_{config}",
                "config": config,
                "split": benchmark.split_for(task),
            }
            for task, configs in chosen
            for config in configs
        ],
    }
    return yaml.safe_dump(what, sort_keys=False, allow_unicode=True, width=120)


def publish(what: str | Path, repo: str, *, private: bool = False, api: Any = None) -> str:
    """Upload to the Hub in one commit; the repository is created if it does not exist.

    A Space contains the parts of this package that it needs, see ``spaces``; the same commit deletes those of an
    earlier version, and nothing else. The login is that of ``hf auth login`` or of ``HF_TOKEN``.

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
        StorageError: the Hub cannot be reached, or denies write access.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    planned = plan(what, repo)
    api = api or HfApi()
    operations: list[Any] = [CommitOperationAdd(path, content) for path, content in planned.contents.items()]
    space = {"space_sdk": "gradio"} if planned.kind == "space" else {}
    try:
        api.create_repo(repo, repo_type=planned.kind, private=private, exist_ok=True, **space)
        if space:
            there = api.list_repo_files(repo, repo_type="space")
            old = (path for path in there if path.startswith(CARRIED) and path not in planned.contents)
            operations += [CommitOperationDelete(path) for path in old]
        commit = api.create_commit(repo, operations, commit_message=planned.message, repo_type=planned.kind)
    except (HfHubHTTPError, LocalTokenNotFoundError, OSError) as error:
        raise StorageError(
            f"{repo} could not be written on the Hub ({error}); log in with `hf auth login`, and check the network and "
            "that the repository is yours. Nothing was changed there"
        ) from error
    return commit.commit_url


def _folder(what: str | Path) -> Path:
    """The folder to publish: an existing one, or that of a Space by its name."""
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
