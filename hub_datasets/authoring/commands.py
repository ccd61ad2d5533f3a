"""The commands of benchmark authors: audit, refine, generate, review, new-benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...metrics.common.errors import VLAssayError
from ..commands import DataDir, Options, parse_options

app = typer.Typer()

Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="OURS=THEIRS",
        help="A file's column of positive, negative, image, category or id; repeatable.",
    ),
]

Model = Annotated[
    str | None, typer.Option(help="What the endpoint calls the model, or local:FOLDER for a checkpoint here.")
]
BaseUrl = Annotated[
    str | None, typer.Option(help="Address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1.")
]
KeyVariable = Annotated[str, typer.Option(help="The environment variable with the endpoint's key, if it wants one.")]
Lexicon = Annotated[str, typer.Option(help="Words for --rules: builtin, or wordnet (needs nltk).")]
Limit = Annotated[int | None, typer.Option(help="Read so many captions at most.", min=1)]
Each = Annotated[int, typer.Option(help="Candidates of each kind for a caption, at most.", min=1)]
Concurrency = Annotated[int, typer.Option(help="Questions under way at once.", min=1)]
PerMinute = Annotated[float | None, typer.Option(help="By default no limit.", min=0.1)]
CaptionColumns = Annotated[
    list[str] | None, typer.Option(metavar="OURS=THEIRS", help="Columns of caption, image, id; repeatable.")
]
Split = Annotated[str | None, typer.Option(help="Split of a dataset on the Hub; by default test.")]


@app.command()
def audit(
    dataset: Annotated[
        str,
        typer.Argument(
            help="A benchmark or a part of one, a folder that `vl-assay build` wrote, a file or folder of pairs "
            "(.json, .jsonl, .csv, .tsv, .parquet), or hf://datasets/OWNER/NAME."
        ),
    ],
    *,
    out: Annotated[Path | None, typer.Option(help="Folder of the report; by default one in vl-assay-results.")] = None,
    data_dir: DataDir = None,
    option: Options = None,
    column: Columns = None,
    predictions: Annotated[
        list[Path] | None,
        typer.Option(help="A predictions file of a model that sees no image, such as vera; repeatable."),
    ] = None,
    normalised: Annotated[
        bool, typer.Option("--normalise", help="Judge the captions after normalisation, too: how far does it help?")
    ] = False,
    max_blind_accuracy: Annotated[
        float | None, typer.Option(help="Exit with 1 where a scorer is right more often than this, such as 0.55.")
    ] = None,
    card: Annotated[
        Path | None, typer.Option(help="A README.md: the audit becomes a section of it, and audit.json beside it.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of folds and resamples.")] = 0,
) -> None:
    """Measure how much of a benchmark can be known without the image.

    Two rules of form, and probes of form, words, characters, parts of speech and rarity, trained on other images;
    blind models by their predictions; and pairs that are degenerate. Writes audit.json, audit.md and audit.html.

    `--max-blind-accuracy` holds the accuracy over all pairs to the limit, and in each category the lower end of its
    interval: a small category may lie above by chance. Probes learn from all categories together: name one, as in
    sugarcrepe/swap_obj, to have them learn from that alone.

    Examples: `vl-assay audit toy_scenes/itm` · `vl-assay audit sugarcrepe --data-dir sugarcrepe --normalise` ·
    `vl-assay audit pairs.csv --column positive=true --column negative=false --max-blind-accuracy 0.55` ·
    `vl-assay audit sugarcrepe --predictions predictions/sugarcrepe.itm.parquet --card README.md`
    """
    from .audit.command import run_audit

    failed = run_audit(
        dataset,
        out=out,
        columns=parse_columns(column),
        data_dir=data_dir,
        options=parse_options(option, allow_missing=False),
        predictions=predictions or [],
        normalised=normalised,
        max_blind_accuracy=max_blind_accuracy,
        card=card,
        confidence=confidence,
        seed=seed,
    )
    if failed:
        raise typer.Exit(1)


@app.command()
def refine(
    dataset: Annotated[
        str,
        typer.Argument(help="As for `vl-assay audit`: a benchmark or a part of one, a file, a folder, or the Hub's."),
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the pairs kept and the report.")],
    scorer: Annotated[
        list[str] | None,
        typer.Option(
            help="words or characters: a language model of the true captions of other images; repeatable. Both, where "
            "neither a predictions file nor --learned is given."
        ),
    ] = None,
    predictions: Annotated[
        list[Path] | None,
        typer.Option(help="A predictions file of a model that sees no image, such as vera; repeatable."),
    ] = None,
    learned: Annotated[
        int, typer.Option(help="How many rounds of probes that are trained on the pairs; 0 for none.")
    ] = 0,
    grid: Annotated[int, typer.Option(help="Cells for each scorer over [-1, 1]; 2 balances signs alone.")] = 100,
    cells: Annotated[
        str, typer.Option(help="paper: (a, b] of the size of a gap; authors: as in their code.")
    ] = "paper",
    scale: Annotated[
        str | None,
        typer.Option(
            help="How gaps come into [-1, 1]: none, largest (divided by the largest), rank. By default none for "
            "predictions, largest for --scorer."
        ),
    ] = None,
    together: Annotated[
        bool, typer.Option("--together", help="Balance all categories together, not each by itself.")
    ] = False,
    column: Columns = None,
    data_dir: DataDir = None,
    option: Options = None,
    confidence: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Which pairs of a cell are kept.")] = 0,
) -> None:
    """Keep the pairs of a benchmark on which blind scorers are right as often as wrong.

    Adversarial refinement, Algorithm 1 of SugarCrepe: pairs are put into cells by how far each scorer prefers the true
    caption, and each cell keeps as many as its mirror image. Each scorer is then at 50 % in each category. The more
    scorers, and the finer the grid, the fewer pairs are kept.

    `--learned 3` then trains probes of formatting and of words on what is left, refines on the better one, and trains
    them anew, three times at most; probes of characters, parts of speech and rarity show what remains.

    Writes pairs.jsonl (any command reads it as a dataset), report.json, report.md and report.html.

    Examples: `vl-assay refine sugarcrepe-unrefined-folder --out refined` ·
    `vl-assay refine mine.jsonl --predictions vera.parquet --predictions grammar.parquet --cells authors --out refined`
    ·
    `vl-assay refine mine.csv --column positive=true --scorer words --learned 3 --out refined`
    """
    from .audit.command import read_with_notes
    from .refine.refine import blind_scorers
    from .refine.refine import refine as refine_pairs
    from .refine.report import print_refinement, write_refinement

    reading = {"columns": parse_columns(column), "options": parse_options(option, allow_missing=False)}
    pairs = read_with_notes(dataset, out, data_dir=data_dir, **reading)
    names = scorer or ([] if predictions or learned else ["words", "characters"])
    result = refine_pairs(
        pairs,
        blind_scorers(pairs, names, predictions or [], scale),
        learned=learned,
        grid=grid,
        cells=cells,
        by_category=not together,
        seed=seed,
        confidence=confidence,
        progress=True,
    )
    print_refinement(result.record)
    files = write_refinement(result, out, dataset)
    typer.echo(f"written to {out}: {', '.join(file.name for file in files)}")


def parse_columns(pairs: list[str] | None) -> dict[str, str]:
    """``["positive=caption"]`` → ``{"positive": "caption"}``."""
    columns = {}
    for pair in pairs or ():
        name, separator, value = pair.partition("=")
        if not separator or not value:
            raise VLAssayError(f"--column {pair!r} names no column; write OURS=THEIRS, such as {name or 'id'}=title")
        columns[name] = value
    return columns


@app.command()
def review(
    candidates: Annotated[
        Path,
        typer.Argument(help="What `vl-assay generate` wrote: the file or its folder; with --boxes a file of items."),
    ],
    *,
    boxes: Annotated[bool, typer.Option("--boxes", help="Draw boxes for phrases, in place of judging.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the journal; by default that of the candidates.")] = None,
    annotators: Annotated[str, typer.Option(metavar="A,B,…", help="Who may take part; by default anybody.")] = "",
    images: Annotated[
        Path | None, typer.Option(help="Folder of the images, where it is another; none outside it is shown.")
    ] = None,
    image_model: Annotated[
        str, typer.Option(help="What finds similar images: histogram (no weights), or an image-only checkpoint.")
    ] = "histogram",
    summary: Annotated[bool, typer.Option("--summary", help="Print how far annotators agree, and stop.")] = False,
    export: Annotated[Path | None, typer.Option(help="Write what was decided to this .jsonl file, and stop.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to serve at; 0.0.0.0 for other machines to reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to serve at.")] = 7861,
) -> None:
    """Have people judge candidates, or draw boxes, in the browser.

    Each decision is on the disk before the page goes on, in DECISIONS.jsonl (BOXES.jsonl with --boxes) of `--out`:
    ended or killed, the same command goes on where everybody was. `--export` writes every candidate with its decisions,
    and beside it the kept pairs, NAME.pairs.jsonl: those that more than half of who judged them keep or fix.

    Items for boxes are JSON lines: `{"id": "1", "image": "1.jpg", "caption": "a cat on a mat", "phrases": [{"text":
    "a cat", "start": 0, "end": 5}]}`.

    Examples: `vl-assay review candidates` · `vl-assay review candidates --annotators ana,ben --port 8000` ·
    `vl-assay review candidates --summary` · `vl-assay review candidates --export judged.jsonl` ·
    `vl-assay review items.jsonl --boxes --image-model facebook/dinov2-small`
    """
    from .review.review import Review, serve

    names = [name.strip() for name in annotators.split(",") if name.strip()]
    opened = Review(candidates, out=out, images=images, boxes=boxes, annotators=names, image_model=image_model)
    if summary:
        opened.summary()
    if export is not None:
        typer.echo(opened.export(export))
    if summary or export is not None:
        return
    serve(opened, host, port)


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
        typer.Option(help="What to make: replace_obj, swap_att, positive_swap …; repeatable, by default all."),
    ] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    key_variable: KeyVariable = "VL_ASSAY_API_KEY",
    plan: Annotated[bool, typer.Option("--plan", help="Say how many calls and tokens it takes, and stop.")] = False,
    rules: Annotated[
        bool, typer.Option("--rules", help="Make candidates by rule, without a model; also negate and shuffle.")
    ] = False,
    lexicon: Lexicon = "builtin",
    limit: Limit = None,
    each: Each = 1,
    tries: Annotated[int, typer.Option(help="How often a new concept is asked for until it can be used.", min=1)] = 3,
    seed: Annotated[int, typer.Option(help="Of the choice of concepts, and of the model's sampling.")] = 0,
    concurrency: Concurrency = 8,
    requests_per_minute: PerMinute = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which an answer is given up.", min=0.1)] = 120,
    column: CaptionColumns = None,
    split: Split = None,
    images: Annotated[
        bool, typer.Option("--images", help="Copy the images to FOLDER/images, where `vl-assay review` shows them.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Make hard negatives and hard positives of captions, by a language model or by rule.

    Each kind follows its paper: to replace, a model locates concepts, thinks of a new one and puts it in; to swap, it
    first says whether that is possible. Answers that are not a minimal change of their kind are left out and counted.
    Every answer is kept in journal.jsonl as it comes: ended or killed, the same command goes on and pays nothing twice.

    Examples: `vl-assay generate captions.csv --model Qwen/Qwen2.5-7B-Instruct --base-url http://localhost:8000/v1
    --out made --plan` · `vl-assay generate photos --kind swap_obj --kind swap_att --model local:qwen --out made
    --images` · `vl-assay generate toy_scenes/itm --rules --out made`
    """
    from .generate.command import make_candidates

    make_candidates(
        source,
        out,
        kind,
        reading={"columns": parse_columns(column), "split": split, "limit": limit, "data_dir": data_dir},
        with_images=images,
        rules=lexicon if rules else None,
        model=model,
        endpoint={"base_url": base_url, "key_variable": key_variable, "timeout": timeout},
        only_plan=plan,
        options={"each": each, "seed": seed},
        asking={"tries": tries, "concurrency": concurrency, "per_minute": requests_per_minute},
    )


@app.command("new-benchmark")
def new_benchmark(
    name: Annotated[str, typer.Argument(help="The benchmark's name: small letters, digits and _.")],
    source: Annotated[
        str,
        typer.Argument(
            help="Captions with images, as for `vl-assay generate`: a folder of images with metadata.csv, a table that "
            "names their files, a benchmark or a part of one, or hf://datasets/owner/name."
        ),
    ],
    *,
    work: Annotated[Path, typer.Option(help="Folder of the stages; the same command again goes on there.")],
    plan: Annotated[bool, typer.Option("--plan", help="Show what is done and what is not, and stop.")] = False,
    kind: Annotated[
        list[str] | None, typer.Option(help="Such as replace_obj; repeatable, by default SugarCrepe's seven.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="Make candidates by rule, without a model.")] = False,
    lexicon: Lexicon = "builtin",
    model: Model = None,
    base_url: BaseUrl = None,
    key_variable: KeyVariable = "VL_ASSAY_API_KEY",
    limit: Limit = None,
    each: Each = 1,
    concurrency: Concurrency = 8,
    requests_per_minute: PerMinute = None,
    column: CaptionColumns = None,
    split: Split = None,
    data_dir: DataDir = None,
    no_review: Annotated[bool, typer.Option("--no-review", help="Go on without people; the card says so.")] = False,
    annotators: Annotated[
        str, typer.Option(metavar="A,B,…", help="Who judges all candidates; by default one person, anybody, each.")
    ] = "",
    scorer: Annotated[
        list[str] | None,
        typer.Option(help="words or characters: refine on a language model of that unit as well; repeatable."),
    ] = None,
    learned: Annotated[int, typer.Option(help="Rounds of learned probes to refine on; 0 for none.", min=0)] = 3,
    grid: Annotated[int, typer.Option(help="Cells for each --scorer over [-1, 1].", min=1)] = 100,
    max_blind_accuracy: Annotated[
        float, typer.Option(help="Build nothing, and exit with 1, where the final audit finds more than this.")
    ] = 0.55,
    licence: Annotated[str | None, typer.Option(help="Under which it may be passed on, such as cc0-1.0.")] = None,
    copy_images: Annotated[bool, typer.Option("--copy-images", help="Pass the images on as well.")] = False,
    into: Annotated[
        Path | None, typer.Option(help="Folder that takes the benchmark's, such as hub_datasets; by default --work.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all that chance has a part in.", min=0)] = 0,
) -> None:
    """Make a benchmark of captions with images: generate, review, audit, refine, audit again, build.

    Each stage writes a folder of its own in `--work`. The same command again goes on with the first that is not done,
    or whose options or inputs changed. After `generate` it rests until people have judged the candidates, and says how;
    `--no-review` goes on without. The final audit has to pass, or nothing is built.

    The result is a folder NAME with builder.py, benchmark.py and README.md, in `--work` or `--into`, and the dataset
    repository WORK/repository for `vl-assay publish`, which has images only with `--copy-images`. In `hub_datasets`
    the benchmark is found by its name: `vl-assay run demo-clip NAME --data-dir WORK/captions/images`.

    Examples: `vl-assay new-benchmark photos_swapped photos --work work --model Qwen/Qwen2.5-7B-Instruct --base-url
    http://localhost:8000/v1 --annotators ana,ben` · `vl-assay new-benchmark toy_rules toy_scenes/itm --work work
    --rules --no-review --licence cc0-1.0 --copy-images`
    """
    from .generate.generate import NEGATIVE_KINDS
    from .pipeline.new_benchmark import Settings, make_benchmark

    settings = Settings(
        name=name,
        source=source,
        work=work,
        reading={"columns": parse_columns(column), "split": split, "limit": limit, "data_dir": data_dir},
        kinds=tuple(dict.fromkeys(kind or NEGATIVE_KINDS)),
        rules=lexicon if rules else None,
        model=model,
        base_url=base_url,
        key_variable=key_variable,
        each=each,
        asking={"concurrency": concurrency, "per_minute": requests_per_minute},
        review=not no_review,
        annotators=tuple(dict.fromkeys(name.strip() for name in annotators.split(",") if name.strip())),
        scorers=tuple(dict.fromkeys(scorer or ())),
        learned=learned,
        grid=grid,
        max_blind_accuracy=max_blind_accuracy,
        seed=seed,
        into=into,
        licence=licence,
        copy_images=copy_images,
    )
    if not make_benchmark(settings, only_plan=plan):
        raise typer.Exit(1)
