"""The commands of benchmark authors: audit, refine, generate, review, new-benchmark."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...metrics.common.command_line import data_option
from ...metrics.common.config_file import config_option, read_config
from ...metrics.common.errors import DataError, ModelError, VLAssayError, check_known
from ...metrics.common.storage import check_writable
from ..options import Confidence, DataDir, Options, parse_columns, parse_options
from .config import BenchmarkConfig, GenerateConfig

if TYPE_CHECKING:
    from .data.pairs import Pair

app = typer.Typer()

_making_option = partial(typer.Option, rich_help_panel="How candidates are made")

PairColumns = Annotated[
    list[str] | None,
    data_option(
        "--column",
        metavar="OURS=THEIRS",
        help="A file's column of positive, negative, image, category or id; repeatable.",
    ),
]
CaptionColumns = Annotated[
    list[str] | None,
    data_option("--column", metavar="OURS=THEIRS", help="A file's column of caption, image or id; repeatable."),
]
Predictions = Annotated[
    list[Path] | None, typer.Option(help="A predictions file of a model that sees no image, such as vera; repeatable.")
]
Model = Annotated[
    str | None,
    _making_option(help="The endpoint's name of the model."),
]
BaseUrl = Annotated[
    str | None,
    _making_option(help="Address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1."),
]
Rules = Annotated[
    bool, _making_option("--rules", help="Make candidates by rule, without a model; --kind may be negate or shuffle.")
]
Limit = Annotated[int | None, typer.Option(help="Read at most so many captions.", min=1)]


@app.command()
def audit(
    dataset: Annotated[
        str | None,
        typer.Argument(
            help="A benchmark or a part of one, a folder written by build, generate, review, refine or "
            "new-benchmark, a file or folder of pairs (.json, .jsonl, .csv, .tsv, .parquet), or "
            "hf://datasets/OWNER/NAME."
        ),
    ] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Audit every benchmark whose texts are here.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the report; by default one in vl-assay-results.")] = None,
    data_dir: DataDir = None,
    option: Options = None,
    column: PairColumns = None,
    predictions: Predictions = None,
    max_blind_accuracy: Annotated[
        float | None, typer.Option(help="Exit with 1 if the accuracy of a scorer is higher, such as 0.55.")
    ] = None,
    card: Annotated[
        Path | None, typer.Option(help="A README.md that gets the audit as a section; audit.json goes next to it.")
    ] = None,
    confidence: Confidence = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of folds and resamples.")] = 0,
) -> None:
    """Measure how well a benchmark can be solved without the image.

    Scorers are rules of formatting and length; probes of formatting, words, characters, parts of speech and rarity,
    trained on the captions of other images; and blind models, by their predictions. Degenerate pairs are counted, too.
    Writes audit.json and audit.md.

    `--max-blind-accuracy` applies to the accuracy over all pairs and, in each category, to the lower end of its
    interval, since a small category may exceed the limit by chance. Probes are trained on all categories together; to
    train them on one category, name it, as in sugarcrepe/swap_obj.

    `--all` audits the tasks of all benchmarks that are scored by default, each in a folder of `--out`, and writes
    audits.json and audits.md with one line for each; its sources are in the folder of its name in
    `--data-dir`, or else in `--data-dir` itself, and nothing is downloaded. What cannot be audited is listed with the
    reason: missing sources and lack of pairs leave the exit code at 0, anything else makes it 1.

    Examples: `vl-assay audit toy_scenes/itm` · `vl-assay audit sugarcrepe --data-dir sugarcrepe` ·
    `vl-assay audit pairs.csv --column positive=true --column negative=false --max-blind-accuracy 0.55` ·
    `vl-assay audit sugarcrepe --predictions predictions/sugarcrepe.itm.parquet --card README.md` ·
    `vl-assay audit --all --data-dir sources`
    """
    from rich.console import Console

    from ...metrics.estimation.bootstrap import check_share
    from ..core.benchmarks import benchmark_names
    from .audit.audit import audit as audit_pairs
    from .audit.audit import failures
    from .audit.blind import keep_benchmark
    from .audit.report import print_audit, write_audit, write_card

    if max_blind_accuracy is not None:
        check_share("max_blind_accuracy", max_blind_accuracy)
    if (dataset is None) != all_:
        given = "both a dataset and" if all_ else "neither a dataset nor"
        raise VLAssayError(f"{given} --all came; name one dataset, or give --all for every benchmark")
    if dataset is None:
        if any((column, predictions, card, option)):
            raise VLAssayError("--all is of every benchmark; leave out --column, --predictions, --card and --option")
        out = out or Path("vl-assay-results/audit")
        _audit_all(out, data_dir, max_blind_accuracy, confidence=confidence, seed=seed)
        return
    folder = out or Path("vl-assay-results") / "audit" / re.sub(r"[^\w.-]+", "-", dataset).strip("-.")
    check_writable(folder)
    if card is not None and not card.is_file():
        raise DataError(f"the card {card} is not a file; name the README.md that the audit becomes a section of")
    pairs = _read_dataset(dataset, folder, column, data_dir, option)
    with Console(stderr=True).status("audit"):
        record = audit_pairs(pairs, dataset, predictions=predictions or [], confidence=confidence, seed=seed)
    print_audit(record)
    _say_written(folder, write_audit(record, folder))
    if dataset.partition("/")[0] in benchmark_names():
        keep_benchmark(dataset, card, seed=seed, data_dir=data_dir, options=parse_options(option, allow_missing=False))
    if card is not None:
        changed = write_card(card, record)
        typer.echo(f"card {card}: {', '.join(file.name for file in changed) or 'nothing to change'}")
    if max_blind_accuracy is not None and _say_failures(failures(record, max_blind_accuracy)):
        raise typer.Exit(1)


def _say_written(folder: Path, files: Sequence[Path], more: str = "") -> None:
    typer.echo(f"written to {folder}: {', '.join(file.name for file in files)}{more}")


def _say_failures(sentences: Sequence[str]) -> bool:
    """Print each sentence to standard error, and return whether there is one."""
    for sentence in sentences:
        typer.echo(f"fails: {sentence}", err=True)
    return bool(sentences)


def _audit_all(out: Path, data_dir: Path | None, max_blind_accuracy: float | None, **options: Any) -> None:
    """Audit every benchmark whose texts are here; `typer.Exit` if one is damaged or exceeds the limit."""
    from rich.console import Console

    from ...metrics.common.documents import print_tables
    from .audit.audit import failures
    from .audit.everything import audit_all, summary_parts, write_summary

    check_writable(out)
    outcomes = []
    with Console(stderr=True).status("audit") as status:
        for outcome in audit_all(out, data_dir=data_dir, **options):
            outcomes.append(outcome)
            status.update(f"audit: {outcome.part} done")
    print_tables(summary_parts(outcomes))
    _say_written(out, write_summary(outcomes, out, max_blind_accuracy), ", and a folder for each benchmark")
    problems = [
        f"{outcome.part}: {text}"
        for outcome in outcomes
        if outcome.record is not None and max_blind_accuracy is not None
        for text in failures(outcome.record, max_blind_accuracy)
    ]
    if _say_failures(problems) or any(outcome.is_damaged for outcome in outcomes):
        raise typer.Exit(1)


@app.command()
def refine(
    dataset: Annotated[
        str,
        typer.Argument(help="As for `vl-assay audit`: a benchmark or a part of one, a file, a folder, or the Hub."),
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder of the kept pairs and the report.")],
    scorer: Annotated[
        list[str] | None,
        typer.Option(
            help="words or characters: a language model of the positive captions of other images; repeatable. By "
            "default both, unless there is --predictions or --learned."
        ),
    ] = None,
    predictions: Predictions = None,
    learned: Annotated[int, typer.Option(help="Rounds with probes that are trained on the pairs; 0 for none.")] = 0,
    grid: Annotated[int, typer.Option(help="Cells for each scorer over [-1, 1]; 2 balances only signs.")] = 100,
    column: PairColumns = None,
    data_dir: DataDir = None,
    option: Options = None,
    confidence: Confidence = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the choice of pairs in a cell.")] = 0,
) -> None:
    """Filter a benchmark adversarially: keep pairs on which blind scorers are right as often as wrong.

    Algorithm 1 of SugarCrepe: pairs are sorted into cells by each scorer's preference for the positive caption, and
    each cell keeps as many pairs as its mirror image. Each scorer then reaches 50 % in each category. More scorers and
    a finer grid keep fewer pairs.

    `--learned 3` then trains probes of formatting and of words on the kept pairs, filters by the best one, and repeats
    this at most three times; probes of characters, parts of speech and rarity show what remains.

    Writes pairs.jsonl (which any command reads as a dataset), report.json and report.md.

    Examples: `vl-assay refine unrefined --out refined` · `vl-assay refine mine.jsonl --predictions vera.parquet
    --predictions grammar.parquet --out refined` · `vl-assay refine mine.csv --column positive=true
    --scorer words --learned 3 --out refined`
    """
    from rich.console import Console

    from .audit.audit import blind_predictions
    from .refine.ngrams import blind_scores
    from .refine.refine import refine as refine_pairs
    from .refine.report import print_refinement, write_refinement

    check_writable(out)
    pairs = _read_dataset(dataset, out, column, data_dir, option)
    names = scorer or ([] if predictions or learned else ["words", "characters"])
    with Console(stderr=True).status("refine"):
        scorers = {name: blind_scores(pairs, name) for name in names} | blind_predictions(predictions or [], pairs)
        options = {"learned": learned, "grid": grid, "seed": seed, "confidence": confidence}
        kept, record = refine_pairs(pairs, scorers, **options)
    print_refinement(record)
    _say_written(out, write_refinement(kept, record, out, dataset))


def _read_dataset(
    dataset: str, out: Path, column: list[str] | None, data_dir: Path | None, option: list[str] | None
) -> list[Pair]:
    """Return the pairs of a dataset.

    Raises:
        DataError: results in the folder `out` would overwrite the dataset or be read as a part of it.
    """
    from .data.pairs import read_pairs

    columns, options = parse_columns(column), parse_options(option, allow_missing=False)
    if Path(dataset).resolve() in [(out / name).resolve() for name in ("", "pairs.jsonl", "report.json", "audit.json")]:
        raise DataError(f"the results in {out} would overwrite {dataset} or be a part of it; give another --out")
    return read_pairs(dataset, columns=columns, data_dir=data_dir, options=options)


@app.command()
def review(
    items: Annotated[
        Path,
        typer.Argument(help="What is reviewed: for candidates the file of `vl-assay generate`, or its folder."),
    ],
    *,
    page: Annotated[
        str, typer.Option(help="candidates; or, of a detection benchmark, pairs (of images) or boxes.")
    ] = "candidates",
    out: Annotated[Path | None, typer.Option(help="Folder of the journal; by default that of the items.")] = None,
    annotators: Annotated[
        str, typer.Option(metavar="A,B,…", help="Who decides, each on every item; by default anybody.")
    ] = "",
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of the images, by default that of the items; none outside it is shown."),
    ] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print the agreement of annotators, write the results, and stop.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to serve at; 0.0.0.0 makes it public.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to serve at.")] = 7861,
) -> None:
    """Judge candidates, check pairs of images, or draw boxes, in the browser.

    Each decision is written to PAGE.decisions.jsonl in `--out` before the next item is shown: after a kill the same
    command continues where everybody was. `--summary` writes all candidates with their decisions to reviewed.jsonl in
    the same folder. Those that more than half of their annotators keep or fix are read by audit, refine and
    new-benchmark.

    Items for boxes are JSON lines: `{"id": "1", "image": "1.jpg", "caption": "a cat on a mat", "phrases": [{"text":
    "a cat", "start": 0, "end": 5}]}`. Items for pairs are the table of `vl-assay new-benchmark --detection`, which
    prints the commands of both pages.

    Examples: `vl-assay review candidates` · `vl-assay review candidates --annotators ana,ben --port 8000` ·
    `vl-assay review candidates --summary` · `vl-assay review items.jsonl --page boxes`
    """
    from ...metrics.common.documents import print_tables
    from .review.review import check_images, open_review, serve, write_results

    desk = open_review(items, page=page, out=out, images=images, annotators=_names(annotators))
    if summary:
        print_tables(desk.report())
        if desk.standing():
            typer.echo(f"written to {write_results(desk, page)}")
        return
    if note := check_images(desk):
        typer.echo(note)
    serve(desk, host, port)


@app.command()
def generate(
    source: Annotated[
        str,
        typer.Argument(
            help="Captions: a .csv, .tsv, .json, .jsonl or .parquet file, a folder of images with metadata.csv, a "
            "benchmark or a part of one, or hf://datasets/owner/name."
        ),
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder of the run: candidates.jsonl, report.json, journal.jsonl.")],
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Such as replace_obj or positive_swap; repeatable, by default all but negate and shuffle."),
    ] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    plan: Annotated[bool, typer.Option("--plan", help="Estimate calls and tokens, and stop.")] = False,
    rules: Rules = False,
    limit: Limit = None,
    seed: Annotated[int, typer.Option(help="Seed of the choice of concepts and of the model's sampling.")] = 0,
    column: CaptionColumns = None,
    data_dir: DataDir = None,
    config: Annotated[Path | None, config_option(GenerateConfig)] = None,
) -> None:
    """Make hard negatives and hard positives of captions, by a language model or by rule.

    Each kind follows its paper: to replace, a model locates concepts, thinks of a new one and rewrites the caption; to
    swap, it first decides whether that is possible. Answers that are not minimal changes of their kind are rejected and
    counted. Every answer is written to journal.jsonl as it comes: after a kill the same command continues, and repeats
    only the requests that were under way.

    Examples: `vl-assay generate captions.csv --model Qwen/Qwen2.5-7B-Instruct --base-url http://localhost:8000/v1
    --out made --plan` · `vl-assay generate photos --kind swap_obj --kind swap_att --rules --out made` ·
    `vl-assay generate toy_scenes/itm --rules --out made`
    """
    from .data.candidates import CANDIDATES_FILE
    from .data.sources import read_captions
    from .generate import generate as making
    from .generate.asking import open_model
    from .generate.rules import RULE_KINDS

    if rules and (model or plan):
        raise VLAssayError("--rules makes no requests; leave out --model and --plan")
    if not rules and model is None and not plan:
        raise VLAssayError("give --model (and --base-url), or --rules for candidates made by rule")
    settings = read_config(config, GenerateConfig)
    each = settings.each
    kinds = kind or making.KINDS
    check_known("kind of candidates", kinds, RULE_KINDS if rules else making.KINDS)
    check_writable(out)
    # First, so that a wrong address is reported before anything is read.
    opened = None if model is None or plan else open_model(model, base_url, key_variable=settings.key_variable)
    images = out / "images" if settings.images and not plan else None
    reading = {"columns": parse_columns(column), "split": settings.split, "limit": limit, "data_dir": data_dir}
    captions = read_captions(source, **reading, images=images)
    if plan:
        making.print_plan(making.plan(captions, kinds, each=each), len(captions), out)
        return
    if opened is None:
        report = making.generate_by_rule(captions, out, kinds, each=each, seed=seed)
    else:
        asking = {"concurrency": settings.concurrency, "per_minute": settings.requests_per_minute}
        report = making.generate(captions, opened, out, kinds, each=each, seed=seed, **asking)
    making.print_report(report)
    made = report.made.total()
    folder = " --images FOLDER" if images is None and any(item.image for item in captions) else ""
    advice = f"; review them with `vl-assay review {shlex.quote(str(out))}{folder}`" if made else ""
    typer.echo(f"written to {out}: {CANDIDATES_FILE}, {making.REPORT_FILE}{advice}")
    if unanswered := sum(reasons["no answer"] for reasons in report.rejected.values()):
        errors = f"see the errors in {out / making.JOURNAL_FILE}"
        message = f"{unanswered:,} without an answer, {errors}; the same command asks again"
        if not made:
            raise ModelError(f"nothing was made, {message}")
        typer.echo(message)


@app.command("new-benchmark")
def new_benchmark(
    name: Annotated[str, typer.Argument(help="The benchmark's name: small letters, digits and _.")],
    source: Annotated[
        str,
        typer.Argument(
            help="Captions with images, as for `vl-assay generate`: a folder of images with metadata.csv, a table that "
            "names their files, a benchmark or a part of one, or hf://datasets/owner/name. Or pairs: a folder of "
            "generate, review or refine. With --detection a table of pairs of images."
        ),
    ],
    *,
    work: Annotated[Path, typer.Option(help="Folder of the stages; the same command continues there.")],
    plan: Annotated[bool, typer.Option("--plan", help="Show the progress of the stages, and stop.")] = False,
    detection: Annotated[
        bool,
        typer.Option("--detection", help="Make phrases with boxes, of a table of pairs of images with a phrase."),
    ] = False,
    kind: Annotated[
        list[str] | None, typer.Option(help="Such as replace_obj; repeatable, by default SugarCrepe's seven.")
    ] = None,
    rules: Rules = False,
    model: Model = None,
    base_url: BaseUrl = None,
    limit: Limit = None,
    no_review: Annotated[bool, typer.Option("--no-review", help="Continue without people; the card says so.")] = False,
    annotators: Annotated[
        str,
        typer.Option(
            metavar="A,B,…",
            help="Who judges every candidate, or with --detection every pair and every box; by default anybody, once.",
        ),
    ] = "",
    licence: Annotated[str | None, typer.Option(help="Licence of captions and images, such as cc0-1.0.")] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="Parent of the benchmark's folder, such as hub_datasets; by default --work."),
    ] = None,
    config: Annotated[Path | None, config_option(BenchmarkConfig)] = None,
) -> None:
    """Make a benchmark of captions with images: generate, review, audit, refine, audit again, build.

    Pairs of a folder that `generate`, `review` or `refine` wrote are taken instead of new candidates; people review
    them only if they come from `generate`.

    Each stage writes its own folder in `--work`. The same command continues with the first stage that is not finished,
    or whose options or inputs changed. After `generate` it prints how to review, and stops until people have judged
    the candidates; `--no-review` skips this. If the final audit fails, nothing is built.

    The result is a folder NAME with builder.py, benchmark.py and README.md, in `--work` or `--into`, and the dataset
    repository WORK/repository for `vl-assay publish`, which includes images only with `copy_images` in `--config`. Run,
    audit and build take the folder in place of a benchmark's name: `vl-assay run demo-clip WORK/NAME`.

    `--detection` makes a benchmark of contextual phrase detection: images, pairs, boxes, export. The source is a table
    with the columns image, second_image and phrase, which is true of the first image alone; also second_phrase, kind
    (object or relation) and id. People write the second phrase or drop the pair, and draw boxes, each on a page of
    `vl-assay review`; the result in WORK/export has TRICD's layout.

    Examples: `vl-assay new-benchmark photos_swapped photos --work work --model Qwen/Qwen2.5-7B-Instruct --base-url
    http://localhost:8000/v1 --annotators ana,ben` · `vl-assay new-benchmark toy_rules toy_scenes/itm --work work
    --rules --no-review --licence cc0-1.0` · `vl-assay new-benchmark my_pairs pairs.csv --work work --detection
    --annotators ana,ben,cleo`
    """
    from .generate.checks import NEGATIVE_KINDS
    from .pipeline.captions import AuditFailed
    from .pipeline.new_benchmark import new_benchmark as make_benchmark
    from .pipeline.new_benchmark import print_progress
    from .pipeline.settings import Settings
    from .pipeline.stages import Waiting

    options = read_config(config, BenchmarkConfig)
    parse_columns(options.column)
    needless = {"--kind": kind, "--rules": rules, "--model": model, "--base-url": base_url, "--into": into}
    needless |= {"--no-review": no_review, "the setting column": options.column}
    if detection and (odd := [option for option, value in needless.items() if value]):
        raise VLAssayError(f"--detection needs people and makes no candidates of captions; leave out {', '.join(odd)}")
    settings = Settings(
        name=name,
        source=source,
        work=work,
        detection=detection,
        kinds=tuple(dict.fromkeys(kind or NEGATIVE_KINDS)),
        rules=rules,
        model=model,
        base_url=base_url,
        limit=limit,
        review=not no_review,
        annotators=_names(annotators),
        licence=licence,
        into=into,
        **vars(options),
    )
    if plan:
        print_progress(settings)
        return
    try:
        make_benchmark(settings)
    except Waiting as waiting:
        typer.echo(str(waiting))
        return
    except AuditFailed as failed:
        _say_failures(str(failed).split("\n"))
        typer.echo(
            "nothing was built; leave out a kind with --kind, give more captions, or, in --config, refine more with "
            "learned or scorer, or raise max_blind_accuracy",
            err=True,
        )
        raise typer.Exit(1) from None
    if detection:
        folder = shlex.quote(str(settings.folder))
        typer.echo(f"evaluate it with `vl-assay run demo-owlvit tricd --data-dir {folder} --option verify=false`")
        return
    typer.echo(f"publish it with `vl-assay publish {settings.repository} OWNER/{name}`")
    images = f" --data-dir {shlex.quote(str(settings.images))}" if into and not settings.copy_images else ""
    typer.echo(f"try it with `vl-assay run demo-clip {shlex.quote(str(settings.folder))}{images}`")


def _names(text: str) -> tuple[str, ...]:
    """Split "ana, ben" into ("ana", "ben")."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
