"""The command study."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ...metrics.common.errors import check_known

app = typer.Typer()


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
    """Repeat a paper's study in miniature: demo-clip, fine-tuned on toy_scenes in thirteen variants.

    hard-positives: how hard negatives and hard positives change accuracy and brittleness (The Hard Positive Truth,
    Tables 1 and 3), and what negatives with an artefact teach (SugarCrepe, section 5.2).

    The same command again resumes: finished models are not trained or scored again.

    Example: `vl-assay study hard-positives --quick --out quick-study`
    """
    from ...metrics.common.documents import print_tables
    from ..engine.distributed import available_cpus, default_device

    check_known("study", [name], ["hard-positives"])
    device = default_device(0)  # raises with advice if torch is not installed
    from .hard_positives import variants
    from .hard_positives.report import report_parts
    from .hard_positives.study import run_study

    size = variants.QUICK if quick else variants.FULL
    run_study(
        out,
        replace(size, seeds=seeds or size.seeds),
        jobs=jobs or (min(8, available_cpus()) if device == "cpu" else 1),
    )
    print_tables(report_parts(json.loads((out / "study.json").read_text("utf-8"))))
    typer.echo(f"written to {out}: study.json, study.md and, with matplotlib, study.png")
