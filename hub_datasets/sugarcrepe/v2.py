"""The rows of `sugarcrepe/v2`, in ``v2.json``.

``{"texts": their `texts_hash` in the release, "keys": {category: keys of its released file, separated by spaces}}``
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

NAME = "v2"
FILE = Path(__file__).with_name("v2.json")
_RECORD = json.loads(FILE.read_text(encoding="utf-8"))
TEXTS: str = _RECORD["texts"]
IDS = frozenset(f"{category}/{key}" for category, keys in _RECORD["keys"].items() for key in keys.split())


def texts_hash(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return the SHA-256 of the id, the caption and the negative of some rows, in whatever order."""
    return hashlib.sha256(json.dumps(sorted(map(list, rows))).encode()).hexdigest()
