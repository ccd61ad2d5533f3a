"""The command precomputed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...hub_datasets.options import AllowMissing, DataDir, Options, parse_options

app = typer.Typer()


@app.command()
def precomputed(
    template: Annotated[
        str, typer.Option(metavar="BENCHMARK[/PART]", help="What the file is for: its ids, captions and phrases.")
    ],
    out: Annotated[Path, typer.Option(help="A new file, in JSON lines.")] = Path("predictions.jsonl"),
    data_dir: DataDir = None,
    allow_missing: AllowMissing = False,
    option: Options = None,
) -> None:
    """Write a template of the file that `precomputed:FILE` reads, to fill in with the predictions of any system.

    Examples: `vl-assay precomputed --template tricd/val` · `vl-assay run precomputed:predictions.jsonl tricd/val`
    """
    from ...hub_datasets.reports.predictions_template import write_template

    count = write_template(template, out, data_dir=data_dir, options=parse_options(option, allow_missing=allow_missing))
    typer.echo(f"{out}: {count:,} records with null to replace; then: vl-assay run precomputed:{out} {template}")
