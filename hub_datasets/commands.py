"""The commands that need no model: build, install, publish, export, report, skills, errors, compare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..metrics.common.errors import VLAssayError, check_known
from ..metrics.common.storage import check_writable
from .corpora.commands import app as corpora_app
from .options import AllowMissing, Confidence, DataDir, NoImages, Options, PredictionsFiles, Ties, parse_options

if TYPE_CHECKING:
    from ..metrics.results.report import Report

app = typer.Typer()
app.add_typer(corpora_app, name="corpus", rich_help_panel="Training sets")

_DATASETS = "Datasets and the Hub"

DatasetOwner = Annotated[
    str, typer.Option(help="In results: who owns the benchmarks' dataset repositories on the Hub.")
]


@app.command(rich_help_panel=_DATASETS)
def build(
    benchmark: Annotated[str | None, typer.Argument(help="Its name, or name/config for one configuration.")] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the dataset repository, replaced as a whole; with --all of all of them."),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Build every benchmark whose sources are there.")] = False,
    data_dir: DataDir = None,
    allow_missing: AllowMissing = False,
    no_images: NoImages = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Compare the numbers of rows and images with the card; 1 if they differ. Needs no --out."
        ),
    ] = False,
    option: Options = None,
) -> None:
    """Write a benchmark as a Parquet repository for `load_dataset` and the Hub.

    With `--all`, each goes to a folder of its name in `--out`; its sources are in the folder of its name in
    `--data-dir`, or else in `--data-dir` itself. Errors do not stop the others: at the end a table lists the
    configurations that were not built, and where to get their sources. With `--all`, missing sources leave the exit
    code at 0 and damaged ones make it 1; a benchmark given by name makes it 1 in both cases.

    Examples: `vl-assay build toy_scenes --out toy` · `vl-assay build toy_scenes --out big -o train_scenes=50000` ·
    `vl-assay build sugarcrepe/swap_obj --out sc --data-dir coco` · `vl-assay build --all --out all --data-dir sources`
    """
    from .core.benchmarks import split_reference
    from .core.build import build as build_dataset
    from .core.repository import compare_with_card

    if (benchmark is None) != all_:
        given = "both a benchmark and" if all_ else "neither a benchmark nor"
        raise VLAssayError(f"{given} --all came; name one benchmark, or give --all for every one")
    if out is None and (all_ or not check):
        raise VLAssayError("--out is missing; name the folder to write, or give --check to compare counts alone")
    options = parse_options(option, allow_missing=allow_missing)
    if no_images:
        options["with_images"] = False
    if benchmark is None:
        _build_all(Path(str(out)), data_dir, options)
        return
    name, config = split_reference(benchmark)
    configs = None if config is None else [config]
    with TemporaryDirectory() as temporary:
        folder = out or Path(temporary) / name
        build_dataset(name, folder, configs=configs, data_dir=data_dir, options=options)
        if out is not None:
            _print_build(out)
        wrong, unknown = compare_with_card(folder) if check else ([], [])
    if check:
        typer.echo("\n".join([*wrong, *unknown]) or "all numbers are those of the card")
    if wrong:
        raise typer.Exit(1)


def _build_all(out: Path, data_dir: Path | None, options: dict[str, Any]) -> None:
    """Build what can be built and report the rest; `typer.Exit` unless only sources were missing."""
    from .core.build import build_all

    outcomes = []
    for outcome in build_all(out, data_dir=data_dir, options=options):
        outcomes.append(outcome)
        if outcome.built:
            _print_build(outcome.folder)
    failed = [outcome for outcome in outcomes if outcome.errors]
    if failed:
        _print_failures(failed)
    whole = len(outcomes) - len(failed)
    typer.echo(f"{whole} of {len(outcomes)} benchmarks are whole, {sum(bool(o.built) for o in failed)} in part")
    if any(outcome.damaged for outcome in failed):
        raise typer.Exit(1)


def _print_build(folder: Path) -> None:
    """Print the contents of a repository and how to open it."""
    from rich.console import Console

    from .core.repository import read_build

    record = read_build(folder)
    console = Console(highlight=False)
    for config_name, splits in record["configs"].items():
        parts = [f"{split}: {n['rows']:,} rows, {n['images']:,} images" for split, n in splits.items()]
        missing = sum(n["missing_images"] for n in splits.values())
        lack = f"; {missing:,} images missing" if missing else ""
        console.print(f"{config_name}  {'; '.join(parts)}{lack}", markup=False)
    opened = f'load_dataset("{folder}", "{next(iter(record["configs"]))}")'
    console.print(f"written to {folder}: {opened}", soft_wrap=True, markup=False)


def _print_failures(outcomes: list[Any]) -> None:
    """Print a table of the configurations that were not built, and why; of each benchmark the damaged ones first."""
    from ..metrics.common.documents import print_tables, simple_table
    from .core.benchmarks import get_benchmark

    rows = []
    for outcome in outcomes:
        missing = {config: error for config, error in outcome.errors.items() if config not in outcome.damaged}
        for kind, errors in (("damaged: ", outcome.damaged), ("", missing)):
            if errors:
                why = kind + _reasons(outcome.benchmark, errors)
                source = get_benchmark(outcome.benchmark).source or "made on the spot"
                rows.append((f"{outcome.benchmark}: {', '.join(errors)}", why, source))
    print_tables([simple_table(("benchmark", "what is missing", "where to get it"), rows, title="Not built")])


def _reasons(benchmark: str, errors: dict[str, Exception]) -> str:
    """Return the first message, and the number of further messages."""
    messages = [
        str(error).removeprefix(f"{benchmark}/{config}: ") or type(error).__name__ for config, error in errors.items()
    ]
    further = len(set(messages)) - 1
    more = f" (and {further} other messages; `vl-assay build {benchmark}/CONFIG` shows each)" if further else ""
    return messages[0] + more


@app.command(rich_help_panel=_DATASETS)
def install(
    names: Annotated[
        list[str] | None, typer.Argument(help="Metrics and benchmarks; by default all that need no download.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Make bare names work in `evaluate.load` and `load_dataset`, from any folder, offline.

    Configurations of a benchmark whose sources are missing are left out and listed.

    Examples: `vl-assay install` · `vl-assay install sugarcrepe_itm` · `vl-assay install sugarcrepe --data-dir coco`
    """
    from .hub.install import install as install_names

    for line in install_names(names or None, data_dir=data_dir):
        typer.echo(line)


@app.command(rich_help_panel=_DATASETS)
def publish(
    what: Annotated[
        str,
        typer.Argument(
            help="A folder that `vl-assay build` wrote or of a Space; a metric's name; leaderboard; or predictions."
        ),
    ],
    repo: Annotated[str, typer.Argument(help="The repository on the Hub: owner/name.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be uploaded, and stop.")] = False,
    create_pr: Annotated[
        bool,
        typer.Option("--create-pr", help="Propose the results of predictions to a model's repository."),
    ] = False,
    dataset_owner: DatasetOwner = "vl-assay",
) -> None:
    """Upload a dataset repository, a metric's Space or the leaderboard to the Hub in one commit, or propose results.

    A dataset gets its multiple-choice form, too (see `vl-assay export`), with an `eval.yaml` for inspect_ai; with it,
    the images take three times the space. It also gets the `builder.py` that made it, which nothing runs. The Hub shows
    it as a benchmark once its team has listed it. A Space contains this package, and its requirements are pinned to the
    installed versions. The card of the leaderboard, `space_app/README.md`, says what else it needs.

    With `--create-pr` the first argument is predictions of one model, and the second that model's repository: a pull
    request adds the results to its card and `.eval_results`. `--dry-run` shows the change.

    Examples: `vl-assay publish toy me/toy_scenes --dry-run` · `vl-assay publish cpd_ap me/cpd_ap` ·
    `vl-assay publish leaderboard me/leaderboard` ·
    `vl-assay publish vl-assay-results/my-model owner/my-model --create-pr --dry-run`
    """
    if create_pr:
        from ..metrics.records.predictions import prediction_files
        from .hub.proposals import propose
        from .reports.evaluation import report as evaluate

        results = evaluate(prediction_files(Path(what)))
        proposal = propose(results, repo, dataset_owner=dataset_owner, dry_run=dry_run)
        typer.echo(proposal or "the model has these results: nothing to change")
        return
    from .hub.publish import plan, upload

    planned = plan(what, repo)
    files = planned.files
    for path, size in files:
        typer.echo(f"{size:>12,}  {path}")
    whole = sum(size for _, size in files)
    typer.echo(f"{whole:>12,}  bytes in {len(files)} files, one commit to the {planned.kind} {planned.repo}")
    pins = planned.contents.get("requirements.txt")
    if isinstance(pins, bytes):
        typer.echo(f"its requirements: {' '.join(pins.decode().split())}")
    if planned.note:
        typer.echo(f"no eval.yaml: {planned.note}")
    if not dry_run:
        typer.echo(upload(planned, private=private))


@app.command(rich_help_panel=_DATASETS)
def export(
    benchmark: Annotated[str, typer.Argument(help="Its name, a part of it, or the folder of a build.")],
    out: Annotated[Path, typer.Argument(help="The folder to write, in place of an earlier one.")],
    repo: Annotated[str, typer.Option(help="Where it will be on the Hub, for task files: owner/name.")] = "",
    data_dir: DataDir = None,
    limit: Annotated[int | None, typer.Option(help="The most examples of each task.")] = None,
    option: Options = None,
) -> None:
    """Write a benchmark as multiple choice, which inspect_ai, lm-eval, lmms-eval and the Hub's own evaluations run.

    Tasks in which one caption is true of each image, and yes-or-no questions. The folder is a dataset repository with
    an `eval.yaml` and task files of lm-eval and lmms-eval; choices are shuffled deterministically.

    Examples: `vl-assay export toy_scenes/itm choices --limit 100` ·
    `vl-assay export winoground wino-choices --repo me/winoground-choices`
    """
    from .hub.multiple_choice import export as write

    options = parse_options(option, allow_missing=False)
    counts = write(benchmark, out, repo=repo, data_dir=data_dir, options=options, limit=limit)
    for task, count in counts.items():
        typer.echo(f"{count:>9,}  {task}")
    typer.echo(f"written: {out}; upload it with `hf upload --repo-type dataset`, then `inspect eval hf/OWNER/NAME`")


@app.command()
def report(
    predictions: PredictionsFiles,
    out: Annotated[Path | None, typer.Option(help="Folder of the report; by default that of the first file.")] = None,
    ties: Ties = None,
    confidence: Confidence = 0.95,
    figure: Annotated[
        list[str] | None,
        typer.Option(help="A form of the profile, repeatable: png, html, svg or pdf; by default png and html."),
    ] = None,
    model_card: Annotated[
        Path | None,
        typer.Option(help="A model's README.md: results go to its `model-index`, and to `.eval_results` beside it."),
    ] = None,
    dataset_owner: DatasetOwner = "vl-assay",
) -> None:
    """Print and write the results of predictions: tables, plots, JSON, Markdown, LaTeX, and a model's card.

    report.tex and report.md have the models as rows, the best in bold, and † for those not significantly worse. The
    rest of the card is kept but for comments in its metadata, and the same command again changes nothing.

    Examples: `vl-assay report vl-assay-results/demo-clip/toy_scenes.itm.parquet` ·
    `vl-assay report vl-assay-results/demo-clip` ·
    `vl-assay report a/sugarcrepe.itm.parquet b/sugarcrepe.itm.parquet --out both --figure pdf` ·
    `vl-assay report a/sugarcrepe.itm.parquet --model-card my-model/README.md`
    """
    from ..metrics.records.predictions import prediction_files

    files = prediction_files(*predictions)
    check_writable(out or files[0].parent)
    if model_card is not None:
        from .hub.model_cards import check_card

        check_card(model_card, files)
    results = make_report(files, out or files[0].parent, figures=figure, ties=ties, confidence=confidence)
    if model_card is not None:
        from .hub.model_cards import write_model_card

        changed = write_model_card(model_card, results, dataset_owner=dataset_owner)
        typer.echo(f"model card {model_card}: {', '.join(file.name for file in changed) or 'nothing to change'}")


@app.command()
def skills(
    predictions: PredictionsFiles,
    ties: Ties = None,
    confidence: Confidence = 0.95,
) -> None:
    """Print a model's accuracy by skill over all benchmarks, such as binding or order.

    Each benchmark declares which skill its examples test; docs/skills.md lists them.

    Example: `vl-assay skills vl-assay-results/demo-clip`
    """
    from ..metrics.common.documents import print_tables
    from ..metrics.records.predictions import prediction_files
    from ..metrics.results.compute import check_options
    from .reports.skills import profile_parts, read_skill_profile

    check_options(ties=ties, confidence=confidence)
    profile = read_skill_profile(prediction_files(*predictions), ties=ties, confidence=confidence)
    print_tables(profile_parts(profile))


@app.command()
def errors(
    predictions: PredictionsFiles,
    out: Annotated[Path | None, typer.Option(help="The page; by default errors.html in the first folder.")] = None,
    category: Annotated[
        list[str] | None, typer.Option("--category", "-c", help="Only this category or tag; repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many examples of each task the page holds.")] = 10_000,
    data_dir: Annotated[
        Path | None, typer.Option(help="Your own copy of the sources, or a folder that `vl-assay build` wrote.")
    ] = None,
    no_images: NoImages = False,
    ties: Ties = None,
    confidence: Confidence = 0.95,
) -> None:
    """Look at what one or more models get wrong: a summary, and a page with the examples.

    The page is one file that needs no network: images, captions with the words that differ, the scores and the margin
    of each model, the most confident errors first, with filters by category, model and text. Above it: which categories
    and words go with errors, and where models agree. Images are shown if they are generated, were
    downloaded before, or are in `--data-dir`.

    Examples: `vl-assay errors vl-assay-results/demo-clip` ·
    `vl-assay errors a/toy_scenes.itm.parquet b/toy_scenes.itm.parquet --category swap_obj --out swaps.html` ·
    `vl-assay errors a/sugarcrepe.itm.parquet --data-dir coco`
    """
    from ..metrics.records.predictions import prediction_files
    from .reports.evaluation import errors as find_errors

    page = out or prediction_files(*predictions)[0].parent / "errors.html"
    check_writable(page.parent)
    analysis = find_errors(
        *predictions,
        data_dir=data_dir,
        images=not no_images,
        category=category or (),
        ties=ties,
        confidence=confidence,
    )
    analysis.print()
    analysis.write(page, limit=limit)
    typer.echo(f"written to {page} ({page.stat().st_size / 1e6:.1f} MB): open it in a browser")


@app.command()
def compare(
    predictions: PredictionsFiles,
    out: Annotated[Path | None, typer.Option(help="Folder for comparison.json and comparison.md.")] = None,
    ties: Ties = None,
    confidence: Confidence = 0.95,
) -> None:
    """Test which of several models is better on their common examples.

    Starts with a verdict, which names the categories that differ. Then for every score: the difference with its
    interval and p-value (in categories corrected for their number), and the number of examples on which each model is
    better. Versions of a task's data, such as several seeds, are compared one by one.

    Examples: `vl-assay compare a/sugarcrepe.itm.parquet b/sugarcrepe.itm.parquet` ·
    `vl-assay compare results/clip results/negclip results/blip` ·
    `vl-assay compare a/aro.relation.parquet b/aro.relation.parquet --out a-and-b`
    """
    from .reports.evaluation import compare as compare_models

    if out is not None:
        check_writable(out)
    comparison = compare_models(*predictions, ties=ties, confidence=confidence)
    comparison.print()
    if out is not None:
        files = comparison.write(out)
        typer.echo(f"written to {out}: {', '.join(file.name for file in files)}")


def make_report(
    predictions: Sequence[Path],
    out: Path,
    *,
    new: Sequence[Path] = (),
    figures: Sequence[str] | None = None,
    **options: Any,
) -> Report:
    """Evaluate predictions, write the report's files, print them, and return the results.

    Args:
        predictions: all files that the report covers.
        out: the folder of the report.
        new: the files among them that a run has just written; if there are any, prints a summary instead of all tables.
        figures: the forms of the profile; see `Report.write`.
        options: `ties` and `confidence`.
    """
    from ..metrics.common.documents import print_tables
    from ..metrics.results.report import DEFAULT_FIGURES, FIGURES
    from .core.benchmarks import benchmark_names, get_benchmark
    from .reports.evaluation import report as evaluate

    figures = figures or DEFAULT_FIGURES
    check_known("figure", figures, FIGURES)
    results = evaluate(predictions, **options)
    files = results.write(out, figures)
    print_tables(results.screen()) if new else results.print()
    for name in dict.fromkeys(result.benchmark["name"] for result in results.results):
        if name in benchmark_names() and (caution := get_benchmark(name).caution):
            typer.echo(f"{name}, caution: {caution}")
    typer.echo(f"written to {out}: {', '.join(file.name for file in files)}" + (", predictions" if new else ""))
    if not {FIGURES[kind] for kind in figures} <= {file.name for file in files}:
        typer.echo("some figures are missing: they need matplotlib, pip install 'vl-assay[plots]'")
    if new:
        page = f"{out / FIGURES['html']} (open it in a browser)"
        typer.echo(f"profile: {page}\nall tables: vl-assay report {out}\nits errors: vl-assay errors {out}")
    return results
