"""The leaderboard's commands: `leaderboard` serves it, `submit` sends predictions, `moderate` reviews submissions.

`leaderboard import` adds published values.
"""

from __future__ import annotations

import json
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

    Examples: `vl-assay leaderboard`, then open http://127.0.0.1:7860 · `vl-assay leaderboard import values.csv`
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
        Path | None, typer.Argument(help="CSV, a line for each value; without it the imported files are listed.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate the file, and stop.")] = False,
    remove: Annotated[
        str | None, typer.Option(metavar="ID", help="Take an imported file from the leaderboard.")
    ] = None,
    storage: Location = None,
) -> None:
    """Import published values from a CSV file; the leaderboard shows them as published, with their source.

    The columns are model, benchmark, task, category, metric, score, value (from 0 to 1) and source. Values of a file
    come before those that were imported earlier.

    Examples: `vl-assay leaderboard import values.csv --dry-run` · `vl-assay leaderboard import --remove
    0123456789abcdef`
    """
    from ..metrics.common.command_line import printable
    from ..metrics.common.errors import DataError
    from .board.imports import imported_tables, read_table, remove_table, store_table
    from .storage import open_storage

    if dry_run and table is None:
        raise DataError("--dry-run validates a file, and none was given; name the CSV file")
    read = None if table is None else read_table(table)
    if dry_run:
        typer.echo(printable(f"can be imported: {read}"))
        return
    opened = open_storage(storage or (context.parent and context.parent.params["storage"]))
    if remove is not None:
        remove_table(opened, remove)
        typer.echo(f"removed: {remove}")
    if read is not None:
        is_new = store_table(opened, read)
        typer.echo(printable(f"{'imported' if is_new else 'already imported'} as {read.id}: {read}"))
    if read is None and remove is None:
        tables, problems = imported_tables(opened)
        lines = [*(f"{imported.id}  {imported}" for imported in tables), *problems]
        typer.echo(printable("\n".join(lines or ["no table was imported"])))


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
    if receipt.get("key"):
        typer.echo(printable(f"to withdraw it, keep its number and this key, shown only now: {receipt['key']}"))
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
        waiting = [stored for stored in submissions(opened) if stored.status in ("flagged", "pending", "damaged")]
        for stored in waiting:
            name = (stored.model or {}).get("name", "?")
            typer.echo(f"{stored.id}  {stored.status:9}  {name}  {' '.join([*stored.flags, *stored.problems])}")
        if not waiting:
            typer.echo(f"no submission waits for a decision{f' in {storage}' if storage else ''}")
        return
    if status is None:
        raise SubmissionError(f"no status was given for {submission}; add accepted, flagged or withdrawn")
    reviewed = review(opened, submission, status, reason, by)
    typer.echo(f"{reviewed.id} is {reviewed.status}")
