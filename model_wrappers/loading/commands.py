"""The command convert."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...metrics.common.command_line import model_option

app = typer.Typer()


@app.command()
def convert(
    checkpoint: Annotated[
        Path, typer.Argument(help="A file of weights of open_clip or its forks, such as negclip.pth.")
    ],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    model: Annotated[
        str | None,
        model_option(
            help="A checkpoint of docs/checkpoints.md, or its model of open_clip, if the file's name tells none."
        ),
    ] = None,
    base: Annotated[
        str | None,
        model_option(help="A CLIP for the tokenizer and for CLoVe's mean; by default openai/clip-vit-base-patch32."),
    ] = None,
) -> None:
    """Convert a published checkpoint to a folder of safetensors, which every command takes as a model.

    Adapters are merged and a teacher is left out (docs/checkpoints.md); the folder's card states source, licence,
    hash and changes. Pickles that could run code are refused.

    Examples: `vl-assay convert negclip.pth negclip` ·
    `vl-assay convert checkpoint.pt my-clip --model ViT-B-32-quickgelu`
    """
    from .conversion import BASE, convert_checkpoint

    written = convert_checkpoint(checkpoint, out, model=model, base=base or BASE)
    typer.echo(f"{'written' if written else 'converted before'}; to evaluate it: vl-assay run {out}")
