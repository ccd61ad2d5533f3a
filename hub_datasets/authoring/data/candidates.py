"""Candidates: captions made of a true one, which people then judge; the file between `generate` and `review`.

JSON lines, an object each:

    {"id": "17/replace_obj", "image": "images/17.jpg", "caption": "a cat on a mat", "candidate": "a dog on a mat",
     "kind": "replace_obj", "is_positive": false, "source": "some-model", "detail": {"old": "cat", "new": "dog"}}

`image` is a URL or a path, which is relative to the file's folder, or "" where there is none. A hard positive
(`is_positive`) is meant to be true of the image, a hard negative not to be.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ....metrics.common.errors import DataError
from ....metrics.common.storage import write_text

if TYPE_CHECKING:
    from .pairs import Pair

CANDIDATES_FILE = "candidates.jsonl"


class Candidate(NamedTuple):
    """A caption made of a true one.

    Attributes:
        id: different for each candidate.
        image: URL or path of the image, relative to the folder of the candidates' file; "" where there is none.
        caption: the true caption.
        candidate: what was made of it.
        kind: how, such as ``"replace_obj"``.
        is_positive: whether it is meant to be true of the image as well.
        source: the model or the rule that made it.
        detail: what else is known, such as the words that were replaced.
    """

    id: str
    image: str
    caption: str
    candidate: str
    kind: str
    is_positive: bool
    source: str
    detail: Mapping[str, Any]


def read_candidates(path: str | Path) -> list[Candidate]:
    """The candidates of a file, or of ``candidates.jsonl`` in a folder, in its order.

    Raises:
        DataError: there is no such file, a line is no candidate, or an id comes twice; the message names the line.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        path = path / CANDIDATES_FILE
    try:
        # Not splitlines, which would also break a line at the separators that a caption may hold.
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeError) as error:
        raise DataError(
            f"{path} cannot be read as candidates: {error}; `vl-assay generate` writes such files"
        ) from error
    found = [_read(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    twice = [id for id, times in Counter(candidate.id for candidate in found).items() if times > 1]
    if twice:
        raise DataError(f"{path}: the id {twice[0]!r} comes more than once; every candidate needs an id of its own")
    return found


def write_candidates(candidates: Sequence[Candidate], path: str | Path) -> None:
    """Write candidates as JSON lines, atomically; `read_candidates` reads them again.

    Raises:
        StorageError: the file cannot be written.
    """
    write_text(Path(path), "".join(json.dumps(each._asdict(), ensure_ascii=False) + "\n" for each in candidates))


def to_pairs(candidates: Sequence[Candidate]) -> list[Pair]:
    """The hard negatives as pairs of a true caption and a negative one, with the kind as category, in their order."""
    from .pairs import Pair

    return [
        Pair(each.id, each.image, each.caption, each.candidate, each.kind)
        for each in candidates
        if not each.is_positive
    ]


_TYPES = {**dict.fromkeys(Candidate._fields, str), "is_positive": bool, "detail": dict}


def _read(path: Path, number: int, line: str) -> Candidate:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise DataError(f"{path}: line {number} is no JSON ({error}); mend or remove it") from error
    if not isinstance(fields, dict):
        raise DataError(f"{path}: line {number} is no JSON object; a candidate has {', '.join(_TYPES)}")
    fields.setdefault("detail", {})
    for name, kind in _TYPES.items():
        if not isinstance(fields.get(name), kind):
            raise DataError(
                f"{path}: line {number} has {fields.get(name)!r} as {name!r}, which must be a JSON "
                f"{ {str: 'string', bool: 'boolean', dict: 'object'}[kind] }"
            )
    return Candidate(**{name: fields[name] for name in _TYPES})
