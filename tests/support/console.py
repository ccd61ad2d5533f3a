"""The command line, in the process of the test."""

import contextlib
import re
from functools import cache
from unittest.mock import patch

from typer.main import get_command
from typer.testing import CliRunner

from vl_assay.metrics.common.command_line import build_app

# Put together once: at each call that would take longer than most commands.
_app, _command = cache(build_app), cache(get_command)


def invoke(*words, folder=".", width=120):
    """What `vl-assay` with these words gives in a folder, on a terminal of so many columns."""
    with contextlib.chdir(folder), patch("typer.testing._get_command", _command):
        return CliRunner().invoke(_app(), list(map(str, words)), env={"COLUMNS": str(width)})


def command_of(name):
    """The command with a name such as "run" or "leaderboard import"."""
    command = _command(_app())
    for word in name.split():
        command = command.commands[word]
    return command


def blocks(path, language):
    """The code blocks of a document in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)
