"""The commands on training sets: corpus contamination and corpus generate."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from ...metrics.common.command_line import data_option, parse_shard, speed_option
from ...metrics.common.errors import VLAssayError, check_known
from ...metrics.common.storage import check_writable, write_text
from ..options import DataDir, NoImages, parse_columns

app = typer.Typer()

Shards = Annotated[
    list[str], typer.Argument(metavar="SHARDS...", help="Files, folders or globs; also hf:// addresses.")
]
Out = Annotated[Path, typer.Option(help="Folder of the report and, in `shards`, of an output for each shard.")]
Columns = Annotated[
    list[str] | None,
    data_option("--column", metavar="OURS=THEIRS", help="The shards' column of caption or image; repeatable."),
]
Workers = Annotated[int, speed_option(help="Processes on this machine; not with --engine.", min=1)]
Engine = Annotated[str, speed_option(help="`ray`: all CPUs of a Ray cluster, of RAY_ADDRESS or on this machine.")]
Part = Annotated[str, speed_option("--shard", metavar="N/M", help="Only every M-th shard, from the N-th, as 3/16.")]


@app.callback()
def corpus() -> None:
    """Examine a training set, shard by shard, in bounded memory.

    Shards are Parquet files or WebDataset tars. The same command resumes, and repeats a shard if it or an option has
    changed. Damaged shards are named at the end and make the exit code 1. Machines that share `--out` take a part each,
    `--shard 3/16`; then the same command without `--shard` reports on all.

    Example: `vl-assay corpus contamination train --benchmark sugarcrepe --data-dir coco --out found`
    """


@app.command()
def contamination(
    shards: Shards,
    *,
    out: Out,
    benchmark: Annotated[
        list[str], typer.Option(help="A benchmark, a part of one, or a folder of `vl-assay build`; repeatable.")
    ],
    resemblance: Annotated[
        float, typer.Option(help="Similar captions: the least Jaccard index of their pairs of neighbouring words.")
    ] = 0.7,
    no_images: NoImages = False,
    data_dir: DataDir = None,
    column: Columns = None,
    workers: Workers = 1,
    engine: Engine = "",
    shard: Part = "1/1",
) -> None:
    """Find the examples of benchmarks that a training set has: the same or similar captions, the same image files.

    The same captions have the same words, in lower case. No similar caption is missed. Images that were scaled or
    compressed again are not found. Writes contamination.json.

    Examples: `vl-assay corpus contamination train --benchmark toy_scenes/itm --out found --no-images` ·
    `vl-assay corpus contamination 'train/*.tar' --benchmark sugarcrepe --data-dir coco --out found --workers 8`
    """
    from ..core.examples import load_examples
    from .contamination import search_step, summarise

    check_writable(out)
    columns = _columns(column, "caption", "image")
    options = {"data_dir": data_dir, "needs_images": not no_images}
    data = [task_data for name in benchmark for task_data in load_examples(name, **options)]
    step = search_step(data, resemblance, columns["caption"], None if no_images else columns["image"])
    _run("contamination", shards, step, out, workers, engine, shard, lambda outcomes: summarise(data, outcomes))


@app.command()
def generate(
    shards: Shards,
    *,
    out: Out,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Such as replace_obj or positive_swap; repeatable, by default all but negate and shuffle."),
    ] = None,
    column: Columns = None,
    workers: Workers = 1,
    engine: Engine = "",
    shard: Part = "1/1",
) -> None:
    """Make hard negatives and hard positives by rule, one of each kind, as `vl-assay generate --rules` does.

    Rules see 4,096 captions at a time, and prefer words that occur in these. The outputs have the columns row, caption,
    candidate, kind and is_positive. Writes candidates.json.

    Example: `vl-assay corpus generate train --kind replace_att --kind swap_obj --out made --workers 8`
    """
    from ..authoring.generate.checks import KINDS
    from ..authoring.generate.rules import RULE_KINDS
    from .candidates import candidate_step

    check_known("kind of candidates", kind or (), RULE_KINDS)
    step = candidate_step([*dict.fromkeys(kind or KINDS)], _columns(column, "caption")["caption"])
    _run("candidates", shards, step, out, workers, engine, shard)


def _columns(pairs: list[str] | None, *known: str) -> dict[str, str]:
    columns = parse_columns(pairs)
    check_known("column", columns, known)
    return {name: columns.get(name, name) for name in known}


def _run(
    name: str, patterns: list[str], step: Any, out: Path, workers: int, engine: str, part: str, summarise: Any = None
) -> None:
    """Run a step, and print and write its summary; `typer.Exit` if a shard is damaged."""
    from rich.console import Console

    from ...metrics.common.documents import print_tables, simple_table
    from .shards import find_shards, run

    check_known("engine", [engine] if engine else [], ["ray"])
    if engine and workers > 1:
        raise VLAssayError(f"--engine ray uses all CPUs of its cluster, not --workers {workers}; give one of them")
    number, count = parse_shard(part)
    check_writable(out)
    shards = dict([*find_shards(patterns).items()][number - 1 :: count])
    with Console(stderr=True).status(f"{name} of {len(shards)} shards"):
        outcomes = sorted(run(shards, step, out, workers=workers, on_ray=bool(engine)))
    good = [outcome for outcome in outcomes if not outcome.problem]
    damaged = {outcome.shard: outcome.problem for outcome in outcomes if outcome.problem}
    kept = sum(outcome.is_kept for outcome in good)
    typer.echo(f"{len(good) - kept} shards done, {kept} were done before, {len(damaged)} cannot be read")
    if good and count == 1:
        counts = Counter()
        for outcome in good:
            counts.update(outcome.counts)
        summary = summarise(good) if summarise else {}
        record = {"counts": counts, "settings": step.settings, "damaged": damaged, **summary}
        table = summary.get("examples") or {kind: {"number": number} for kind, number in counts.items()}
        rows = [(label, *map("{:,}".format, numbers.values())) for label, numbers in table.items()]
        print_tables([simple_table(["", *next(iter(table.values()))], rows, numbers=True)])
        write_text(out / f"{name}.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        typer.echo(f"written: {out / name}.json, and the outputs in {out / 'shards'}")
    for path, problem in damaged.items():
        typer.echo(f"damaged: {path}: {problem}", err=True)
    if damaged:
        raise typer.Exit(1)
