"""The commands that train: finetune, study."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...metrics.common.errors import UnknownNameError

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer()


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
        str, typer.Option(help="negclip, hn, hp+hn, coco (captions alone), swap-only or replace-only.")
    ] = "negclip",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another value for a number of the recipe; repeatable."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="OURS=THEIRS", help="A column of caption, image, negatives, positives or id; repeatable."),
    ] = None,
    candidates: Annotated[
        list[Path] | None,
        typer.Option(help="Negatives and positives as `vl-assay generate` writes them; repeatable."),
    ] = None,
    split: Annotated[str, typer.Option(help="Split of the data.")] = "train",
    limit: Annotated[int | None, typer.Option(help="Captions to read at most.", min=1)] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Your own copy of a benchmark's sources.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="A field of the data's builder; repeatable."),
    ] = None,
    evaluate: Annotated[
        list[str] | None,
        typer.Option(metavar="BENCHMARK", help="Measure before training and after each epoch; repeatable."),
    ] = None,
    recognise: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Zero-shot classification beside it: a folder of images for each label, or hf://datasets/OWNER/NAME.",
        ),
    ] = None,
    template: Annotated[
        list[str] | None, typer.Option(help="What a label is put into; several are averaged.", show_default=False)
    ] = None,
    stop_on: Annotated[
        str | None,
        typer.Option(metavar="SCORE", help="Stop early on a score, such as toy_scenes/itm/accuracy; keep the best."),
    ] = None,
    patience: Annotated[int, typer.Option(help="Epochs without a better score after which to stop.", min=1)] = 1,
    precision: Annotated[str, typer.Option(help="float32, or bfloat16 with weights in float32.")] = "float32",
    micro_batch: Annotated[
        int | None,
        typer.Option(help="Captions encoded at once; the loss sees the whole batch whatever it is.", min=1),
    ] = None,
    gradient_checkpointing: Annotated[
        bool, typer.Option("--gradient-checkpointing", help="Less memory, more time.")
    ] = False,
    save_steps: Annotated[int, typer.Option(help="Steps between checkpoints.", min=1)] = 500,
    workers: Annotated[int | None, typer.Option(help="Threads that prepare images.", min=1)] = None,
    tracker: Annotated[
        list[str] | None, typer.Option(help="tensorboard or trackio, beside log.jsonl; repeatable.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of the model on the Hub.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", "-s", metavar="NAME=VALUE", help="A choice of the model's family; repeatable."),
    ] = None,
) -> None:
    """Fine-tune a dual encoder for composition, and write a model folder that `vl-assay run` scores.

    Recipes: negclip (ARO: hard negatives and nearest images), hn and hp+hn (Hard Positives: hard negatives without and
    with hard positives), swap-only and replace-only (one kind of each), coco (captions alone). Their numbers can be
    set: epochs, batch_size, learning_rate, warmup_steps, weight_decay, ema_decay, lora_rank, max_gradient_norm, seed,
    negatives, positives, neighbours, and the weights contrastive, negclip, hard_negative, hard_positive.

    The same command again goes on from the last checkpoint.

    Examples: `vl-assay finetune demo-clip toy_scenes --out toy-hn --recipe hn --set negatives=scene:swap --evaluate
    toy_scenes/itm` · `vl-assay finetune openai/clip-vit-base-patch32 coco.csv --out negclip --recipe negclip --set
    learning_rate=5e-6 --precision bfloat16` · `torchrun --nproc_per_node 2 --no-python vl-assay finetune demo-clip
    toy_scenes --out both`
    """
    from rich.console import Console

    from ...hub_datasets.commands import parse_options
    from ..engine.commands import parse_settings
    from ..engine.distributed import default_device, join

    default_device(0)  # says what to install where torch is not
    from .train.recipes import adapt, get_recipe
    from .train.training import TrainingConfig, finetune
    from .train.validation import Evaluation, Stopping

    chosen = adapt(get_recipe(recipe), parse_settings(set_))
    evaluation = Evaluation(tuple(evaluate or ()), recognise, tuple(template or Evaluation.templates), data_dir)
    running = TrainingConfig(
        precision=precision,
        micro_batch=micro_batch,
        gradient_checkpointing=gradient_checkpointing,
        save_steps=save_steps,
        workers=workers,
        trackers=tuple(tracker or ()),
        evaluation=evaluation,
        stopping=Stopping(stop_on, patience),
    )
    outcome = finetune(
        model,
        data,
        out.expanduser(),
        chosen,
        running=running,
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
        _print_history(outcome.history, Console())
        typer.echo(f"written to {out}; score it with: vl-assay run {shlex.quote(str(out.expanduser()))}")


def _print_history(history: Sequence[Mapping[str, Any]], console: Console) -> None:
    """A table of scores by epoch."""
    from rich.table import Table

    if not history:
        return
    table = Table("score", title="Epoch 0 is the model before", title_justify="left")
    for entry in history:
        table.add_column(f"epoch {entry['epoch']}", justify="right")
    for name in history[0]["scores"]:
        table.add_row(name, *(f"{100 * entry['scores'][name]:.1f} %" for entry in history))
    console.print(table)


@app.command()
def study(
    name: Annotated[str, typer.Argument(help="hard-positives.")],
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
    """Repeat a paper's study in miniature: demo-clip, fine-tuned on toy_scenes in thirteen ways.

    hard-positives: what hard negatives and hard positives do to accuracy and brittleness (The Hard Positive Truth,
    Tables 1 and 3), and what negatives with an artefact teach (SugarCrepe, section 5.2).

    The same command again goes on: models that are finished are not trained or scored again.

    Example: `vl-assay study hard-positives --quick --out quick-study`
    """
    from ..engine.distributed import available_cpus, default_device

    if name != "hard-positives":
        raise UnknownNameError("study", name, ["hard-positives"])
    device = default_device(0)  # says what to install where torch is not
    from .study.report import print_study
    from .study.study import FULL, QUICK, run_study

    size = QUICK if quick else FULL
    run_study(
        out,
        replace(size, seeds=seeds or size.seeds),
        jobs=jobs or (min(8, available_cpus()) if device == "cpu" else 1),
    )
    print_study(json.loads((out / "study.json").read_text("utf-8")))
    typer.echo(f"written to {out}: study.json, study.md and, with matplotlib, study.png")
