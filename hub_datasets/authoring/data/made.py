"""The folder format of the authoring commands: what `generate`, `review`, `refine` and `new-benchmark` write and read.

A folder has one or more of these tables, as JSON lines. The first one that it has, in this order, is its content:

| file | written by | columns |
|---|---|---|
| pairs.jsonl | refine, new-benchmark | id, image, positive, negative, category |
| reviewed.jsonl | review --summary | the columns of candidates.jsonl, and status, text, decisions |
| candidates.jsonl | generate | id, image, caption, candidate, kind, is_positive, source, detail |

- `positive` and `caption` are true of the image. `negative` is meant to be false. `candidate` is meant to be true if
  `is_positive`, else false.
- A reviewed candidate counts only if its `status` is ``"kept"``; then its caption is `text`, which may be corrected.
- `image` is a path relative to the table's folder, an address, or another name, such as a content key; "" for none.

Other names than these work, too, if the file itself is given instead of its folder: the columns decide.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError

PAIRS_FILE, REVIEWED_FILE, CANDIDATES_FILE = MADE_FILES = ("pairs.jsonl", "reviewed.jsonl", "candidates.jsonl")
JOURNAL_SUFFIX = ".decisions.jsonl"
KEPT = "kept"

# A row with its key in a JSON object, or its number from 0.
Keyed = tuple[str, Mapping[str, Any]]


def made_table(folder: Path) -> Path | None:
    """Return the table with the content of a folder, None if the folder is not in this format.

    Raises:
        DataError: people have reviewed the candidates, but the results were not written.
    """
    table = next((folder / name for name in MADE_FILES if (folder / name).is_file()), None)
    if table and table.name == CANDIDATES_FILE and table.with_suffix(JOURNAL_SUFFIX).is_file():
        raise DataError(
            f"the candidates in {folder} are under review; write the results first, with `vl-assay review {folder} "
            "--summary`"
        )
    return table


def hard_negatives(source: str, rows: Sequence[Keyed]) -> Sequence[Keyed]:
    """Return the hard negatives that count among candidates, with a column `negative`; return rows of pairs unchanged.

    Raises:
        DataError: none counts.
    """
    if not rows or not {"candidate", "is_positive"} <= rows[0][1].keys():
        return rows
    negatives = [
        (key, {**row, "negative": row.get("text" if "status" in row else "candidate")})
        for key, row in rows
        if not row.get("is_positive") and row.get("status", KEPT) == KEPT
    ]
    if not negatives:
        raise DataError(
            f"{source} has no hard negatives: its candidates are hard positives, or the review kept none; make other "
            "candidates, or review them again"
        )
    return negatives


def image_file(image: str, folder: Path | None) -> str:
    """Return the path of an image that a table in `folder` names; if it is not a file, return the name unchanged."""
    return str(folder / image) if image and folder is not None and _is_file(folder / image) else image


def relative_image(image: str, folder: Path) -> str:
    """Return the path of an image relative to a folder; return addresses and other names unchanged."""
    if not image or "://" in image or not _is_file(Path(image)):
        return image
    return Path(os.path.relpath(Path(image).resolve(), folder.resolve())).as_posix()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False
