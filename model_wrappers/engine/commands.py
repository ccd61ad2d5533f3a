"""The commands of the engine: run, check, predict, merge and cache; and option types of commands with a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ...hub_datasets.commands import make_report
from ...hub_datasets.options import AllowMissing, DataDir, Options, Ties, parse_options
from ...metrics.common.command_line import model_option, speed_option
from ...metrics.common.config_file import config_option, read_config
from ...metrics.common.errors import VLAssayError

if TYPE_CHECKING:
    from ...metrics.results.report import PredictionFiles
    from .checking import ModelCheck
    from .runner import RunConfig

app = typer.Typer()
# Its own app, as `vl-assay --help` lists it after the commands of other folders.
cache_app = typer.Typer()

ModelName = Annotated[
    str, typer.Argument(help="A demo (demo-clip), a folder, a Hub repository, or family:checkpoint (mock:oracle).")
]
Benchmarks = Annotated[
    list[str] | None,
    typer.Argument(help="Benchmarks, parts of them (sugarcrepe/swap_obj) or dataset folders; default toy_scenes."),
]
Revision = Annotated[str | None, model_option(help="Branch, tag or commit of the model on the Hub.")]
Settings = Annotated[
    list[str] | None,
    model_option("--setting", "-s", metavar="NAME=VALUE", help="A setting of the model's family; repeatable."),
]
Dtype = Annotated[str, model_option(help="float32, bfloat16, float16 or auto.")]


@dataclass(frozen=True)
class RunSettings:
    """The settings in the file of ``--config``, of runs of a model."""

    revision: Annotated[str | None, "branch, tag or commit of the model on the Hub"] = None
    workers: Annotated[
        int | None, "processes that prepare images; by default 0 on a CPU, and beside a GPU all CPUs but one", 0
    ] = None
    cache: Annotated[bool, "keep results for later runs, and use those of earlier ones"] = True
    engine: Annotated[str, "ray: a Ray cluster with a worker for each GPU; ray:0.5: two workers for each GPU"] = ""


@dataclass(frozen=True)
class RunOptions:
    """The options that `run` and `predict` have in common; they make a `RunConfig`."""

    out: Annotated[Path | None, typer.Option(help="Folder of the results; by default vl-assay-results/MODEL.")] = None
    data_dir: DataDir = None
    allow_missing: AllowMissing = False
    option: Options = None
    setting: Settings = None
    dtype: Annotated[
        str | None,
        model_option(help="float32, bfloat16, float16 or auto; by default that of Accelerate, else float32."),
    ] = None
    batch_size: Annotated[
        int | None,
        speed_option(help="Images or texts in a batch; affects speed only. By default what suits the device.", min=1),
    ] = None
    decode: Annotated[
        str | None, speed_option(help="gpu: decode JPEG files on the GPU; pixels differ a little, which is recorded.")
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Only N examples of each task, for a quick look: the results are partial.", min=1
        ),
    ] = None
    seeds: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Seeds of the benchmarks' builders; reports show the spread over them."),
    ] = None
    config: Annotated[Path | None, config_option(RunSettings)] = None

    def run_config(self) -> RunConfig:
        """Return the configuration of the run."""
        from .runner import RunConfig

        same = {field.name for field in fields(RunConfig)} & {field.name for field in fields(self)}
        return RunConfig(
            **{name: getattr(self, name) for name in same},
            **asdict(read_config(self.config, RunSettings)),
            options=parse_options(self.option, allow_missing=self.allow_missing),
            settings=parse_settings(self.setting),
        )

    def predict(self, model: str, benchmarks: list[str] | None, shard: str | None = None) -> PredictionFiles:
        """Write the predictions of a model, or compute a shard of them."""
        from . import runner

        references = benchmarks or runner.DEFAULT_BENCHMARKS
        config = replace(self.run_config(), shard=shard)
        return runner.predict(model, references, out=self.out, seeds=parse_seeds(self.seeds), config=config)


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Make the fields of `RunOptions` options of a command, whose parameter `options` receives an instance."""
    hints = get_type_hints(RunOptions, include_extras=True)
    added = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(RunOptions)
    ]
    parameters = list(signature(command, eval_str=True).parameters.values())

    @wraps(command)
    def wrapper(**values: Any) -> None:
        command(options=RunOptions(**{field.name: values.pop(field.name) for field in fields(RunOptions)}), **values)

    position = [parameter.name for parameter in parameters].index("options")
    parameters[position : position + 1] = added
    wrapper.__signature__ = Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
    return wrapper


@app.command()
@with_run_options
def run(
    model: ModelName = "demo-clip",
    benchmarks: Benchmarks = None,
    *,
    options: RunOptions,
    plan: Annotated[bool, typer.Option("--plan", help="Count what is to be computed or asked, and stop.")] = False,
    ties: Ties = None,
) -> None:
    """Evaluate a model on benchmarks and report: predictions, tables, plots, JSON, LaTeX.

    Prints the main score of each task and what the scores show; `vl-assay report` prints all tables. Predictions that
    are in the folder stay, and the report covers all of them. With `--allow-missing`, a task whose images are all
    missing is named and has no result; the exit code is 1 only if no task has one.

    Examples: `vl-assay run` · `vl-assay run mock:bag-of-words` ·
    `vl-assay run demo-clip toy_scenes/order --seeds 0,1,2` ·
    `vl-assay run openai/clip-vit-base-patch32 sugarcrepe --data-dir coco` · `vl-assay run demo-clip --plan` ·
    `accelerate launch --multi_gpu "$(which vl-assay)" run demo-clip`
    """
    from ...metrics.results.compute import check_options
    from . import runner

    check_options(ties=ties)
    if plan:
        references = benchmarks or runner.DEFAULT_BENCHMARKS
        planned = runner.plan(model, references, config=options.run_config())
        typer.echo(f"{model}: {planned}. Nothing was computed or sent.")
        return
    files = options.predict(model, benchmarks)
    if _is_main():
        typer.echo("evaluating", err=True)
        make_report(runner.with_earlier(files), files[0].parent, new=files, ties=ties)
        if model == "demo-clip" and not benchmarks:
            typer.echo("a CLIP that mostly ignores word order: vl-assay run demo-clip-web")


@app.command()
def check(
    model: ModelName = "demo-clip", dtype: Dtype = "float32", revision: Revision = None, setting: Settings = None
) -> None:
    """How was a model loaded, what do its scores depend on, and how fast is it? Run it first with a new model.

    Prints processor, precision and settings, and scores pairs of toy_scenes (or questions, or phrases) together and one
    at a time. Exits with 1 if scores change with the batch size, or ignore the image or the caption.

    Examples: `vl-assay check demo-clip` · `vl-assay check Salesforce/blip-itm-base-coco -s head=itc`
    """
    from . import checking
    from .distributed import default_device
    from .protocol import LoadOptions

    options = LoadOptions(default_device(0), dtype, revision, parse_settings(setting))
    result = checking.check(model, options)
    _print_check(result)
    if not result.is_passed:
        raise typer.Exit(1)


@app.command()
@with_run_options
def predict(
    model: ModelName = "demo-clip",
    benchmarks: Benchmarks = None,
    *,
    options: RunOptions,
    shard: Annotated[
        str | None,
        speed_option(metavar="I/N", help="Compute part I of N alone; `vl-assay merge` makes the predictions of all."),
    ] = None,
) -> None:
    """Write predictions only; `vl-assay report` evaluates them.

    A run that was killed resumes when the same command is given again. Machines that share nothing take a shard each.

    Examples: `vl-assay predict demo-clip toy_scenes --out predictions` ·
    `vl-assay predict demo-clip toy_scenes --shard 1/2 --out shard-1`
    """
    files = options.predict(model, benchmarks, shard=shard)
    if _is_main():
        typer.echo("\n".join(str(file) for file in files) or f"shard {shard} is finished; merge all: vl-assay merge")


@app.command()
def merge(
    shards: Annotated[list[Path], typer.Argument(help="Output folders of the shards, or folders that hold them.")],
    out: Annotated[Path, typer.Option(help="Folder of the predictions.")] = Path("vl-assay-results/merged"),
    data_dir: DataDir = None,
) -> None:
    """Make the predictions of a run from its shards: the same as without shards.

    Says which shards are missing or damaged; these are run again, and merged with the others. Near-ties are re-checked
    by the model, so merge on the same kind of machine. `vl-assay report` evaluates the predictions.

    Example: `vl-assay merge shard-1 shard-2 --out merged`
    """
    from . import runner

    files = runner.merge(*shards, out=out, data_dir=data_dir)
    if _is_main():
        typer.echo("\n".join(str(file) for file in files))


@cache_app.command()
def cache(clear: Annotated[bool, typer.Option("--clear", help="Remove all of them.")] = False) -> None:
    """Show the stored results by model, or remove them.

    They are in the folder store of VL_ASSAY_CACHE; VL_ASSAY_CACHE_LIMIT limits them, in gigabytes (10 by default).
    Examples: `vl-assay cache` · `vl-assay cache --clear`
    """
    from ...metrics.common.documents import print_tables, simple_table
    from .store import cached_models, clear_cache

    if clear:
        typer.echo(f"{clear_cache() / 1e6:,.1f} MB removed")
        return
    rows = [
        (stored.name, stored.revision[:20], stored.dtype, str(stored.parts), f"{stored.bytes / 1e6:,.1f}")
        for stored in cached_models()
    ]
    table = simple_table(("model", "revision", "dtype", "parts", "MB"), rows, title="Stored results")
    print_tables([table if rows else "nothing is stored"])


def _print_check(result: ModelCheck) -> None:
    from ...metrics.common.documents import print_tables, simple_table

    info = result.info
    facts = {
        "family": f"{info.family}, {info.parameters:,} parameters, loaded in {result.load_seconds:.1f} s",
        "precision": f"{info.dtype} on {result.device}",
        "settings": ", ".join(f"{name}={value}" for name, value in info.settings.items()),
        "images": ", ".join(f"{name} {value}" for name, value in info.preprocessing.items()),
        "tasks": ", ".join(result.task_types),
        **{finding.name: f"{'' if finding.is_passed else 'FAILED: '}{finding.text}" for finding in result.findings},
        "speed": ", ".join(f"{1000 * seconds:,.1f} ms an item of {name}" for name, seconds in result.seconds.items()),
        "peak memory": f"{result.memory / 1e9:,.1f} GB",
    }
    typer.echo(result.verdict)
    print_tables([simple_table((info.name, ""), [fact for fact in facts.items() if fact[1]])])
    typer.echo("what a run would compute: vl-assay run MODEL BENCHMARK --plan")


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


def parse_seeds(seeds: str | None) -> list[int]:
    """``"0,1,2"`` → ``[0, 1, 2]``."""
    texts = [] if seeds is None else seeds.split(",")
    if not all(text.strip().isdecimal() for text in texts):
        raise VLAssayError(f"the seeds are {seeds!r}; give whole numbers from 0 with commas between, such as 0,1,2")
    return [int(text) for text in texts]


def _is_main() -> bool:
    from .distributed import join

    return join().is_main
