"""The command finetune."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ...hub_datasets.options import DataDir, Options, parse_options
from ...metrics.common.command_line import data_option
from ...metrics.common.config_file import config_option, read_config
from ...metrics.common.errors import VLAssayError
from ...metrics.common.storage import with_home
from ..engine.commands import Revision, Settings, parse_settings
from .train.config import TrainingConfig

app = typer.Typer()


@dataclass(frozen=True)
class FinetuneConfig(TrainingConfig):
    """The settings in the YAML file of `--config`."""

    split: Annotated[str, "split of the data"] = "train"


@app.command()
def finetune(
    model: Annotated[str, typer.Argument(help="A dual encoder: demo-clip, a folder, a Hub repository.")],
    data: Annotated[
        str,
        typer.Argument(
            help="Captions and images: toy_scenes, a folder of images with metadata.csv, a table that names image "
            "files, COCO's captions_train2017.json, Karpathy's dataset_coco.json, a built benchmark, or "
            "hf://datasets/OWNER/NAME."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the new model.")],
    recipe: Annotated[
        str, typer.Option(help="negclip, hn, hp+hn, coco, swap-only, replace-only, svlc or sugarcrepe-negclip.")
    ] = "negclip",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another value for a field of the recipe; repeatable."),
    ] = None,
    evaluate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BENCHMARK",
            help="Measure before, after each epoch and at the end; repeatable. By default toy_scenes/itm.",
        ),
    ] = None,
    no_evaluation: Annotated[
        bool, typer.Option("--no-evaluation", help="Measure on no benchmark, which saves its time.")
    ] = False,
    column: Annotated[
        list[str] | None,
        data_option(
            metavar="FIELD=COLUMN", help="The column of caption, image, negatives, positives or id; repeatable."
        ),
    ] = None,
    candidates: Annotated[
        list[Path] | None, data_option(help="Negatives and positives from `vl-assay generate`; repeatable.")
    ] = None,
    limit: Annotated[int | None, data_option(help="Read at most this many captions.", min=1)] = None,
    data_dir: DataDir = None,
    option: Options = None,
    revision: Revision = None,
    setting: Settings = None,
    config: Annotated[Path | None, config_option(FinetuneConfig)] = None,
) -> None:
    """Fine-tune a dual encoder for composition, and write a model folder that `vl-assay run` scores.

    Recipes: negclip (ARO: hard negatives and nearest images), hn and hp+hn (Hard Positives: hard negatives without and
    with hard positives), swap-only and replace-only (one kind of each), coco (captions only), svlc (SVLC: LoRA,
    negatives among the contrastive columns), sugarcrepe-negclip (SugarCrepe A.3). Fields that --set changes: epochs,
    batch_size, learning_rate, warmup_steps, weight_decay, betas, epsilon, max_gradient_norm, lora_rank, random_start (a
    model from random weights), seed, negatives, positives, needs_negative, frozen (one of each for the whole run),
    neighbours, and the weights contrastive, negclip, hard_negative, hard_positive.

    The model is measured before and after, and the last thing printed is whether it got better; its predictions are in
    OUT/training. The same command again resumes from the last checkpoint.

    Examples: `vl-assay finetune demo-clip toy_scenes --out toy-hn --recipe hn --set negatives=scene:swap --evaluate
    toy_scenes/itm` · `vl-assay finetune openai/clip-vit-base-patch32 coco.csv --out negclip --recipe negclip --set
    learning_rate=5e-6 --config bfloat16.yaml` · `torchrun --nproc_per_node 2 --no-python vl-assay finetune demo-clip
    toy_scenes --out both`
    """
    from ...metrics.common.documents import print_tables
    from ..engine.distributed import default_device, join

    default_device(0)  # raises with advice if torch is not installed
    from .train.model_card import EPOCH_0, history_table
    from .train.recipes import adapt, get_recipe
    from .train.training import finetune
    from .train.validation import DEFAULT_EVALUATION, Evaluation

    if evaluate and no_evaluation:
        raise VLAssayError("--evaluate and --no-evaluation came; give one of them")
    settings = read_config(config, FinetuneConfig)
    benchmarks = () if no_evaluation else tuple(evaluate or DEFAULT_EVALUATION)
    adapted = adapt(get_recipe(recipe), parse_settings(set_))
    outcome = finetune(
        model,
        data,
        with_home(out),
        adapted,
        config=settings,
        evaluation=Evaluation(benchmarks, data_dir),
        revision=revision,
        settings=parse_settings(setting),
        columns=parse_settings(column),
        files=candidates,
        split=settings.split,
        limit=limit,
        data_dir=data_dir,
        options=parse_options(option, allow_missing=False),
    )
    if join().is_main:
        if outcome.history:
            print_tables([history_table(outcome.history, title=EPOCH_0)])
        if outcome.comparison:
            before = f"{model} with random weights" if adapted.random_start else model
            typer.echo(f"the new model compared with {before}, which is the model of epoch 0:")
            outcome.comparison.print()
        typer.echo(f"written to {outcome.folder}; score it with: vl-assay run {shlex.quote(str(outcome.folder))}")
