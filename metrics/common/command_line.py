"""The console command ``vl-assay``: the commands of all packages, found through their entry points."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import entry_points

import typer

from .errors import VLAssayError

# What typer exits with after Ctrl-C.
_INTERRUPTED = 130
_HELP = """
What vision-language models really understand of composition, measured honestly.

Start with `vl-assay run`: it scores a small real CLIP model on rendered scenes, offline, in seconds. Then give a model
and benchmarks of your own: `vl-assay run openai/clip-vit-base-patch32 sugarcrepe`.
"""


def build_app() -> typer.Typer:
    """The command line of all installed packages, in alphabetical order."""
    app = typer.Typer(
        help=_HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        add_completion=False,
    )
    for entry_point in sorted(entry_points(group="vl_assay.commands"), key=lambda entry_point: entry_point.name):
        app.add_typer(entry_point.load())
    return app


# Called before a process of a distributed run leaves without the interpreter's shutdown, and so without `atexit`.
LEAVING: list[Callable[[], None]] = []


def main() -> None:
    """Run the command line; a `VLAssayError` becomes a message and exit code 1."""
    if not sys.stderr.isatty():
        # The libraries' progress bars would fill a log file with partial lines.
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # OpenMP's threads wait for each other by spinning: where another program has a core, a model ran at half its speed
    # or less. To be set before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        build_app()()
    except VLAssayError as error:
        if os.environ.get("RANK", "0") == "0":  # of several processes only one prints
            print(f"error: {printable(str(error))}", file=sys.stderr)
        sys.exit(1)
    except SystemExit as leaving:
        if leaving.code == _INTERRUPTED:
            print("interrupted; finished work is kept: run the same command to continue", file=sys.stderr)
        if not leaving.code and os.environ.get("WORLD_SIZE", "1") != "1":
            # Torch's threads sometimes abort the interpreter at the end of a distributed run, which the launcher
            # reports as a failure. Everything is written, so skip the interpreter's shutdown.
            for leave in LEAVING:
                leave()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        raise


def printable(text: str) -> str:
    """A text of others, such as a server's answer, without signs that command a terminal.

    >>> printable("done\\x1b[2J\\nnext")
    'done [2J\\nnext'
    """
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


if __name__ == "__main__":
    main()
