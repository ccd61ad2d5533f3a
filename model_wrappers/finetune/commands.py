"""The command finetune."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

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
    sweep: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=V1,V2", help="A run for each value; keep the best on validation data; repeatable."),
    ] = None,
    column: Annotated[
        list[str] | None,
        data_option(
            metavar="FIELD=COLUMN", help="The column of caption, image, negatives, positives or id; repeatable."
        ),
    ] = None,
    candidates: Annotated[
        list[Path] | None, data_option(help="Negatives and positives from `vl-assay generate`; repeatable.")
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
    select: Annotated[
        list[str] | None,
        _measure_option(
            metavar="SCORE",
            help="With --sweep: the validation score that decides, several by their mean; by default Recall@1 on "
            "retrieval/coco_validation.",
        ),
    ] = None,
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
        int | None, speed_option(help="Captions encoded at once; the loss always sees the whole batch.", min=1)
    ] = None,
    gradient_checkpointing: Annotated[
        bool, speed_option("--gradient-checkpointing", help="Less memory, more time.")
    ] = False,
    save_steps: Annotated[int, speed_option(help="Steps between checkpoints.", min=1)] = 500,
    workers: Annotated[int | None, speed_option(help="Threads that prepare images.", min=1)] = None,
    tracker: Annotated[
        list[str] | None, _measure_option(help="tensorboard or trackio, in addition to log.jsonl; repeatable.")
    ] = None,
    revision: Revision = None,
    setting: Settings = None,
) -> None:
    """Fine-tune a dual encoder for composition, and write a model folder that `vl-assay run` scores.

    Recipes: negclip (ARO: hard negatives and nearest images), hn and hp+hn (Hard Positives: hard negatives without and
    with hard positives), swap-only and replace-only (one kind of each), coco (captions only), svlc (SVLC: LoRA,
    negatives among the contrastive columns), sugarcrepe-negclip (SugarCrepe A.3). Fields that --set changes: epochs,
    batch_size, learning_rate, warmup_steps, weight_decay, ema_decay, lora_rank, lora (linear or svlc), random_start (a
    model from random weights), max_gradient_norm, seed, negatives, positives, frozen (one of each for the whole run),
    refined (negatives after adversarial refinement), neighbours, and the weights contrastive, negclip, hard_negative,
    hard_positive.

    The model is measured before and after, and the last thing printed is whether it got better; its predictions are in
    OUT/training. The same command again resumes from the last checkpoint.

    With --sweep each value has a run in OUT, and the best on validation data is kept; OUT/sweep.md has all scores.
    ARO's is --sweep learning_rate=1e-5,5e-6,1e-6, decided by retrieval on COCO's validation split.

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
    from .train.sweep import VALIDATION
    from .train.sweep import sweep as run_sweep
    from .train.training import finetune
    from .train.validation import DEFAULT_EVALUATION, Evaluation, Stopping

    if evaluate and no_evaluation:
        raise VLAssayError("--evaluate and --no-evaluation came; give one of them")
    if select and not sweep:
        raise VLAssayError("--select is for --sweep; add a sweep, such as --sweep learning_rate=1e-5,5e-6")
    benchmarks = () if no_evaluation else tuple(evaluate or ((VALIDATION,) if sweep else DEFAULT_EVALUATION))
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
    chosen = adapt(get_recipe(recipe), parse_settings(set_))
    arguments: dict[str, Any] = {
        "config": config,
        "revision": revision,
        "settings": parse_settings(setting),
        "columns": parse_settings(column),
        "files": candidates,
        "split": split,
        "limit": limit,
        "data_dir": data_dir,
        "options": parse_options(option, allow_missing=False),
    }
    folder = out.expanduser()
    if sweep:
        values = {name: list(map(str.strip, text.split(","))) for name, text in parse_settings(sweep).items()}
        found = run_sweep(model, data, folder, chosen, values, select=select or (), **arguments)
        outcome, folder = found.outcome, found.folder
        if join().is_main:
            print_tables([found.table])
    else:
        outcome = finetune(model, data, folder, chosen, **arguments)
    if join().is_main:
        if outcome and outcome.history:
            print_tables([history_table(outcome.history, title=EPOCH_0)])
        if outcome and outcome.comparison:
            before = f"{model} with random weights" if chosen.random_start else model
            typer.echo(f"the new model compared with {before}, which is the model of epoch 0:")
            outcome.comparison.print()
        typer.echo(f"written to {folder}; score it with: vl-assay run {shlex.quote(str(folder))}")
