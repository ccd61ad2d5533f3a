"""A benchmark's builder as a script of its own, for `datasets` up to 3.6 with ``trust_remote_code=True``."""

from __future__ import annotations

import re
from pathlib import Path

from ...metrics.common.storage import write_text
from ..core.benchmarks import builder_modules

_FUTURE = "from __future__ import annotations\n"


def write_script(benchmark: str, out: str | Path) -> Path:
    """Write ``builder.py`` and the modules that it imports into one folder.

    `datasets` copies those modules of a script's folder that the script itself imports. So imports from other folders
    become imports of siblings, and the script imports all modules.

    Args:
        benchmark: its name.
        out: the folder; made if it is not there.

    Returns:
        The path of the script.

    Raises:
        UnknownNameError: no such benchmark.
        StorageError: `out` cannot be written.
    """
    script, *modules = builder_modules(benchmark)
    for path in (script, *modules):
        text = re.sub(r"^from \.\.(?:\w+\.)*(\w+) import", r"from .\1 import", path.read_text("utf-8"), flags=re.M)
        if path == script:
            imports = (f"from .{module.stem} import __name__ as _\n" for module in modules)
            text = text.replace(_FUTURE, "".join([_FUTURE, "\n", *imports]), 1)
        write_text(Path(out) / path.name, text)
    return Path(out) / script.name
