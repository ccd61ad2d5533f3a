"""The command list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...metrics.common.errors import check_known

if TYPE_CHECKING:
    from rich.console import Console

    from ...hub_datasets.sources.availability import BenchmarkEntry

app = typer.Typer()


@app.command("list")
def list_(
    what: Annotated[
        str | None, typer.Argument(help="benchmarks, metrics, models or a benchmark's name; by default all three.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Your own copies of the sources, together or in one folder for each benchmark.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, for programs, with every configuration.")] = False,
) -> None:
    """List the benchmarks, metrics and model families. Downloads and builds nothing.

    For each benchmark: what it tests, the number of examples that are scored by default (of the newest build in the
    cache, else of the release), and whether its sources are ready, to be downloaded, or needed as your own copy, into
    which `--data-dir` looks. With a benchmark's name: each configuration with its rows, images and metrics, what is
    missing, and where to get it.

    Examples: `vl-assay list` · `vl-assay list sugarcrepe` · `vl-assay list metrics` ·
    `vl-assay list benchmarks --data-dir sources --json`
    """
    import json

    from rich.console import Console

    from ...hub_datasets.core.benchmarks import benchmark_names
    from ...hub_datasets.sources import availability
    from ...metrics.common.documents import print_tables, simple_table
    from . import tables

    names = benchmark_names()
    check_known("thing to list", [what] if what else (), ("benchmarks", "metrics", "models", *names))
    benchmark = [what] if what in names else None
    if json_:
        makers = {
            "benchmarks": lambda: availability.list_benchmarks(benchmark, data_dir=data_dir),
            "metrics": tables.list_metrics,
            "models": _families,
        }
        chosen = ["benchmarks"] if benchmark else [what] if what else list(makers)
        content = {kind: tables.as_json(makers[kind]()) for kind in chosen}
        typer.echo(json.dumps(content, indent=1, ensure_ascii=False))
        return
    console = Console(highlight=False)
    if benchmark:
        [entry] = availability.list_benchmarks(benchmark, data_dir=data_dir)
        _print_benchmark(entry, console)
    if what in (None, "benchmarks"):
        lines = list(availability.benchmark_lines(data_dir=data_dir))
        console.print(tables.line_table(lines, console.width))
        cautions = ", ".join(line.name for line in lines if line.caution)
        console.print(f"caution: {cautions}", soft_wrap=True)
        console.print("details, what is missing, and why caution: vl-assay list NAME\n")
    if what is None:
        console.print(tables.metric_lines(tables.list_metrics(), console.width))
        console.print("the benchmarks of each: vl-assay list metrics\n")
        console.print(f"[bold]Model families[/] {', '.join(entry.family for entry in _families())}")
        console.print("with checkpoints: vl-assay list models")
    if what == "metrics":
        console.print(tables.metric_table(tables.list_metrics()))
    if what == "models":
        rows = [(entry.family, entry.problem or ", ".join(entry.checkpoints)) for entry in _families()]
        print_tables([simple_table(("family", "checkpoints"), rows, title="Model families, with examples")])


def _print_benchmark(entry: BenchmarkEntry, console: Console) -> None:
    from rich.markup import escape

    from . import tables

    console.print(f"[bold]{entry.name}[/] – {entry.summary}; {escape(tables.origin_line(entry))}", soft_wrap=True)
    if entry.caution:
        console.print(f"caution: {entry.caution}", markup=False, soft_wrap=True)
    console.print(tables.benchmark_table(entry))
    for line in tables.problem_lines(entry):
        console.print(line, markup=False, soft_wrap=True)


@dataclass(frozen=True)
class _FamilyEntry:
    """A family, examples of its checkpoints as `run` takes them, and why it cannot be used, if so."""

    family: str
    checkpoints: list[str]
    problem: str = ""


def _families() -> Iterator[_FamilyEntry]:
    from ..engine.families import demo_names, family_constants, family_names

    yield _FamilyEntry("demo", demo_names())
    for name in family_names():
        constants = family_constants(name)
        yield _FamilyEntry(name, [f"{name}:{checkpoint}" for checkpoint in constants.checkpoints], constants.problem)
