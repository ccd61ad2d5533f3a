"""Loading third-party models without running their code.

Files of a model can name Python files of its folder or repository. `transformers` asks on the terminal whether to run
them, unless it gets ``trust_remote_code=False``; other libraries pass ``True`` if a file of the model requests it.
"""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any

from ...metrics.common.errors import ModelError
from ...metrics.common.storage import refuse_pointer

_NEEDS_CODE = (
    "it needs Python code of its folder or repository, which never runs here; save it with a class of transformers, or "
    "score it with its own script and evaluate the predictions with precomputed:FILE"
)
ADAPTER = (
    "it has an adapter (adapter_config.json), whose base may be elsewhere; merge it into the weights with "
    "model.merge_and_unload().save_pretrained(FOLDER), and load that folder"
)
_INDEXES = (".safetensors.index.json", ".bin.index.json")
_forbids_code: ContextVar[bool] = ContextVar("forbids_code", default=False)


def load_part(loader: Any, checkpoint: str | Path, **arguments: Any) -> Any:
    """Return ``loader.from_pretrained(checkpoint, **arguments)``, loaded without code of the model.

    Args:
        loader: a class of `transformers`.
        checkpoint: a folder or a Hub repository.
        arguments: of ``from_pretrained``.

    Raises:
        ModelError: the part needs code of the model, or the folder is refused by `check_folder`.
        Exception: whatever the loader raises.
    """
    check_folder(Path(checkpoint))
    with no_model_code():
        return loader.from_pretrained(checkpoint, trust_remote_code=False, **arguments)


@contextmanager
def no_model_code() -> Iterator[None]:
    """Refuse to run Python files of a model within the block, even for a library that asks `transformers` to.

    Raises:
        ModelError: a model needs such a file.
    """
    from transformers import dynamic_module_utils

    _guard(dynamic_module_utils)
    token = _forbids_code.set(True)
    try:
        yield
    except ModelError:
        raise
    except ValueError as error:
        if "trust_remote_code" in str(error):
            raise ModelError(_NEEDS_CODE) from error
        raise
    finally:
        _forbids_code.reset(token)


def _guard(module: Any) -> None:
    """Make the two functions by which `transformers` runs a file of a model, and asks for it, obey `_forbids_code`."""
    if hasattr(module, "input"):
        return
    for name, function in (("input", builtins.input), ("get_class_in_module", module.get_class_in_module)):

        @wraps(function)
        def guarded(*arguments: Any, _function: Any = function, **options: Any) -> Any:
            if _forbids_code.get():
                raise ModelError(_NEEDS_CODE)
            return _function(*arguments, **options)

        setattr(module, name, guarded)


def check_folder(folder: Path) -> None:
    """Raise `ModelError` if the files of a model's folder lead to weights that the hash of the folder does not cover.

    These are links and names of weights that lead out of the folder or to hidden files, and adapters of peft, which
    name another model. Links within the Hub's cache may leave a snapshot. A path where nothing is passes: it names a
    repository. Files, in place of a folder, and pointers of git-lfs, in place of files, are refused too.
    """
    if folder.is_file():
        check_file(folder)
        raise ModelError(_not_a_folder(folder))
    folder = folder.absolute()
    is_snapshot = folder.parent.name == "snapshots" and folder.parents[1].name.startswith("models--")
    home = (folder.parents[1] if is_snapshot else folder).resolve()
    for path in folder.rglob("*"):
        if path.is_file():
            check_file(path)
        if path.is_symlink() and not path.resolve().is_relative_to(home):
            raise ModelError(
                f"{path.relative_to(folder)} is a link to {path.resolve()}, outside the folder; copy the file there"
            )
        if path.name == "config.json":
            weights = read_json(path).get("transformers_weights")
            _check_names(path, [] if weights is None else [weights])
        elif path.name.endswith(_INDEXES):
            weights = read_json(path).get("weight_map")
            _check_names(path, weights.values() if isinstance(weights, dict) else [weights])
    if (folder / "adapter_config.json").exists():
        raise ModelError(ADAPTER)


def check_file(file: Path) -> None:
    """Raise `ModelError` if a file of a model is a pointer of git-lfs."""
    try:
        refuse_pointer(file)
    except ValueError as error:
        raise ModelError(f"{file.name}: {error}") from error


def _not_a_folder(file: Path) -> str:
    """Return how to use a file of weights, or another file, that was named in place of a model's folder."""
    if (file.parent / "config.json").is_file():
        return f"{file} is a file of a model; name its folder, {file.parent}"
    return (
        f"{file} is a file, and a model is a folder or a repository of the Hub. Weights of open_clip and its forks are "
        f"open_clip:MODEL -s pretrained={file}; files of X-VLM and MDETR are xvlm:FILE and mdetr:FILE. Save other "
        "models with save_pretrained(FOLDER), with their tokenizer and image processor"
    )


def _check_names(file: Path, names: Iterable[Any]) -> None:
    """Raise `ModelError` unless all names are bare names of visible files of weights."""
    for name in names:
        is_plain = isinstance(name, str) and re.fullmatch(r"[^./\\][^/\\]*", name)
        if not is_plain or not name.endswith((".safetensors", ".bin", *_INDEXES)):
            raise ModelError(
                f"{file.name} names {name!r} as weights; put the file beside it, as NAME.safetensors, and name it so"
            )


def read_json(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if it is missing or malformed, which the libraries report."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
