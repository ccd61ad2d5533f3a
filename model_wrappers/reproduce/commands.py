"""The command reproduce."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from ...hub_datasets.options import Confidence, DataDir, Options, Ties, parse_options
from ...hub_datasets.published.inventory import read_inventory, summarise
from ...hub_datasets.published.tables import all_tables, get_table
from ...hub_datasets.sources.network import without_network
from ...metrics.common.documents import print_tables, simple_table
from ...metrics.common.errors import ModelError, VLAssayError
from ..engine.commands import Dtype, parse_seeds
from ..engine.distributed import join

app = typer.Typer()


@app.command()
def reproduce(
    table: Annotated[str | None, typer.Argument(help="Its name, such as sugarcrepe-6; all are listed if none.")] = None,
    all_: Annotated[
        bool,
        typer.Option("--all", help="A page for each paper, with all tables and figures; models run only with --use."),
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Download nothing.")] = False,
    models: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="A row of the table, by its label; repeatable.")
    ] = None,
    use: Annotated[
        list[str] | None, typer.Option(metavar="LABEL=MODEL", help="Another model for a row; repeatable.")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Use the predictions in this folder; run only the models of --use.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; by default --predictions, or vl-assay-results/TABLE.")
    ] = None,
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
) -> None:
    """Run the models of a paper's table and compare our values with the published ones.

    Begins with the published table, and with the rows and tasks that will be run.
    Reports for each published value whether it lies in our interval, which models need predictions from elsewhere or a
    manual download of weights, and why values may differ. `--predictions` on a folder of results combines several runs.

    Examples: `vl-assay reproduce` · `vl-assay reproduce sugarcrepe-6 --data-dir coco --models RN50 --models ViT-B-32` ·
    `vl-assay reproduce aro-2 --data-dir aro --use XVLM=precomputed:xvlm.csv` ·
    `vl-assay reproduce aro-5 --predictions vl-assay-results --ties right` · `vl-assay reproduce --all --out papers`
    """
    from . import papers
    from . import reproduce as reproduction

    arguments = {
        "use": parse_use(use),
        "predictions": predictions,
        "data_dir": data_dir,
        "weights": weights,
        "options": parse_options(option, allow_missing=False),
        "dtype": dtype,
        "ties": ties,
        "confidence": confidence,
    }
    drawn = parse_seeds(seeds)
    with without_network() if offline else nullcontext():
        if all_:
            if table or models or seeds:
                raise VLAssayError("--all is of every table: give it no table, --models or --seeds")
            folder = out or Path("vl-assay-results/papers")
            results = papers.reproduce_all(folder, **arguments)
            made = sum(result.is_made for result in results)
            states = summarise(read_inventory())
            typer.echo(f"{states}; {made} of {len(results)} made in this run, see {folder / papers.INDEX}")
            return
        if table is None:
            _print_tables(weights)
            return
        if join().is_main:
            _print_published(table, models, predictions is not None, arguments["use"], weights)
        result = reproduction.reproduce(table, models=models, out=out, seeds=drawn, **arguments)
    if result is None:
        return
    result.print()
    if result.failed:
        raise typer.Exit(1)


def _print_published(
    name: str, labels: list[str] | None, has_predictions: bool, use: Mapping[str, str], weights: Path
) -> None:
    """Print a published table, and what is run to compute it here."""
    from .reproduce import plan_rows

    table = get_table(name)
    rows = [(row.name, *row.printed) for row in table.rows]
    headers = ["", *(column.header or column.name for column in table.columns)]
    title = f"{table.paper.short}, Table {table.number}: published"
    print_tables([simple_table(headers, rows, title=title, numbers=True)])
    plans = {} if table.is_statistics else plan_rows(table, labels, use, weights)
    chosen = [row for row in table.rows if row.name in plans and not plans[row.name].why]
    if has_predictions or not chosen:
        return
    tasks = list(dict.fromkeys(task for row in chosen for task in table.tasks(row)))
    typer.echo(
        f"To be run: {len(chosen)} of {len(table.rows)} rows ({', '.join(row.name for row in chosen)}) on "
        f"{', '.join(tasks)}. Models and data that are not here are downloaded first. Choose rows with --models; "
        "--predictions FOLDER runs none."
    )


def parse_use(pairs: list[str] | None) -> dict[str, str]:
    """``["XVLM=precomputed:xvlm.csv"]`` → ``{"XVLM": "precomputed:xvlm.csv"}``."""
    models = {}
    for pair in pairs or ():
        label, _, model = (side.strip() for side in pair.partition("="))
        if not (label and model):
            raise ModelError(
                f"--use {pair!r} names no model for a row; write LABEL=MODEL, such as XVLM=precomputed:xvlm.csv"
            )
        models[label] = model
    return models


def _print_tables(weights: Path) -> None:
    """Print the names of all tables, with their numbers of models that can be run here."""
    from .reproduce import plan_rows

    rows = []
    for name, table in all_tables().items():
        plans = plan_rows(table, weights=weights)
        models = [row.name for row in table.rows if row.run.is_model and not table.is_statistics]
        rows.append((name, str(len(models)), str(sum(not plans[name].why for name in models))))
    listed = simple_table(("table", "models", "can run here"), rows, numbers=True)
    print_tables([listed, "`vl-assay reproduce TABLE` names them, and what the others need."])
