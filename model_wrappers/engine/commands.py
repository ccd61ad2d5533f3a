"""The commands that need a model: run, predict, list, cache, reproduce."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...hub_datasets.commands import AllowMissing, DataDir, Options, Ties, check_options, make_report, parse_options
from ...metrics.common.errors import VLAssayError

if TYPE_CHECKING:
    from rich.console import Console

    from ...hub_datasets.core.listing import BenchmarkEntry
    from .estimate import Prediction

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
BatchSize = Annotated[
    int | None,
    typer.Option(help="Images or texts at once; changes the speed only. By default what suits the device.", min=1),
]
Setting = Annotated[
    list[str] | None,
    typer.Option("--setting", "-s", metavar="NAME=VALUE", help="A choice of the model's family; repeatable."),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Processes that prepare images; by default none on a CPU and up to 8 for a GPU.", min=0),
]
Compile = Annotated[
    bool, typer.Option("--compile", help="Translate the model with torch.compile first; pays for large sets.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep embeddings (see `vl-assay cache`).")]
CheckPrecision = Annotated[
    int,
    typer.Option(metavar="N", help="Count the decisions on N examples of each task that differ from float32.", min=0),
]
Seeds = Annotated[
    str | None,
    typer.Option(metavar="N,N,…", help="Seeds of the benchmarks' builders; reports show the spread over them."),
]
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
    batch_size: BatchSize = None,
    dtype: Dtype = "float32",
    revision: Revision = None,
    setting: Setting = None,
    compile: Compile = False,
    workers: Workers = None,
    no_cache: NoCache = False,
    check_precision: CheckPrecision = 0,
    plan: Annotated[bool, typer.Option("--plan", help="Predict time and memory from a sample, and stop.")] = False,
    devices: Annotated[int, typer.Option(help="With --plan: how many devices like this one share the work.")] = 1,
    seeds: Seeds = None,
    ties: Ties = None,
    confidence: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
) -> None:
    """Evaluate a model on benchmarks and report: predictions, tables, plots, JSON, LaTeX.

    A folder of results grows: predictions that are there stay, and the report covers all of them.

    Examples: `vl-assay run` · `vl-assay run mock:bag-of-words` ·
    `vl-assay run demo-clip toy_scenes/order --seeds 0,1,2` ·
    `vl-assay run openai/clip-vit-base-patch32 sugarcrepe --data-dir coco` · `vl-assay run demo-clip --plan` ·
    `torchrun --nproc_per_node 2 --no-python vl-assay run demo-clip`
    """
    from . import runner as _runner
    from .run import with_earlier

    check_options(ties=ties, confidence=confidence)
    how = _how(data_dir, allow_missing, option, batch_size, dtype, revision, setting, compile)
    if plan:
        prediction = _runner.plan(model, benchmarks or _runner.DEFAULT_BENCHMARKS, devices=devices, **how)
        _print_plan(model, prediction)
        return
    how |= {"out": out, "workers": workers, "cache": not no_cache, "check_precision": check_precision}
    files = _runner.predict(model, benchmarks or _runner.DEFAULT_BENCHMARKS, seeds=_numbers(seeds), **how)
    if _is_main():
        folder = files[0].parent
        make_report(with_earlier(files), folder, new=files, ties=ties, confidence=confidence)


@app.command("score", hidden=True)
@app.command()
def predict(
    model: ModelName = "demo-clip",
    benchmarks: Benchmarks = None,
    out: Out = None,
    data_dir: DataDir = None,
    allow_missing: AllowMissing = False,
    option: Options = None,
    batch_size: BatchSize = None,
    dtype: Dtype = "float32",
    revision: Revision = None,
    setting: Setting = None,
    compile: Compile = False,
    workers: Workers = None,
    no_cache: NoCache = False,
    check_precision: CheckPrecision = 0,
    seeds: Seeds = None,
) -> None:
    """Write predictions only; `vl-assay report` evaluates them.

    A run that was killed goes on when the same command is given again.
    Example: `vl-assay predict demo-clip toy_scenes --out predictions`
    """
    from . import runner as _runner

    how = _how(data_dir, allow_missing, option, batch_size, dtype, revision, setting, compile)
    how |= {"out": out, "workers": workers, "cache": not no_cache, "check_precision": check_precision}
    files = _runner.predict(model, benchmarks or _runner.DEFAULT_BENCHMARKS, seeds=_numbers(seeds), **how)
    if _is_main():
        typer.echo("\n".join(str(file) for file in files))


@app.command("list")
def list_(
    what: Annotated[str | None, typer.Argument(help="benchmarks, metrics or models; all three if none.")] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Your own copies of the sources, together or in a folder of its name for each benchmark."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show the benchmarks, metrics and model families that there are. Downloads and builds nothing.

    Each configuration of a benchmark comes with its rows and images in the split that is scored (of the newest build
    in the cache, else as on the card), the metrics that judge it, and whether its sources are ready, to be downloaded,
    or missing: then what is missing and where it is to be had follows.

    Examples: `vl-assay list` · `vl-assay list metrics` · `vl-assay list benchmarks --data-dir sources --json`
    """
    import json

    from rich.console import Console

    from ...hub_datasets.core import listing as _listing
    from ...metrics.common.errors import UnknownNameError

    kinds = {
        "benchmarks": (lambda: _listing.list_benchmarks(data_dir=data_dir), _print_benchmarks),
        "metrics": (_listing.list_metrics, lambda entries, console: console.print(_listing.metric_table(entries))),
        "models": (_families, _print_families),
    }
    if what is not None and what not in kinds:
        raise UnknownNameError("thing to list", what, kinds)
    chosen = kinds if what is None else {what: kinds[what]}
    if json_:
        content = {kind: _listing.as_json(entries()) for kind, (entries, _) in chosen.items()}
        typer.echo(json.dumps(content, indent=1, ensure_ascii=False))
        return
    for entries, show in chosen.values():
        show(entries(), Console(highlight=False))


def _print_benchmarks(entries: Iterable[BenchmarkEntry], console: Console) -> None:
    from rich.markup import escape

    from ...hub_datasets.core import listing as _listing

    for entry in entries:
        console.print(f"[bold]{entry.name}[/] – {escape(_listing.origin_line(entry))}", soft_wrap=True)
        console.print(_listing.benchmark_table(entry))
        for line in _listing.problem_lines(entry):
            console.print(line, markup=False, soft_wrap=True)
        console.print()


@dataclass(frozen=True)
class _FamilyEntry:
    """A family, some of its checkpoints as `run` takes them, and what it lacks here, if anything."""

    family: str
    checkpoints: list[str]
    problem: str = ""


def _families() -> Iterator[_FamilyEntry]:
    from ...metrics.common.errors import ModelError
    from .families import demo_names, family_names, get_family

    yield _FamilyEntry("demo", demo_names())
    for name in family_names():
        try:
            yield _FamilyEntry(name, [f"{name}:{checkpoint}" for checkpoint in get_family(name).CHECKPOINTS])
        except ModelError as error:
            yield _FamilyEntry(name, [], str(error))


def _print_families(entries: Iterable[_FamilyEntry], console: Console) -> None:
    from rich.table import Table

    table = Table("family", "checkpoints, for example", title="Model families", title_justify="left")
    for entry in entries:
        table.add_row(entry.family, entry.problem or ", ".join(entry.checkpoints))
    console.print(table)


@app.command()
def reproduce(
    table: Annotated[str | None, typer.Argument(help="Its name, such as sugarcrepe-6; all are listed if none.")] = None,
    models: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="A row, as the table prints it; repeatable.")
    ] = None,
    use: Annotated[
        list[str] | None, typer.Option(metavar="LABEL=MODEL", help="Another model for a row; repeatable.")
    ] = None,
    predictions: Annotated[Path | None, typer.Option(help="Take the predictions in this folder; run nothing.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the results; by default vl-assay-results/TABLE.")] = None,
    data_dir: DataDir = None,
    weights: Annotated[Path, typer.Option(help="Folder with weights that one must fetch (negclip.pth).")] = Path(),
    allow_missing: AllowMissing = False,
    option: Options = None,
    dtype: Dtype = "float32",
    ties: Ties = None,
    confidence: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Run the models of a paper's table and set our values beside those that it prints.

    Says of each whether it lies inside our interval, which models need answers from elsewhere or weights that one must
    fetch, and why values may differ. `--predictions` on the folder of earlier results puts several runs together.

    Examples: `vl-assay reproduce` · `vl-assay reproduce sugarcrepe-6 --data-dir coco --models RN50 --models ViT-B-32` ·
    `vl-assay reproduce aro-2 --data-dir aro --use XVLM=precomputed:xvlm.csv` ·
    `vl-assay reproduce aro-5 --predictions vl-assay-results --ties right`
    """
    import json

    from ..reproduce import report as _reproduce_report
    from ..reproduce import reproduce as _reproduce

    if table is None:
        status = _reproduce.status(weights)
        typer.echo(json.dumps(status, indent=1)) if json_ else _reproduce_report.print_tables(status)
        return
    scoring = {
        "data_dir": data_dir,
        "options": parse_options(option, allow_missing=allow_missing),
        "dtype": dtype,
        "progress": not json_,
    }
    result = _reproduce.reproduce(
        table,
        models=models,
        use=_reproduce.parse_use(use),
        predictions=predictions,
        out=out,
        weights=weights,
        ties=ties,
        confidence=confidence,
        **scoring,
    )
    if result is None:
        return
    typer.echo(_reproduce_report.as_json(result)) if json_ else _reproduce_report.print_reproduction(result)
    if result.failed:
        raise typer.Exit(1)


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of it.")] = False,
) -> None:
    """Show the embeddings that are kept on the disk, by model, or remove them.

    They stand in the folder embeddings of VL_ASSAY_CACHE; VL_ASSAY_CACHE_LIMIT, in gigabytes, is 10 by default.
    Examples: `vl-assay cache` · `vl-assay cache --clear`
    """
    from rich.console import Console
    from rich.table import Table

    from .cache import cached_models, clear_cache

    if clear:
        typer.echo(f"{clear_cache() / 1e6:,.1f} MB removed")
        return
    models = cached_models()
    table = Table("model", "revision", "dtype", "shards", "MB", title="Embeddings", title_justify="left")
    for model in models:
        size = f"{model.bytes / 1e6:,.1f}"
        table.add_row(model.name, model.revision[:20], model.dtype, str(model.shards), size)
    Console().print(table if models else "no embeddings are kept")


def _how(
    data_dir: Path | None,
    allow_missing: bool,
    option: list[str] | None,
    batch_size: int | None,
    dtype: str,
    revision: str | None,
    setting: list[str] | None,
    compile: bool,
) -> dict[str, Any]:
    """The arguments that scoring and planning have in common."""
    return {
        "data_dir": data_dir,
        "options": parse_options(option, allow_missing=allow_missing),
        "batch_size": batch_size,
        "dtype": dtype,
        "revision": revision,
        "settings": parse_settings(setting),
        "compile": compile,
    }


def _print_plan(model: str, prediction: Prediction) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"{model}: {prediction.examples:,} examples, predicted from {prediction.sample:,}"
    table = Table("phase", "seconds", "share", title=title, title_justify="left")
    whole = max(prediction.total, 1e-9)
    for phase, seconds in prediction.seconds.items():
        seconds /= prediction.devices
        table.add_row(phase, f"{seconds:,.1f}", f"{100 * seconds / whole:.0f} %")
    table.add_section()
    table.add_row("all", f"{prediction.total:,.1f}", "")
    console = Console()
    console.print(table)
    console.print(
        f"bound by {prediction.bound}; {prediction.memory / 1e9:,.1f} GB in use at the peak; loading comes on top",
        highlight=False,
    )


def parse_settings(pairs: list[str] | None) -> dict[str, str]:
    """``["head=itc"]`` → ``{"head": "itc"}``."""
    settings = {}
    for pair in pairs or ():
        name, separator, value = pair.partition("=")
        if not (name and separator):
            raise VLAssayError(f"setting {pair!r} has no value; write NAME=VALUE, such as head=itc")
        if name in settings:
            raise VLAssayError(f"{name} is given twice, as {settings[name]!r} and {value!r}; give it once")
        settings[name] = value
    return settings


def _numbers(seeds: str | None) -> list[int]:
    """``"0,1,2"`` → ``[0, 1, 2]``."""
    texts = [] if seeds is None else seeds.split(",")
    if not all(text.strip().isdecimal() for text in texts):
        raise VLAssayError(f"the seeds are {seeds!r}; give whole numbers from 0 with commas between, such as 0,1,2")
    return [int(text) for text in texts]


def _is_main() -> bool:
    from .distributed import join

    return join().is_main
