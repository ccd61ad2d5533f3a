"""The leaderboard's commands: `leaderboard` serves it, `submit` sends predictions, `moderate` reviews submissions.

`leaderboard import` adds published tables, `leaderboard rerun` and `leaderboard worker` run submitted models again.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()
board = typer.Typer(invoke_without_command=True)
app.add_typer(board, name="leaderboard")

Location = Annotated[
    str | None,
    typer.Option(
        "--storage",
        help="Where submissions are kept: a folder, or hf://datasets/OWNER/NAME. "
        "By default that of VL_ASSAY_STORAGE, or a folder in the cache.",
    ),
]


@board.callback()
def leaderboard(
    context: typer.Context,
    storage: Location = None,
    host: Annotated[str, typer.Option(help="Address to serve at; 0.0.0.0 to be reached by others.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to serve at.")] = 7860,
) -> None:
    """Serve the leaderboard in the browser: the papers' tables and the submissions of a storage.

    Examples: `vl-assay leaderboard`, then open http://127.0.0.1:7860 · `vl-assay leaderboard import table.csv --map
    map.yaml`
    """
    if context.invoked_subcommand is not None:
        return
    from ..metrics.common.errors import DataError
    from ..metrics.common.imports import gc_paused
    from ..metrics.common.serving import check_address
    from .storage import open_storage

    try:
        with gc_paused():
            from .app import serve
    except ModuleNotFoundError as error:
        raise DataError(f"the leaderboard needs a library ({error.name}): pip install 'vl-assay[space]'") from error
    opened = open_storage(storage)
    opened.paths()  # raises if it cannot be used
    check_address(host, port)
    typer.echo(f"the leaderboard is at http://{host}:{port}; stop it with Ctrl-C")
    serve(opened, server_name=host, server_port=port, quiet=True)


@board.command("import")
def import_(
    context: typer.Context,
    table: Annotated[
        Path | None, typer.Argument(help="CSV or TSV, a line for each model; without it the imported ones are listed.")
    ] = None,
    map_: Annotated[
        Path | None, typer.Option("--map", help="YAML or JSON that says where each column belongs; see --template.")
    ] = None,
    template: Annotated[
        bool, typer.Option("--template", help="Print a map of the table to fill in, and stop.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the table and the map, and stop.")] = False,
    remove: Annotated[
        str | None, typer.Option(metavar="ID", help="Take an imported table from the leaderboard.")
    ] = None,
    storage: Location = None,
) -> None:
    """Import a table of published figures, which the leaderboard shows as published, with their source.

    Its map says for each column the task, metric, score and average; unknown names are refused. The same source again
    replaces what was imported from it.

    Examples: `vl-assay leaderboard import table.csv --template` · `vl-assay leaderboard import table.csv --map
    map.yaml --dry-run` · `vl-assay leaderboard import --remove 0123456789abcdef`
    """
    from ..metrics.common.command_line import printable
    from ..metrics.common.errors import DataError
    from .board.imports import imported_tables, remove_table, store_table
    from .board.table_maps import read_table
    from .board.table_maps import template as template_of
    from .storage import open_storage

    if table is None and (map_ or template or dry_run):
        raise DataError("no table was given; name the CSV file before the options")
    if table is not None and template:
        typer.echo(template_of(table), nl=False)
        return
    if table is not None and map_ is None:
        raise DataError(
            f"{table} needs a map that says where each column belongs: write one with `vl-assay leaderboard import "
            f"{table} --template > map.yaml`, fill it in and give it as --map"
        )
    read = None if table is None or map_ is None else read_table(table, map_)
    if read is not None and dry_run:
        typer.echo(printable(f"can be imported: {read}"))
        return
    opened = open_storage(storage or (context.parent and context.parent.params["storage"]))
    if remove is not None:
        typer.echo(printable(f"removed: {remove_table(opened, remove)}"))
    if read is not None:
        is_new = store_table(opened, read)
        typer.echo(printable(f"{'imported' if is_new else 'already imported'} as {read.id}: {read}"))
    if read is None and remove is None:
        tables, problems = imported_tables(opened)
        lines = [*(f"{each.id}  {each.time[:10]}  {each}" for each in tables), *problems]
        typer.echo(printable("\n".join(lines or ["no table was imported"])))


@board.command()
def rerun(
    context: typer.Context,
    submission: Annotated[str | None, typer.Argument(help="Its id; by default the re-runs are listed.")] = None,
    by: Annotated[str, typer.Option(help="The maintainer.")] = "",
    storage: Location = None,
) -> None:
    """Queue a submitted model to be run again by a worker, or list the re-runs.

    The model has to be public on the Hub, at a commit, with safetensors of at most VL_ASSAY_RERUN_LIMIT gigabytes (20
    by default). The board then shows how many examples come out the same.

    Examples: `vl-assay leaderboard rerun` · `vl-assay leaderboard rerun 0123456789abcdef --by me`
    """
    from ..metrics.common.command_line import printable
    from .reruns.queue import jobs, queue_rerun
    from .storage import open_storage
    from .submissions.submissions import utc_now

    opened = open_storage(storage or (context.parent and context.parent.params["storage"]))
    if submission is not None:
        job = queue_rerun(opened, submission, by)
        typer.echo(printable(f"queued: {job.model['checkpoint']} on {', '.join(job.tasks.values())}"))
        return
    for job in jobs(opened):
        name = job.model.get("checkpoint", "?")
        typer.echo(printable(f"{job.submission}  {job.state(utc_now()):7}  {job.time[:16]}  {name}  {job.problem}"))
    if not jobs(opened):
        typer.echo("no model was queued to be run again")


@board.command()
def worker(
    context: typer.Context,
    hours: Annotated[float, typer.Option(help="Limit of time for a model.", min=0.01)] = 2.0,
    storage: Location = None,
) -> None:
    """Run the models that `leaderboard rerun` has queued, on this machine, until none is left.

    Each runs in a process without tokens, from downloaded safetensors alone, with the dtype, settings and batch size of
    the submission. One that fails is recorded with the reason, and the next is run. Benchmarks with sources of your own
    are looked for in VL_ASSAY_DATA_DIR. A worker that is killed loses its model to another one after this time and half
    an hour.

    Example: `vl-assay leaderboard worker --storage hf://datasets/OWNER/NAME`
    """
    from ..metrics.common.command_line import printable
    from .reruns.worker import work
    from .storage import open_storage

    # As Ctrl-C, which ends the model's process, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    opened = open_storage(storage or (context.parent and context.parent.params["storage"]))
    count = work(opened, hours, lambda line: typer.echo(printable(line)))
    typer.echo(f"{count} run; none is queued")


@app.command()
def submit(
    predictions: Annotated[list[Path], typer.Argument(help="Predictions of one model, written by `vl-assay predict`.")],
    to: Annotated[
        str, typer.Option(help="The leaderboard: the address of its page, or OWNER/NAME of its Space.")
    ] = "http://127.0.0.1:7860",
    name: Annotated[str, typer.Option(help="The model's name; by default that of the predictions.")] = "",
    family: Annotated[str, typer.Option(help="Its family, such as clip.")] = "",
    parameters: Annotated[str, typer.Option(help="Its number of parameters, such as 151M.")] = "",
    training_data: Annotated[str, typer.Option(help="Its training data.")] = "",
    link: Annotated[str, typer.Option(help="An http address that describes it.")] = "",
    json_output: Annotated[bool, typer.Option("--json", help="Print the receipt as JSON.")] = False,
) -> None:
    """Submit predictions to a leaderboard, which validates them and computes all scores from them.

    A Space identifies you by the token of `hf auth login` or `HF_TOKEN`, so submit to Spaces that you trust; a token
    without any permission is enough.

    Example: `vl-assay submit vl-assay-results/demo-clip/*.parquet --training-data "rendered scenes"`.
    """
    from ..metrics.common.command_line import printable
    from .submissions.client import send

    model = {"name": name, "family": family, "parameters": parameters, "training_data": training_data, "link": link}
    receipt = send(to, predictions, model)
    if json_output:
        typer.echo(json.dumps(receipt, indent=1, sort_keys=True))
        return
    typer.echo(printable(f"received as {receipt['id']}, {receipt['time'][:19]} UTC: {receipt['status']}"))
    for flag in receipt["flags"]:
        typer.echo(printable(f"a maintainer will review this first: {flag}"))


@app.command()
def moderate(
    submission: Annotated[str | None, typer.Argument(help="Its id; by default the waiting ones are listed.")] = None,
    status: Annotated[str | None, typer.Argument(help="accepted, flagged or withdrawn.")] = None,
    reason: Annotated[str, typer.Option(help="The reason.")] = "",
    by: Annotated[str, typer.Option(help="The reviewer.")] = "",
    storage: Location = None,
) -> None:
    """Review a submission to the leaderboard, or list those that wait for a review.

    Example: `vl-assay moderate`, then `vl-assay moderate 0123456789abcdef accepted --by me`.
    """
    from ..metrics.common.errors import SubmissionError
    from .storage import open_storage
    from .storage.records import submissions
    from .submissions.submissions import review

    opened = open_storage(storage)
    if submission is None:
        waiting = [each for each in submissions(opened) if each.status in ("flagged", "pending", "damaged")]
        for each in waiting:
            name = (each.model or {}).get("name", "?")
            typer.echo(f"{each.id}  {each.status:9}  {name}  {' '.join([*each.flags, *each.problems])}")
        if not waiting:
            typer.echo(f"no submission waits for a decision{f' in {storage}' if storage else ''}")
        return
    if status is None:
        raise SubmissionError(f"no status was given for {submission}; add accepted, flagged or withdrawn")
    found = review(opened, submission, status, reason, by)
    typer.echo(f"{found.id} is {found.status}")
