"""The command line, in the process of the test."""

from __future__ import annotations

import contextlib
import re

from typer.testing import CliRunner

from vl_assay.metrics.common.command_line import build_app


def invoke(*words, folder=".", width=120):
    """What `vl-assay` with these words gives in a folder, on a terminal of so many columns."""
    with contextlib.chdir(folder):
        return CliRunner().invoke(build_app(), list(map(str, words)), env={"COLUMNS": str(width)})


def blocks(path, language):
    """The code blocks of a document in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)
