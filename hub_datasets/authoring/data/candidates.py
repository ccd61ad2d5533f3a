"""Candidates: captions made of a positive caption, for people to review; see `made` for the columns of their file.

{"id": "17/replace_obj", "image": "images/17.jpg", "caption": "a cat on a mat", "candidate": "a dog on a mat",
 "kind": "replace_obj", "is_positive": false, "source": "some-model", "detail": {"old": "cat", "new": "dog"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.errors import DataError
from ....metrics.common.storage import with_home
from .made import CANDIDATES_FILE
from .tables import read_records


class Candidate(NamedTuple):
    """A caption made of a positive caption.

    Attributes:
        id: different for each candidate.
        image: URL or path of the image, relative to the folder of the candidates' file; "" for no image.
        source: the model or the rules that made it.
        detail: further facts, such as the words that were replaced.
    """

    id: str
    image: str
    caption: str
    candidate: str
    kind: str
    is_positive: bool
    source: str
    detail: Mapping[str, Any] = {}


def read_candidates(path: str | Path) -> list[Candidate]:
    """Read the candidates of a file, or of ``candidates.jsonl`` in a folder, in their order.

    Raises:
        DataError: the file does not exist, or see `read_records`.
    """
    path = with_home(path)
    path = path / CANDIDATES_FILE if path.is_dir() else path
    if not path.is_file():
        raise DataError(f"there are no candidates in {path}; `vl-assay generate` writes such files")
    return read_records(path, Candidate)
