"""Which models may be run again: public repositories of the Hub at a commit, with weights in safetensors.

What a submission says of its model comes from a stranger. Nothing that is downloaded here can run code: no pickles and
no Python files, and no file in a folder of the repository.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from ...hub_datasets.hub.calls import call_hub
from ...metrics.common.errors import StorageError, SubmissionError
from ..submissions.sandbox import readable
from ..submissions.uploads import positive_setting

FACTS = ("checkpoint", "revision", "family", "dtype", "settings")
_WEIGHTS = ".safetensors"
_SUFFIXES = (_WEIGHTS, ".json", ".jinja", ".txt", ".model")
_MOST_FILES = 200
_Result = TypeVar("_Result")


def public_files(model: Mapping[str, Any]) -> list[str]:
    """The names of the files of a model that is run again.

    ``VL_ASSAY_RERUN_LIMIT`` limits their size, in gigabytes (20 by default).

    Args:
        model: the `FACTS` in the metadata of its predictions.

    Raises:
        SubmissionError: it is no such model, or too large, or the Hub cannot be asked.
    """
    from huggingface_hub import HfApi

    name, api = check_model(model), HfApi(token=False)  # without a token, so that what is found is public
    found = _call(
        lambda: api.model_info(name, revision=model["revision"], files_metadata=True, timeout=30),
        f"look up {name}",
        name,
    )
    if found.private or found.gated or found.disabled:
        raise SubmissionError(f"{name} is private, gated or disabled on the Hub; only what everybody can load is run")
    files = {
        file.rfilename: file.size
        for file in found.siblings or ()
        if "/" not in file.rfilename and PurePosixPath(file.rfilename).suffix in _SUFFIXES
    }
    if not any(file.endswith(_WEIGHTS) for file in files) or None in files.values() or len(files) > _MOST_FILES:
        raise SubmissionError(f"{name} has no weights in safetensors at the top of its repository; pickles are not run")
    size, limit = sum(size or 0 for size in files.values()), positive_setting("VL_ASSAY_RERUN_LIMIT", 20)
    if size > limit * 10**9:
        raise SubmissionError(
            f"{name} has {size / 1e9:,.1f} GB; VL_ASSAY_RERUN_LIMIT allows {limit}. Raise it where the worker has room"
        )
    return sorted(files)


def check_model(model: Mapping[str, Any]) -> str:
    """The name of a repository of the Hub, if the facts can be of a model that is loaded from it at a commit.

    Raises:
        SubmissionError: they cannot: a folder, a file, a server, or a model that ships with VL-Assay.
    """
    name, revision, settings = (model.get(fact) for fact in ("checkpoint", "revision", "settings"))
    if not _is(r"\w[\w.-]*/\w[\w.-]*", name) or not _is("[0-9a-f]{40}", revision):
        shown = readable(f"checkpoint {name!r}, revision {revision!r}", 200)
        raise SubmissionError(
            f"the predictions are of no public model of the Hub at a commit ({shown}); folders, precomputed "
            "predictions and models behind servers cannot be run again. Ask the submitter to publish "
            "the model, and to submit predictions of OWNER/NAME"
        )
    pairs = settings.items() if isinstance(settings, dict) else [(None, None)]
    is_plain = all(_is("[a-z_]{1,40}", key) and isinstance(value, str) for key, value in pairs)
    if not is_plain or not all(_is("[a-z0-9_]{1,40}", model.get(fact)) for fact in ("family", "dtype")):
        raise SubmissionError(f"the settings, family or dtype of {name} are none that `vl-assay predict` writes")
    return str(name)


def download(model: Mapping[str, Any], cache: Path, end: float) -> None:
    """Put the `public_files` of a model into a new cache of huggingface_hub, without a token.

    Raises:
        SubmissionError: as `public_files`; or a download failed, or was not begun at `end`, of ``time.monotonic``.
    """
    from huggingface_hub import hf_hub_download

    name = check_model(model)
    options: Any = {"revision": model["revision"], "cache_dir": cache, "token": False}
    for file in public_files(model):
        if time.monotonic() > end:
            raise SubmissionError(f"the files of {name} took longer to download than a re-run may take")
        _call(lambda file=file: hf_hub_download(name, file, **options), f"download {file} of {name}", name)


def _call(action: Callable[[], _Result], task: str, name: str) -> _Result:
    """See `call_hub`; its errors are reasons why a model cannot be run again."""
    try:
        return call_hub(action, task, name)
    except StorageError as error:
        raise SubmissionError(readable(str(error), 600)) from error


def _is(pattern: str, text: Any) -> bool:
    return isinstance(text, str) and len(text) <= 200 and re.fullmatch(pattern, text, re.ASCII) is not None
