"""The studies: hard-positives and order."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ...hub_datasets.commands import AllowMissing, DataDir, Options, parse_options
from ..engine.commands import Dtype, Settings, parse_seeds, parse_settings

app = typer.Typer()
studies = typer.Typer()
app.add_typer(studies, name="study")


@studies.callback()
def study() -> None:
    """Repeat a paper's study: on the toy world, offline, or with your models and data.

    Examples: `vl-assay study hard-positives --quick` · `vl-assay study order --quick`
    """


@studies.command("hard-positives")
def hard_positives(
    out: Annotated[Path, typer.Option(help="Folder of the study: its models, scores and report.")] = Path(
        "vl-assay-results/study-hard-positives"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer captions and scenes, and one seed: minutes.")] = False,
    seeds: Annotated[int | None, typer.Option(help="Trainings of each variant; 3, or 1 with --quick.", min=1)] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Models trained at once; by default one for each CPU, 8 at most, or 1 on a GPU.", min=1),
    ] = None,
) -> None:
    """Repeat a paper's study in miniature, on toy_scenes.

    hard-positives: how hard negatives and hard positives change accuracy and brittleness of demo-clip-web (The Hard
    Positive Truth, Tables 1 and 3), what negatives with an artefact teach (SugarCrepe, section 5.2), and how
    composition depends on the number of in-batch negatives (ARO).

    The same command again resumes: finished models are not trained or scored again.

    Example: `vl-assay study hard-positives --quick --out quick-study`
    """
    from ...metrics.common.documents import print_tables
    from ..engine.distributed import available_cpus, default_device

    device = default_device(0)  # raises with advice if torch is not installed
    from .hard_positives import variants
    from .hard_positives.report import report_parts
    from .hard_positives.study import run_study

    size = variants.QUICK if quick else variants.FULL
    run_study(
        out, replace(size, seeds=seeds or size.seeds), jobs=jobs or (min(8, available_cpus()) if device == "cpu" else 1)
    )
    print_tables(report_parts(json.loads((out / "study.json").read_text("utf-8"))))
    typer.echo(f"written to {out}: study.json, study.md and, with matplotlib, study.png")


@studies.command()
def order(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[[NAME=]MODEL]...", help="Models, each with a label; demo-clip.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of predictions and report; by default vl-assay-results/study-order.")
    ] = None,
    dataset: Annotated[str, typer.Option(help="toy_scenes, coco or flickr30k.")] = "toy_scenes",
    data_dir: DataDir = None,
    seeds: Annotated[str | None, typer.Option(help="Of the shuffles; 0,1,2, or 0,1 with --quick.")] = None,
    order_seeds: Annotated[str | None, typer.Option(help="Of the order task; 0,1,2,3,4, or 0,1 with --quick.")] = None,
    composition: Annotated[
        list[str] | None,
        typer.Option(help="A part of a benchmark whose accuracy stands beside, such as aro/vg_relation; repeatable."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two seeds, and at most 200 examples of each task.")] = False,
    allow_missing: AllowMissing = False,
    option: Options = None,
    setting: Settings = None,
    dtype: Dtype = "float32",
) -> None:
    """Does retrieval need order? Recall with and without the order of words and of parts of images, and composition.

    ARO's Tables 3 and 4 and Figure 2: plain and cleaned captions, five shuffles of words and three of images, each
    with several seeds: mean and deviation, the paired drop of each query with its interval, and a verdict for each
    model. Beside it, the order task. The same command again resumes, and predicts nothing twice. A setting of one model
    begins with its label: `--setting NegCLIP:pretrained=negclip.pth`.

    Examples: `vl-assay study order --quick` · `vl-assay study order demo-clip fine-tuned=my-model --out order` ·
    `vl-assay study order CLIP=openai/clip-vit-base-patch32 --dataset coco --data-dir coco`
    """
    from ...metrics.common.documents import print_tables
    from ..engine.runner import RunConfig
    from .order.design import QUICK, TOY, Design
    from .order.report import report_parts
    from .order.study import parse_models, run_study

    size = QUICK if quick else Design()
    design = Design(
        dataset,
        tuple(parse_seeds(seeds)) or size.seeds,
        tuple(parse_seeds(order_seeds)) or size.order_seeds,
        tuple(composition) if composition else None,
        size.limit,
    )
    folder = out or Path("vl-assay-results") / ("study-order" + ("" if dataset == TOY else f"-{dataset}"))
    options = parse_options(option, allow_missing=allow_missing)
    config = RunConfig(data_dir=data_dir, options=options, dtype=dtype, settings=parse_settings(setting))
    found = run_study(parse_models(models or ["demo-clip"]), folder, design, config=config)
    if found is not None:
        print_tables(report_parts(found))
        typer.echo(f"written to {folder}: study.json, study.md, study.html and, with matplotlib, study.png")
