"""Tables of cases, of which each is a file of the folder ``cases``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read_cases(name: str) -> Any:
    """What stands in ``cases/<name>.yaml``."""
    return yaml.safe_load(Path(__file__).with_name("cases").joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
