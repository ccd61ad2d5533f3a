"""The command finetune."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ...hub_datasets.commands import DataDir, Options, parse_options
from ...metrics.common.command_line import data_option, speed_option
from ...metrics.common.errors import VLAssayError
from ..engine.commands import Revision, Settings, parse_settings

app = typer.Typer()

_measure_option = partial(typer.Option, rich_help_panel="Measure while training")


@app.command()
def finetune(
    model: Annotated[str, typer.Argument(help="A dual encoder: demo-clip, a folder, a Hub repository.")],
    data: Annotated[
        str,
        typer.Argument(
            help="Captions and images: toy_scenes, a folder of images with metadata.csv, a table that names image "
            "files, a built benchmark, or hf://datasets/OWNER/NAME."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the new model.")],
    recipe: Annotated[
        str, typer.Option(help="negclip, hn, hp+hn, coco (captions only), swap-only or replace-only.")
    ] = "negclip",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another value for a field of the recipe; repeatable."),
    ] = None,
    column: Annotated[
        list[str] | None,
        data_option(
            metavar="FIELD=COLUMN", help="The column of caption, image, negatives, positives or id; repeatable."
        ),
    ] = None,
    candidates: Annotated[
        list[Path] | None,
        data_option(help="Negatives and positives from `vl-assay generate`; repeatable."),
    ] = None,
    split: Annotated[str, data_option(help="Split of the data.")] = "train",
    limit: Annotated[int | None, typer.Option(help="Read at most this many captions.", min=1)] = None,
    data_dir: DataDir = None,
    option: Options = None,
    evaluate: Annotated[
        list[str] | None,
        _measure_option(
            metavar="BENCHMARK",
            help="Measure before, after each epoch and at the end; repeatable. By default toy_scenes/itm.",
        ),
    ] = None,
    no_evaluation: Annotated[
        bool, _measure_option("--no-evaluation", help="Measure on no benchmark, which saves its time.")
    ] = False,
    recognise: Annotated[
        str | None,
        _measure_option(
            metavar="FOLDER",
            help="Measure zero-shot classification too: a folder of images for each label, or "
            "hf://datasets/OWNER/NAME.",
        ),
    ] = None,
    template: Annotated[
        list[str] | None,
        _measure_option(help="Prompt for a label; several are averaged; repeatable.", show_default=False),
    ] = None,
    stop_on: Annotated[
        str | None,
        _measure_option(metavar="SCORE", help="Stop early on a score, such as toy_scenes/itm/accuracy; keep the best."),
    ] = None,
    patience: Annotated[int, _measure_option(help="Stop after this many epochs without a better score.", min=1)] = 1,
    precision: Annotated[str, speed_option(help="float32, or bfloat16 with weights in float32.")] = "float32",
    micro_batch: Annotated[
        int | None,
        speed_option(help="Captions encoded at once; the loss always sees the whole batch.", min=1),
    ] = None,
    gradient_checkpointing: Annotated[
        bool, speed_option("--gradient-checkpointing", help="Less memory, more time.")
    ] = False,
    save_steps: Annotated[int, speed_option(help="Steps between checkpoints.", min=1)] = 500,
    workers: Annotated[int | None, speed_option(help="Threads that prepare images.", min=1)] = None,
    tracker: Annotated[
        list[str] | None,
        _measure_option(help="tensorboard or trackio, in addition to log.jsonl; repeatable."),
    ] = None,
    revision: Revision = None,
    setting: Settings = None,
) -> None:
    """Fine-tune a dual encoder for composition, and write a model folder that `vl-assay run` scores.

    Recipes: negclip (ARO: hard negatives and nearest images), hn and hp+hn (Hard Positives: hard negatives without and
    with hard positives), swap-only and replace-only (one kind of each), coco (captions only). Fields that --set
    changes: epochs, batch_size, learning_rate, warmup_steps, weight_decay, ema_decay, lora_rank, max_gradient_norm,
    seed, negatives, positives, neighbours, and the weights contrastive, negclip, hard_negative, hard_positive.

    The model is measured before and after, and the last thing printed is whether it got better; its predictions are in
    OUT/training. The same command again resumes from the last checkpoint.

    Examples: `vl-assay finetune demo-clip toy_scenes --out toy-hn --recipe hn --set negatives=scene:swap --evaluate
    toy_scenes/itm` · `vl-assay finetune openai/clip-vit-base-patch32 coco.csv --out negclip --recipe negclip --set
    learning_rate=5e-6 --precision bfloat16` · `torchrun --nproc_per_node 2 --no-python vl-assay finetune demo-clip
    toy_scenes --out both`
    """
    from ...metrics.common.documents import print_tables
    from ..engine.distributed import default_device, join

    default_device(0)  # raises with advice if torch is not installed
    from .train.config import TrainingConfig
    from .train.model_card import EPOCH_0, history_table
    from .train.recipes import adapt, get_recipe
    from .train.training import finetune
    from .train.validation import DEFAULT_EVALUATION, Evaluation, Stopping

    if evaluate and no_evaluation:
        raise VLAssayError("--evaluate and --no-evaluation came; give one of them")
    benchmarks = () if no_evaluation else tuple(evaluate or DEFAULT_EVALUATION)
    config = TrainingConfig(
        precision=precision,
        micro_batch=micro_batch,
        gradient_checkpointing=gradient_checkpointing,
        save_steps=save_steps,
        workers=workers,
        trackers=tuple(tracker or ()),
        evaluation=Evaluation(benchmarks, recognise, tuple(template or Evaluation.templates), data_dir),
        stopping=Stopping(stop_on, patience),
    )
    outcome = finetune(
        model,
        data,
        out.expanduser(),
        adapt(get_recipe(recipe), parse_settings(set_)),
        config=config,
        revision=revision,
        settings=parse_settings(setting),
        columns=parse_settings(column),
        files=candidates,
        split=split,
        limit=limit,
        data_dir=data_dir,
        options=parse_options(option, allow_missing=False),
    )
    if join().is_main:
        if outcome.history:
            print_tables([history_table(outcome.history, title=EPOCH_0)])
        if outcome.comparison:
            typer.echo(f"the new model compared with {model}, which is the model of epoch 0:")
            outcome.comparison.print()
        typer.echo(f"written to {out}; score it with: vl-assay run {shlex.quote(str(out.expanduser()))}")
