"""The commands on training sets: corpus statistics, generate, audit and contamination."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...metrics.common.command_line import data_option, parse_shard, speed_option
from ...metrics.common.errors import VLAssayError, check_known
from ...metrics.common.storage import check_writable
from ..commands import DataDir, Options, parse_columns, parse_options

if TYPE_CHECKING:
    from ...metrics.common.documents import Part
    from .running import ShardOutcome, Step

app = typer.Typer()

Shards = Annotated[
    list[str],
    typer.Argument(
        metavar="SHARDS...",
        help="Parquet files or WebDataset tars, folders of them or globs; local, or at an address such as "
        "hf://datasets/OWNER/NAME/*.parquet.",
    ),
]
Out = Annotated[Path, typer.Option(help="Folder of the outputs, one for each shard, and of the report.")]
Columns = Annotated[
    list[str] | None,
    data_option("--column", metavar="OURS=THEIRS", help="The shards' column of caption or image; repeatable."),
]
Workers = Annotated[int, speed_option(help="Processes on this machine; not with --engine.", min=1)]
Engine = Annotated[
    str, speed_option(help="`ray`: a shard on each CPU of a Ray cluster, of RAY_ADDRESS or this machine.")
]
ShardPart = Annotated[
    str | None,
    speed_option("--shard", metavar="N/M", help="Only every M-th shard, from the N-th: one machine's part, as 3/16."),
]


@app.callback()
def corpus() -> None:
    """Examine a training set of up to 10⁹ captions, shard by shard, in bounded memory.

    Each shard has an output in OUT/shards, which is complete or not there. The same command resumes, and does a shard
    again if it or an option has changed. A damaged shard is named at the end, and makes the exit code 1; the others are
    done. On many machines that share a folder each takes a part, `--shard 3/16`, and then the same command without
    `--shard` reports on all: docs/scale.md.

    Examples: `vl-assay corpus statistics train --out stats` · `vl-assay corpus contamination train --out found
    --benchmark sugarcrepe --data-dir coco`
    """


@app.command()
def statistics(
    shards: Shards,
    *,
    out: Out,
    column: Columns = None,
    workers: Workers = 1,
    engine: Engine = "",
    shard: ShardPart = None,
) -> None:
    """Describe captions: lengths, words, typing, and how many repeat another one.

    Captions are the same if their words are, in lower case. Writes statistics.json, statistics.md and statistics.html.

    Examples: `vl-assay corpus statistics train --out stats --workers 8` · `vl-assay corpus statistics
    'hf://datasets/me/pairs/*.parquet' --column caption=text --out stats`
    """
    from .statistics import CaptionStatistics, merge, report_parts

    step = CaptionStatistics(**_columns(column, "caption"))
    _run("statistics", step, shards, out, merge, report_parts, workers=workers, engine=engine, part=shard)


@app.command()
def generate(
    shards: Shards,
    *,
    out: Out,
    kind: Annotated[
        list[str] | None, typer.Option(help="Such as replace_obj or positive_swap; repeatable, by default all.")
    ] = None,
    each: Annotated[int, typer.Option(help="At most so many candidates of each kind for a caption.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the choice of words.")] = 0,
    column: Columns = None,
    workers: Workers = 1,
    engine: Engine = "",
    shard: ShardPart = None,
) -> None:
    """Make hard negatives and hard positives by rule, as `vl-assay generate --rules` does.

    Rules see 4,096 captions at a time, and prefer words that occur among these. The outputs have the columns row,
    caption, candidate, kind and is_positive. Writes candidates.json, candidates.md and candidates.html.

    Example: `vl-assay corpus generate train --kind replace_att --kind swap_obj --out made --workers 8`
    """
    from ..authoring.generate.checks import KINDS
    from ..authoring.generate.rules import RULE_KINDS
    from .rules import RuleCandidates, candidate_parts, merge_candidates

    check_known("kind of candidates", kind or (), RULE_KINDS)
    step = RuleCandidates(tuple(dict.fromkeys(kind or KINDS)), **_columns(column, "caption"), each=each, seed=seed)
    _run("candidates", step, shards, out, merge_candidates, candidate_parts, workers=workers, engine=engine, part=shard)


@app.command()
def audit(
    shards: Shards,
    *,
    out: Out,
    column: Annotated[
        list[str] | None,
        data_option(
            "--column",
            metavar="OURS=THEIRS",
            help="The shards' column of positive, negative or category; repeatable. By default those that `vl-assay "
            "corpus generate` writes.",
        ),
    ] = None,
    workers: Workers = 1,
    engine: Engine = "",
    shard: ShardPart = None,
) -> None:
    """Measure how often the rules of `vl-assay audit`, which see no image, tell captions from their negatives.

    Outputs have the result of each rule on each pair: 1 right, 0 tie, -1 wrong. Writes audit.json, audit.md and
    audit.html.

    Examples: `vl-assay corpus audit made/shards --out audited` · `vl-assay corpus audit pairs --out audited
    --column positive=caption --column negative=hard_negative --column category=type`
    """
    from .rules import BlindRules, audit_parts, merge_audit

    step = BlindRules(**_columns(column, "positive", "negative", "category"))
    _run("audit", step, shards, out, merge_audit, audit_parts, workers=workers, engine=engine, part=shard)


@app.command()
def contamination(
    shards: Shards,
    *,
    out: Out,
    benchmark: Annotated[
        list[str], typer.Option(help="A benchmark, a part of one, or a folder of `vl-assay build`; repeatable.")
    ],
    resemblance: Annotated[
        float, typer.Option(help="Similar captions: the least Jaccard index of their pairs of neighbouring words.")
    ] = 0.7,
    no_images: Annotated[bool, typer.Option("--no-images", help="Look for captions only.")] = False,
    image_model: Annotated[
        str | None,
        typer.Option(
            help="Also find similar images, by an image-only checkpoint such as facebook/dinov2-small, or histogram."
        ),
    ] = None,
    image_similarity: Annotated[
        float, typer.Option(help="Similar images: the least cosine of their embeddings.")
    ] = 0.95,
    data_dir: DataDir = None,
    option: Options = None,
    column: Columns = None,
    workers: Workers = 1,
    engine: Engine = "",
    shard: ShardPart = None,
) -> None:
    """Find which examples of benchmarks are in a training set: captions and images, the same and similar ones.

    The same captions have the same words, in lower case; the same images are the same files. All captions with at least
    `--resemblance` are found, and none with less. Images that were scaled or compressed again need `--image-model`.
    Writes contamination.json, contamination.md and contamination.html.

    Examples: `vl-assay corpus contamination train --benchmark toy_scenes/itm --out found --no-images` ·
    `vl-assay corpus contamination 'train/*.tar' --benchmark sugarcrepe --data-dir coco --image-model
    facebook/dinov2-small --out found --workers 8`
    """
    from .contamination import ContaminationSearch, merge, read_items
    from .report import contamination_parts

    if no_images and image_model:
        raise VLAssayError("--image-model is for images, which --no-images leaves out; give one of them")
    check_writable(out)
    if image_model and Path(image_model).is_dir():
        image_model = str(Path(image_model).absolute())  # nodes of a cluster start elsewhere
    columns = _columns(column, "caption", "image")
    items = read_items(
        benchmark,
        data_dir=data_dir,
        options=parse_options(option, allow_missing=False),
        with_images=not no_images,
        image_model=image_model,
    )
    image = None if no_images else columns.pop("image", "image")
    step = ContaminationSearch(items, resemblance, image_similarity, image_model, image_column=image, **columns)
    _run(
        "contamination",
        step,
        shards,
        out,
        lambda outcomes: merge(step, outcomes),
        contamination_parts,
        workers=workers,
        engine=engine,
        part=shard,
    )


def _columns(given: list[str] | None, *known: str) -> dict[str, str]:
    columns = parse_columns(given)
    check_known("column", columns, known)
    return columns


def _run(
    name: str,
    step: Step,
    patterns: Sequence[str],
    out: Path,
    merge: Callable[[Sequence[ShardOutcome]], Mapping[str, Any]],
    report: Callable[[Any], list[Part]],
    *,
    workers: int,
    engine: str,
    part: str | None,
) -> None:
    """Run a step, in so many processes or by an engine, and report on it; `typer.Exit` if a shard is damaged."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    from ...metrics.common import documents
    from ..authoring.audit.report import write_forms
    from .running import run_shards
    from .shards import find_shards

    number, count = (1, 1) if part is None else parse_shard(part)
    check_writable(out)
    shards = find_shards(patterns)[number - 1 :: count]
    start = time.perf_counter()
    columns = (*Progress.get_default_columns()[:-1], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(name, total=len(shards))
        outcomes = run_shards(
            shards, step, out, workers=workers, engine=engine, progress=lambda outcome: bar.advance(task)
        )
    damaged = [outcome for outcome in outcomes if outcome.problem]
    kept = sum(outcome.is_kept for outcome in outcomes)
    typer.echo(
        f"{len(outcomes) - len(damaged) - kept} shards done in {time.perf_counter() - start:.1f} s, {kept} were done "
        f"before, {len(damaged)} cannot be read"
    )
    if part is not None:
        typer.echo(f"part {part} is finished; when all are, the same command without --shard reports on all")
    elif len(damaged) < len(outcomes):
        record = {**merge(outcomes), "shards": len(outcomes), "damaged": {o.shard.path: o.problem for o in damaged}}
        parts = report(record)
        if damaged:
            text = f"{len(damaged)} of {len(outcomes)} shards cannot be read; all figures are of the others."
            parts = [documents.Verdict(text, is_warning=True), *parts]
        documents.print_tables([each for each in parts if not isinstance(each, documents.Fold)])
        title = f"{name.capitalize()} of {', '.join(patterns)}"
        page = documents.to_page(title, parts)
        files = write_forms(out / f"{name}.json", record, documents.to_markdown(parts, title), page)
        typer.echo(f"written to {out}: {', '.join(file.name for file in files)}, and shards")
    for outcome in damaged:
        typer.echo(f"damaged: {outcome.shard.path}: {outcome.problem}", err=True)
    if damaged:
        raise typer.Exit(1)
