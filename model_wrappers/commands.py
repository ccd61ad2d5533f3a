"""The commands that need a model: run, score, list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..hub_datasets.commands import AllowMissing, DataDir, Options, Ties, check_options, make_report, parse_options

app = typer.Typer()

ModelName = Annotated[
    str,
    typer.Argument(help="A demo (demo-clip), a folder, a Hub repository, or family:checkpoint (mock:oracle)."),
]
Benchmarks = Annotated[
    list[str] | None,
    typer.Argument(help="Benchmarks, parts of them (sugarcrepe/swap_obj) or dataset folders; toy_scenes if none."),
]
Out = Annotated[Path | None, typer.Option(help="Folder of the results; by default vl-assay-results/<model>.")]
BatchSize = Annotated[int, typer.Option(help="Images or captions at once; changes the speed only.")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of the model on the Hub.")]


@app.command()
def run(
    model: ModelName = "demo-clip",
    benchmarks: Benchmarks = None,
    out: Out = None,
    data_dir: DataDir = None,
    allow_missing: AllowMissing = False,
    option: Options = None,
    batch_size: BatchSize = 32,
    dtype: Dtype = "float32",
    revision: Revision = None,
    ties: Ties = None,
    confidence: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
) -> None:
    """Score a model on benchmarks and report: tables, plots, JSON, LaTeX.

    Examples: `vl-assay run` · `vl-assay run mock:bag-of-words` ·
    `vl-assay run openai/clip-vit-base-patch32 sugarcrepe --data-dir coco` ·
    `torchrun --nproc_per_node 2 --no-python vl-assay run demo-clip`
    """
    check_options(ties=ties, confidence=confidence)
    sheets = _score(model, benchmarks, out, data_dir, allow_missing, option, batch_size, dtype, revision)
    if _is_main():
        make_report(sheets, sheets[0].parent, ties=ties, confidence=confidence)


@app.command()
def score(
    model: ModelName = "demo-clip",
    benchmarks: Benchmarks = None,
    out: Out = None,
    data_dir: DataDir = None,
    allow_missing: AllowMissing = False,
    option: Options = None,
    batch_size: BatchSize = 32,
    dtype: Dtype = "float32",
    revision: Revision = None,
) -> None:
    """Write the score sheets only; `vl-assay report` makes numbers of them.

    A run that was killed goes on when the same command is given again.
    Example: `vl-assay score demo-clip toy_scenes --out sheets`
    """
    sheets = _score(model, benchmarks, out, data_dir, allow_missing, option, batch_size, dtype, revision)
    if _is_main():
        typer.echo("\n".join(str(sheet) for sheet in sheets))


@app.command("list")
def list_() -> None:
    """Show the benchmarks, metrics and model families that there are."""
    from rich.console import Console
    from rich.table import Table

    from ..hub_datasets.benchmarks import benchmark_names, get_benchmark
    from ..metrics.modules import metric_names

    console = Console()
    benchmarks = Table(
        "benchmark", "task", "configurations", "metric", "data", title="Benchmarks", title_justify="left"
    )
    for name in benchmark_names():
        benchmark = get_benchmark(name)
        for task in benchmark.tasks:
            source = benchmark.source or "made on the spot"
            benchmarks.add_row(name, task.name, ", ".join(task.configs), ", ".join(task.metrics), source)
    console.print(benchmarks)
    console.print(f"Metrics: {', '.join(metric_names())}", soft_wrap=True)
    console.print(_families())


def _families() -> Any:
    from rich.table import Table

    from ..metrics.errors import ModelError
    from ._families import demo_names, family_names, get_family

    table = Table("family", "checkpoints, for example", title="Model families", title_justify="left")
    table.add_row("demo", ", ".join(demo_names()))
    for name in family_names():
        try:
            module = get_family(name)
        except ModelError as error:
            table.add_row(name, str(error))
            continue
        table.add_row(name, ", ".join(f"{name}:{checkpoint}" for checkpoint in module.CHECKPOINTS))
    return table


def _score(
    model: str,
    benchmarks: list[str] | None,
    out: Path | None,
    data_dir: Path | None,
    allow_missing: bool,
    option: list[str] | None,
    batch_size: int,
    dtype: str,
    revision: str | None,
) -> list[Path]:
    from ._runner import DEFAULT_BENCHMARKS
    from ._runner import score as score_model

    return score_model(
        model,
        benchmarks or DEFAULT_BENCHMARKS,
        out=out,
        data_dir=data_dir,
        options=parse_options(option, allow_missing=allow_missing),
        batch_size=batch_size,
        dtype=dtype,
        revision=revision,
    )


def _is_main() -> bool:
    from ._processes import join

    return join().is_main
