"""Options that several commands share, and the parsing of `NAME=VALUE`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..metrics.common.command_line import data_option, statistics_option
from ..metrics.common.errors import VLAssayError

DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Your own copy of the sources (see the benchmark's card); by default the folder of its name in "
        "VL_ASSAY_DATA_DIR, or without that variable the one used last; else they are downloaded."
    ),
]
AllowMissing = Annotated[
    bool,
    data_option("--allow-missing", help="Keep examples whose image is missing or damaged, and count and list them."),
]
Ties = Annotated[
    str | None,
    statistics_option(
        help="How a tie counts: wrong, half or right. By default wrong, and not brittle, as in the papers."
    ),
]
Confidence = Annotated[float, statistics_option(help="Confidence level of the intervals.")]
PredictionsFiles = Annotated[
    list[Path], typer.Argument(metavar="PREDICTIONS...", help="Files or folders of predictions.")
]
NoImages = Annotated[bool, typer.Option("--no-images", help="Leave the images out: captions only.")]
Options = Annotated[
    list[str] | None,
    data_option("--option", "-o", metavar="NAME=VALUE", help="A field of the dataset's configuration; repeatable."),
]


def parse_options(pairs: list[str] | None, *, allow_missing: bool) -> dict[str, Any]:
    """``["seed=1", "with_images=false"]`` → ``{"seed": 1, "with_images": False}``."""
    import yaml

    options: dict[str, Any] = {"allow_missing": True} if allow_missing else {}
    for pair in pairs or ():
        name, separator, value = pair.partition("=")
        problem = "" if separator else f"option {pair!r} has no value"
        try:
            options[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            problem = f"the value of option {pair!r} cannot be read"
        if problem:
            raise VLAssayError(f"{problem}; write NAME=VALUE, such as seed=1")
    return options


def parse_columns(pairs: list[str] | None) -> dict[str, str]:
    """``["positive=caption"]`` → ``{"positive": "caption"}``."""
    columns = {}
    for pair in pairs or ():
        name, separator, value = pair.partition("=")
        if not separator or not value:
            raise VLAssayError(f"--column {pair!r} names no column; write OURS=THEIRS, such as {name or 'id'}=title")
        columns[name] = value
    return columns
