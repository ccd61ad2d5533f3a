"""Upload a dataset repository or a metric's Space to the Hub, in one commit.

A dataset gets an ``eval.yaml``, with which the Hub knows a benchmark from other datasets, its tasks and what runs them.
The Hub shows results only for benchmarks and frameworks on lists that its team keeps (documentation of evaluation
results, beta): "vl-assay" has to be added there by a pull request first, and each benchmark on request. Without that
the file does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..metrics.errors import DataError, StorageError
from ._benchmarks import get_benchmark
from ._repository import BUILD_FILE, read_build

EVAL_FILE = "eval.yaml"
FRAMEWORK = "vl-assay"


@dataclass(frozen=True)
class Plan:
    """What a publication would do.

    Args:
        repo: the repository on the Hub, ``owner/name``.
        kind: "dataset" or "space".
        files: path in the repository and size in bytes of each file, sorted by path.
        message: the commit's message.
        written: content of the files among them that do not lie in the folder, by path: a dataset's ``eval.yaml``.
    """

    repo: str
    kind: str
    files: tuple[tuple[str, int], ...]
    message: str
    written: Mapping[str, bytes] = field(default_factory=dict)

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
    files = {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    written = {}
    if kind == "dataset" and EVAL_FILE not in files and (content := eval_yaml(folder)):
        written[EVAL_FILE] = content.encode()
    files |= {path: len(content) for path, content in written.items()}
    return Plan(repo, kind, tuple(sorted(files.items())), f"Publish {folder.resolve().name}", written)


def eval_yaml(folder: str | Path) -> str | None:
    """The ``eval.yaml`` of a dataset repository: an entry for each configuration in it and task that judges it.

    Tasks are those that are scored when only the benchmark is named, or all where the repository has none of these. An
    entry's `id` is the task's name, followed by "_" and the configuration's where that is another.

    Args:
        folder: what ``vl-assay build`` wrote.

    Returns:
        The file's content, or None where no task judges what is in the repository.

    Raises:
        DataError: the folder was not written by a build.
    """
    import yaml
    from huggingface_hub import DatasetCard

    record = read_build(folder)
    benchmark = get_benchmark(record["benchmark"])
    chosen = benchmark.select_built(record["configs"])
    if not chosen:
        return None
    card = DatasetCard.load(Path(folder) / "README.md")
    what = {
        "name": card.data.to_dict().get("pretty_name") or record["benchmark"],
        "description": _first_paragraph(card.text),
        "evaluation_framework": FRAMEWORK,
        "tasks": [
            {
                "id": task.name if task.name == config else f"{task.name}_{config}",
                "config": config,
                "split": benchmark.split,
            }
            for task, configs in chosen
            for config in configs
        ],
    }
    return yaml.safe_dump(what, sort_keys=False, allow_unicode=True, width=120)


def _first_paragraph(text: str) -> str:
    """The first paragraph of a card below its title, on one line."""
    paragraphs = (paragraph.strip() for paragraph in text.split("\n\n"))
    return next((" ".join(p.split()) for p in paragraphs if p and not p.startswith(("#", "<!--"))), "")


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
    operations = [CommitOperationAdd(path, what.written.get(path, str(Path(folder) / path))) for path, _ in what.files]
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
