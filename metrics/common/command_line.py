"""The console command ``vl-assay``: the commands of all packages, found through their entry points."""

from __future__ import annotations

import inspect
import io
import os
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points, version
from typing import Annotated, Any

import typer

from .errors import VLAssayError
from .imports import extra_with

# What typer exits with after Ctrl-C.
_INTERRUPTED = 130
_HELP = """
What vision-language models really understand of composition, measured honestly.

Start with `vl-assay run`: it scores a small real CLIP model on rendered scenes, offline, in seconds. Then give a model
and benchmarks of your own: `vl-assay run openai/clip-vit-base-patch32 sugarcrepe`.
"""


# Titles under which --help lists the commands of an entry point, in this order.
_PANELS = {
    **dict.fromkeys(
        ("model_wrappers", "predictions", "listing", "reproduce", "cache", "hub_datasets"),
        "Evaluate models",
    ),
    "authoring": "Make benchmarks",
    "finetune": "Fine-tune models",
    "space_app": "Leaderboard",
}
# `typer.Option` for options that are needed less often, which --help lists under titles of their own.
model_option, data_option, statistics_option, speed_option = (
    partial(typer.Option, rich_help_panel=title) for title in ("Model", "Data", "Statistics", "Speed and memory")
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"vl-assay {version('vl-assay')}")
        raise typer.Exit


def build_app() -> typer.Typer:
    """Build the command line of all installed packages; the commands that users need first are listed first."""
    app = typer.Typer(
        help=_HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    by_name = {entry_point.name: entry_point for entry_point in entry_points(group="vl_assay.commands")}
    for name in sorted(by_name, key=lambda name: ([*_PANELS, name].index(name), name)):
        typer_app = by_name[name].load()
        for registered in [*typer_app.registered_commands, *typer_app.registered_groups]:
            registered.rich_help_panel = registered.rich_help_panel or _PANELS.get(name)
        groups = [group.typer_instance for group in typer_app.registered_groups]
        for command in (command for typer_ in [typer_app, *groups] for command in typer_.registered_commands):
            command.help = _with_examples_listed(command.callback)
        for callback in (group.registered_callback for group in groups):
            callback.help = _with_examples_listed(callback.callback)
        app.add_typer(typer_app)
    return app


def _with_examples_listed(function: Callable[..., Any] | None) -> str:
    """Return the docstring of a command, with a line for each of the examples at its end."""
    text, _, examples = (inspect.getdoc(function) or "").partition("Example")
    lines = [" ".join(line.split()) for line in examples.partition(":")[2].split("·")]
    return f"{text}\n\nExamples:\n\n" + "\n".join(f"- {line}" for line in lines) if examples else text


def _options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version, and stop.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Define the options that apply to every command."""


def main() -> None:
    """Run the command line; a `VLAssayError` or a missing library becomes a message, and a warning a line of text."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A console or file in another encoding than UTF-8 lacks characters of the tables.
        sys.stdout.reconfigure(errors="replace")
    warnings.showwarning = _print_warning
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
    except ModuleNotFoundError as error:
        extra = extra_with(error.name or "")
        if not extra:
            raise
        print(
            f"error: this needs {error.name}, which is not installed: pip install 'vl-assay[{extra}]'", file=sys.stderr
        )
        sys.exit(1)
    except SystemExit as leaving:
        if leaving.code == _INTERRUPTED:
            print("interrupted; finished work is kept: run the same command to continue", file=sys.stderr)
        if not leaving.code and os.environ.get("WORLD_SIZE", "1") != "1":
            # Torch's threads sometimes abort the interpreter at the end of a distributed run, which the launcher
            # reports as a failure. Everything is written, so skip the interpreter's shutdown.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        raise


def _print_warning(message: Warning | str, *_: Any) -> None:
    """Print a warning as a sentence, without the file and line of code that raised it, from one process only."""
    if os.environ.get("RANK", "0") == "0":
        print("note:", " ".join(printable(str(message)).split()), file=sys.stderr)


def parse_shard(text: str) -> tuple[int, int]:
    """Parse a shard: ``"3/16"`` → (3, 16), the third of 16 shards, counted from 1.

    Raises:
        VLAssayError: anything else.
    """
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise VLAssayError(f"the shard is {text!r}; give its number from 1 and how many there are, such as 3/16")
    return int(match[1]), int(match[2])


def printable(text: str) -> str:
    """Return untrusted text, such as a server's answer, without control characters for the terminal.

    >>> printable("done\\x1b[2J\\nnext")
    'done [2J\\nnext'
    """
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


if __name__ == "__main__":
    main()
