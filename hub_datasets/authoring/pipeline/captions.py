"""The stages of a benchmark of captions: each reads the files of earlier stages, and writes to its own folder.

    captions → generate → review → audit → refine → final-audit → build

Rules and language models do not see images, so a candidate may be true of its image; only people can decide that. The
refinement uses learned probes, by default three rounds, since the audit limits the accuracy of such probes.

Results for the 1,000 captioned scenes of toy_scenes with rules, the seven kinds and default options, for the seeds 0 to
4 (slow tests), where the known content of the scenes replaces human judgement:

    candidates                    6,529 to 6,546
    judged false and well formed  4,345 to 4,385    without the image: length rule 56 to 58 %, words 58 to 59 %
    kept by the refinement        3,418 to 3,524    without the image: no scorer above 51.0 %

Without a review 3,566 to 3,644 pairs are kept; the best scorer without the image falls from 71.6 % to 51.0 %. No pairs
remain of the kinds that add words, since each of their negatives is the longer caption.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError, VLAssayError
from ....metrics.common.storage import with_home
from ....metrics.common.user_files import list_files
from ....metrics.records.predictions import file_hash
from ...core.benchmarks import code_hash
from ...core.repository import BUILD_FILE
from ..audit.audit import failures
from ..audit.blind import keep_benchmark
from ..data.candidates import Candidate, read_candidates
from ..data.made import CANDIDATES_FILE, JOURNAL_SUFFIX, KEPT, PAIRS_FILE, REVIEWED_FILE
from ..data.pairs import Pair, read_pairs, write_pairs
from ..data.sources import Captioned, keep_image, read_captions
from ..data.tables import read_rows, write_rows
from ..review.agreement import agree_on
from ..review.candidates import count_statuses, votes
from .folder import build_repository, write_folder
from .settings import IMAGES, MADE_FILE, Settings, reviewed
from .stages import STAGE_FILE, Result, Stage

STAGES = ("captions", "generate", "review", "audit", "refine", "final-audit", "build")
CAPTIONS_FILE = "captions.jsonl"
AUDIT_FILE = "audit.json"


class AuditFailed(VLAssayError):
    """Scorers that see no image are right too often, so that nothing was built."""


def caption_stages(settings: Settings) -> list[Stage]:
    """Return the stages of a benchmark of captions, in their order."""
    work = settings.work
    captions, candidates = work / "captions" / CAPTIONS_FILE, work / "generate" / CANDIDATES_FILE
    reviewed, refined = work / "review" / REVIEWED_FILE, work / "refine" / PAIRS_FILE
    audits = (work / "audit" / AUDIT_FILE, work / "final-audit" / AUDIT_FILE)
    journal = work / "review" / f"candidates{JOURNAL_SUFFIX}"
    records = tuple(work / name / STAGE_FILE for name in STAGES[:-1])

    def stage(name: str, do: Any, reads: tuple[Path, ...], names: str, more: Any = None, **options: Any) -> Stage:
        depends_on = {setting: getattr(settings, setting) for setting in names.split()} | (more or {})
        return Stage(work / name, depends_on, reads, partial(do, settings), **options)

    reading, building = source_settings(settings), "name source licence copy_images max_blind_accuracy"
    content = {"given": reading["content"]} if settings.given else {}
    built = (settings.folder / MADE_FILE, settings.repository / BUILD_FILE)
    into = {"into": str(settings.into or "")}
    return [
        stage("captions", _read, (), "", reading),
        stage("generate", _generate, (captions,), "kinds rules model each seed", content, keeps=True),
        stage("review", _review, (candidates, journal), "asks_people annotators", keeps=True),
        stage("audit", partial(_audit, reviewed), (reviewed,), "name seed"),
        stage("refine", _refine, (reviewed,), "kinds scorer learned grid seed fewest_pairs"),
        stage("final-audit", partial(_audit, refined), (refined,), "name seed"),
        stage("build", _build, (refined, *audits, *records), building, into, writes=built),
    ]


def source_settings(settings: Settings) -> dict[str, Any]:
    """Return what reading the source depends on; `content` is a hash, the same for all datasets on the Hub."""
    reading = {"source": settings.source, **settings.reading, "data_dir": str(settings.data_dir or "")}
    return reading | {"content": _content_hash(settings)}


def _content_hash(settings: Settings) -> str:
    is_ours, data_dir = settings.is_benchmark, settings.data_dir
    path = with_home((data_dir if is_ours else settings.source) or "")
    if path.is_file():
        return file_hash(path)
    digest = hashlib.sha256(code_hash(settings.source.partition("/")[0]).encode() if is_ours else b"")
    if path.is_dir() and (data_dir or not is_ours):
        for file in list_files(path, "**/*"):
            if file.is_file() and not file.resolve().is_relative_to(settings.work.resolve()):
                state = file.stat()
                digest.update(f"{file.relative_to(path)}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def stage_captions(settings: Settings) -> list[Captioned]:
    """Return the captions of the first stage, with the paths of their images."""
    rows = (Captioned(**row) for _, row in read_rows(settings.work / "captions" / CAPTIONS_FILE))
    return [row._replace(image=str(settings.images / row.image)) for row in rows]


def _read(settings: Settings, folder: Path) -> Result:
    """Read the captions, and copy their images; they are named by hashes of their content."""
    images = folder / IMAGES
    captions = read_captions(settings.source, **settings.reading, images=images)
    without = [caption.id for caption in captions if Path(caption.image).parent != images]
    if without:
        raise DataError(
            f"{settings.source}: {len(without):,} captions have no image file, such as {without[0]!r}; a benchmark "
            "needs one for each: name the column (`column: [image=NAME]` in --config), and download images that have "
            "an address"
        )
    rows = [caption._replace(image=Path(caption.image).name) for caption in captions]
    write_rows(rows, folder / CAPTIONS_FILE)
    return {"summary": f"{len(rows):,} captions of {len({row.image for row in rows}):,} images"}


def _generate(settings: Settings, folder: Path) -> Result:
    """Make candidates of the captions, by rule or by a model."""
    from ..generate.asking import open_model
    from ..generate.generate import generate, generate_by_rule, print_report

    captions = stage_captions(settings)
    if settings.given:
        return _take(settings, captions, folder)
    options: dict[str, Any] = {"each": settings.each, "seed": settings.seed}
    if settings.model is None:
        report = generate_by_rule(captions, folder, settings.kinds, **options)
    else:
        model = open_model(settings.model, settings.base_url, key_variable=settings.key_variable)
        options |= {"concurrency": settings.concurrency, "per_minute": settings.requests_per_minute}
        report = generate(captions, model, folder, settings.kinds, **options)
    print_report(report)
    if not report.candidates:
        raise DataError(f"{report.source} made no candidate of {len(captions):,} captions; the table has the reasons")
    summary = f"{len(report.candidates):,} candidates by {report.source}"
    return {"summary": summary, **report.as_json(), "seed": settings.seed, "by_model": settings.model is not None}


def _take(settings: Settings, captions: Sequence[Captioned], folder: Path) -> Result:
    """Write the pairs of the source that belong to the captions as candidates."""
    known = {(Path(row.image).name, row.caption) for row in captions}
    candidates = []
    for pair in read_pairs(settings.source):
        image = Path(keep_image(Path(pair.image).read_bytes(), pair.image, settings.images))
        if (image.name, pair.positive) in known:
            texts = (str(image), pair.positive, pair.negative)
            candidates.append(Candidate(pair.id, *texts, pair.category, False, settings.public_source))
    counts = Counter(row.kind for row in candidates)
    for kind in counts:
        if not re.fullmatch(r"\w+", kind):
            raise DataError(f"{kind!r} cannot name a kind of negatives; use letters, digits and _")
    write_rows(candidates, folder / CANDIDATES_FILE)
    summary = f"{len(candidates):,} pairs of {settings.public_source}"
    return {"summary": summary, "source": settings.public_source, "made": counts, "rejected": {}, "by_model": False}


def _review(settings: Settings, folder: Path) -> Result:
    """Write the candidates for review, and export those that people keep once all are judged."""
    # The page shows the images of one folder.
    candidates = [
        candidate._replace(image=Path(candidate.image).name)
        for candidate in read_candidates(settings.work / "generate")
    ]
    if not settings.asks_people:
        write_rows(candidates, folder / REVIEWED_FILE)
        return {"summary": "skipped", "candidates": len(candidates), "annotators": {}}
    desk = reviewed(settings, "candidates", candidates, folder / CANDIDATES_FILE)
    desk.write(folder / REVIEWED_FILE)
    statuses = count_statuses(row["status"] for row in desk.results())
    # The card shows this, so annotators stay anonymous.
    decided = enumerate(desk.standing().values(), 1)
    annotators = {f"annotator {number}": len(decisions) for number, decisions in decided}
    people = "1 person" if len(annotators) == 1 else f"{len(annotators)} people"
    return {
        "summary": f"{statuses[KEPT]:,} of {len(candidates):,} candidates kept by {people}",
        "candidates": len(candidates),
        "pairs": statuses[KEPT],
        "annotators": annotators,
        "statuses": statuses,
        "agreement": [agree_on(*of)._asdict() for of in votes(desk.judged()).items()] if len(annotators) > 1 else [],
    }


def _read_kept(path: Path) -> list[Pair]:
    """Read the pairs of a stage, with the names that their images have in the stage of captions."""
    return [pair._replace(image=Path(pair.image).name) for pair in read_pairs(path)]


def _audit(pairs_file: Path, settings: Settings, folder: Path) -> Result:
    from rich.console import Console

    from ..audit.audit import audit
    from ..audit.report import print_audit, write_audit

    pairs = _read_kept(pairs_file)
    with Console(stderr=True).status("audit"):
        record = audit(pairs, settings.name, seed=settings.seed)
    print_audit(record)
    write_audit(record, folder)
    name, worst = max(record["scorers"].items(), key=lambda item: item[1]["accuracy"])
    return {
        "summary": f"{len(pairs):,} pairs; the best scorer without the image, {name}, reaches {worst['accuracy']:.1%}"
    }


def _refine(settings: Settings, folder: Path) -> Result:
    """Filter adversarially, and leave out kinds with too few pairs."""
    from rich.console import Console

    from ..refine.ngrams import blind_scores
    from ..refine.refine import refine
    from ..refine.report import print_refinement, write_refinement

    pairs = _read_kept(settings.work / "review" / REVIEWED_FILE)
    with Console(stderr=True).status("refine"):
        scorers = {name: blind_scores(pairs, name) for name in settings.scorer or ()}
        kept, record = refine(pairs, scorers, learned=settings.learned, grid=settings.grid, seed=settings.seed)
    print_refinement(record)
    write_refinement(kept, record, folder, settings.name)
    sizes = Counter(pair.category for pair in kept)
    kinds = settings.kinds if not settings.given else dict.fromkeys(pair.category for pair in pairs)
    order = [kind for kind in kinds if sizes[kind] >= settings.fewest_pairs]
    large_enough = [pair for kind in order for pair in kept if pair.category == kind]
    if not large_enough:
        raise DataError(
            f"of {len(pairs):,} pairs the refinement keeps {len(kept):,}, and of no kind "
            f"{settings.fewest_pairs} or more; give more captions, fewer learned rounds or a coarser grid"
        )
    write_pairs(large_enough, folder / PAIRS_FILE)
    small = {kind: sizes[kind] for kind in dict.fromkeys(pair.category for pair in pairs) if kind not in order}
    summary = f"{len(large_enough):,} of {len(pairs):,} pairs kept, of {', '.join(order)}"
    return {"summary": summary, "too_small": small}


def _build(settings: Settings, folder: Path) -> Result:
    """Write the benchmark's folder and build its repository; raise `AuditFailed` if the final audit found too much."""

    def read(path: str) -> Any:
        return json.loads((settings.work / path).read_text(encoding="utf-8"))

    after = read(f"final-audit/{AUDIT_FILE}")
    if problems := failures(after, settings.max_blind_accuracy):
        raise AuditFailed("\n".join(problems))
    pairs = _read_kept(settings.work / "refine" / PAIRS_FILE)
    records = {"before": read(f"audit/{AUDIT_FILE}"), "after": after, "refinement": read("refine/report.json")}
    results = {name: read(f"{name}/{STAGE_FILE}")["result"] for name in STAGES[:-1]}
    write_folder(settings, pairs, records | {"results": results})
    build_repository(settings)
    keep_benchmark(str(settings.folder), settings.folder / "README.md", seed=settings.seed)
    return {"summary": f"{len(pairs):,} pairs in {settings.folder}, the repository in {settings.repository}"}
