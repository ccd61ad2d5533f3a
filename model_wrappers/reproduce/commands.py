"""The command reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...hub_datasets.commands import Confidence, DataDir, Options, Ties, parse_options
from ...hub_datasets.published.inventory import read_inventory, summarise
from ...metrics.common.errors import VLAssayError
from ..engine.commands import Dtype, parse_seeds

app = typer.Typer()


@app.command()
def reproduce(
    table: Annotated[str | None, typer.Argument(help="Its name, such as sugarcrepe-6; all are listed if none.")] = None,
    all_: Annotated[
        bool,
        typer.Option(
            "--all",
            help="A page for each paper, with all tables and figures; models run only with --use.",
        ),
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="With --all: download nothing.")] = False,
    models: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="A row of the table, by its label; repeatable.")
    ] = None,
    use: Annotated[
        list[str] | None, typer.Option(metavar="LABEL=MODEL", help="Another model for a row; repeatable.")
    ] = None,
    predictions: Annotated[Path | None, typer.Option(help="Use the predictions in this folder; run nothing.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the results; by default vl-assay-results/TABLE.")] = None,
    data_dir: DataDir = None,
    weights: Annotated[Path, typer.Option(help="Folder with weights that you downloaded (negclip.pth).")] = Path(),
    option: Options = None,
    dtype: Dtype = "float32",
    seeds: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Seeds of data drawn at random; values are means, with their deviation."),
    ] = None,
    ties: Ties = None,
    confidence: Confidence = 0.95,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Run the models of a paper's table and compare our values with the published ones.

    Reports for each published value whether it lies in our interval, which models need predictions from elsewhere or a
    manual download of weights, and why values may differ. `--predictions` on a folder of results combines several runs.

    Examples: `vl-assay reproduce` · `vl-assay reproduce sugarcrepe-6 --data-dir coco --models RN50 --models ViT-B-32` ·
    `vl-assay reproduce aro-2 --data-dir aro --use XVLM=precomputed:xvlm.csv` ·
    `vl-assay reproduce aro-5 --predictions vl-assay-results --ties right` · `vl-assay reproduce --all --out papers`
    """
    import json

    from . import everything, plans, report
    from . import reproduce as reproduction

    if all_:
        if table or models or seeds or json_:
            raise VLAssayError("--all is of every table: give it no table, --models, --seeds or --json")
        folder = out or Path("vl-assay-results/papers")
        outcomes = everything.reproduce_all(
            folder,
            use=plans.parse_use(use),
            predictions=predictions,
            data_dir=data_dir,
            weights=weights,
            offline=offline,
            options=parse_options(option, allow_missing=False),
            ties=ties,
            confidence=confidence,
        )
        made = sum(outcome.is_made for outcome in outcomes)
        typer.echo(
            f"{summarise(read_inventory())}; {made} of {len(outcomes)} made in this run, "
            f"see {folder / everything.INDEX}"
        )
        return
    if offline:
        raise VLAssayError("--offline is for --all; HF_HUB_OFFLINE=1 keeps other runs from downloading")
    if table is None:
        status = plans.status(weights)
        typer.echo(json.dumps(status, indent=1)) if json_ else report.print_tables(status)
        return
    result = reproduction.reproduce(
        table,
        models=models,
        use=plans.parse_use(use),
        predictions=predictions,
        out=out,
        weights=weights,
        ties=ties,
        confidence=confidence,
        seeds=parse_seeds(seeds),
        data_dir=data_dir,
        options=parse_options(option, allow_missing=False),
        dtype=dtype,
        progress=not json_,
    )
    if result is None:
        return
    typer.echo(report.as_json(result)) if json_ else report.print_reproduction(result)
    if result.failed:
        raise typer.Exit(1)
