"""The stages of a new benchmark: each reads the files of those before it, and writes to its own folder."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError
from ....metrics.records.predictions import file_hash
from ...core.benchmarks import benchmark_names, code_hash
from ..data.candidates import CANDIDATES_FILE, Candidate, read_candidates, to_pairs
from ..data.pairs import Pair, read_pairs, write_pairs
from ..data.sources import Captioned, read_captions
from ..data.tables import read_rows, write_rows
from ..review.decisions import JOURNAL_FILE as DECISIONS_FILE
from .folder import IMAGES, MADE_FILE, Settings, build_repository, write_folder
from .workflow import STAGE_FILE, Result, Stage, Waiting

STAGES = ("captions", "generate", "review", "audit", "refine", "final-audit", "build")
CAPTIONS_FILE = "captions.jsonl"
REVIEWED_FILE, KEPT_FILE = "reviewed.jsonl", "reviewed.pairs.jsonl"
PAIRS_FILE, AUDIT_FILE = "pairs.jsonl", "audit.json"


def stages_of(settings: Settings) -> list[Stage]:
    """The stages of a benchmark, in their order."""
    work, seed = settings.work, {"seed": settings.seed}
    captions, candidates = work / "captions" / CAPTIONS_FILE, work / "generate" / CANDIDATES_FILE
    kept, refined = work / "review" / KEPT_FILE, work / "refine" / PAIRS_FILE
    reading = {**settings.reading, "data_dir": str(settings.reading.get("data_dir") or "")}
    generating = {name: getattr(settings, name) for name in ("kinds", "rules", "model", "prompts", "each")}
    reviewing = {"review": settings.review, "annotators": settings.annotators}
    refining = {
        name: getattr(settings, name) for name in ("kinds", "scorers", "learned", "grid", "seed", "fewest_pairs")
    }
    publishing = {name: getattr(settings, name) for name in ("name", "source", "licence", "copy_images")}
    records = [work / name / STAGE_FILE for name in STAGES[:-1]]
    stage = partial(Stage, work)
    return [
        stage(
            "captions",
            {"source": settings.source, "content": _content_hash(settings), **reading},
            (),
            partial(do_captions, settings),
        ),
        stage("generate", generating | seed, (captions,), partial(do_generate, settings), keeps=True),
        stage(
            "review",
            reviewing,
            (candidates, work / "review" / DECISIONS_FILE),
            partial(do_review, settings),
            keeps=True,
        ),
        stage("audit", {"name": settings.name, **seed}, (kept,), partial(do_audit, settings, kept)),
        stage("refine", refining, (kept,), partial(do_refine, settings)),
        stage("final-audit", {"name": settings.name, **seed}, (refined,), partial(do_audit, settings, refined)),
        stage(
            "build",
            publishing | {"into": str(settings.into or "")},
            (refined, work / "audit" / AUDIT_FILE, work / "final-audit" / AUDIT_FILE, *records),
            partial(do_build, settings),
            writes=(settings.folder / MADE_FILE, settings.repository / "build.json"),
        ),
    ]


def _content_hash(settings: Settings) -> str:
    """A hash of a source's content; of a dataset on the Hub it is empty."""
    name, data_dir = settings.source.partition("/")[0], settings.reading.get("data_dir")
    is_ours = name in benchmark_names()
    path = Path((data_dir if is_ours else settings.source) or "").expanduser()
    if path.is_file():
        return file_hash(path)
    digest = hashlib.sha256(code_hash(name).encode() if is_ours else b"")
    if path.is_dir() and (data_dir or not is_ours):
        for file in sorted(path.rglob("*")):
            if file.is_file() and not file.resolve().is_relative_to(settings.work.resolve()):
                state = file.stat()
                digest.update(f"{file.relative_to(path)}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def do_captions(settings: Settings, folder: Path) -> Result:
    """Read the captions, and copy their images; they are named by hashes of their content."""
    images = folder / IMAGES
    found = read_captions(settings.source, **settings.reading, images=images)
    without = [each.id for each in found if Path(each.image).parent != images]
    if without:
        raise DataError(
            f"{settings.source}: {len(without):,} captions have no image file, such as {without[0]!r}; a benchmark "
            "needs one for each: give the column with --column image=NAME, and download images that have an address"
        )
    rows = [each._replace(image=Path(each.image).name) for each in found]
    write_rows(rows, folder / CAPTIONS_FILE)
    number = len({row.image for row in rows})
    return {"summary": f"{len(rows):,} captions of {number:,} images"}


def read_stage_captions(settings: Settings) -> list[Captioned]:
    """The captions of the first stage, with the paths of their images."""
    folder = settings.work / "captions"
    rows = (Captioned(**row) for _, row in read_rows(folder / CAPTIONS_FILE))
    return [row._replace(image=str(folder / IMAGES / row.image)) for row in rows]


def do_generate(settings: Settings, folder: Path) -> Result:
    """Make candidates of the captions, by rule or by a model."""
    from ..generate.generate import generate, generate_by_rule
    from ..generate.language_models import open_model
    from ..generate.report import print_report

    captions = read_stage_captions(settings)
    options: dict[str, Any] = {"each": settings.each, "seed": settings.seed}
    if settings.model is None:
        report = generate_by_rule(captions, folder, settings.kinds, **options)
    else:
        model = open_model(settings.model, settings.base_url, key_variable=settings.key_variable)
        report = generate(
            captions, model, folder, settings.kinds, **options, prompts=settings.prompts, **settings.asking
        )
    print_report(report)
    if not report.candidates:
        raise DataError(f"{report.source} made no candidate of {len(captions):,} captions; the table has the reasons")
    summary = f"{len(report.candidates):,} candidates by {report.source}"
    return {"summary": summary, **report.as_json(), "seed": settings.seed, "by_model": settings.model is not None}


def do_review(settings: Settings, folder: Path) -> Result:
    """Write the candidates for review, and export those that people keep once all are judged."""
    from ..review.agreement import agreement
    from ..review.decisions import DECISIONS, export, shown_texts
    from ..review.journal import DecisionJournal

    candidates = read_candidates(settings.work / "generate")
    # The page shows the images of one folder.
    here = [each._replace(image=Path(each.image).name) for each in candidates]
    write_rows(here, folder / CANDIDATES_FILE)
    if not settings.review:
        write_pairs(to_pairs(here), folder / KEPT_FILE)
        return {"summary": "skipped", "candidates": len(here), "annotators": {}}
    journal = DecisionJournal(folder / DECISIONS_FILE, DECISIONS)
    standing = journal.standing(shown_texts(here))
    _check_decided(settings, here, {name: {id for id, _ in entries} for name, entries in standing.items()})
    statuses, pairs, _ = export(here, journal, folder / REVIEWED_FILE)
    # The card shows this, so annotators stay anonymous.
    annotators = {f"annotator {place}": len(entries) for place, entries in enumerate(standing.values(), 1)}
    found = [row._asdict() for row in agreement(standing)] if len(annotators) > 1 else []
    people = "1 person" if len(annotators) == 1 else f"{len(annotators)} people"
    summary = f"{pairs:,} of {len(here):,} candidates kept by {people}"
    result = {"summary": summary, "candidates": len(here), "pairs": pairs, "annotators": annotators}
    return result | {"statuses": statuses, "agreement": found}


def _check_decided(settings: Settings, candidates: Sequence[Candidate], decided: Mapping[str, set[str]]) -> None:
    """Raise `Waiting` unless all annotators, or without names anybody, have judged every candidate."""
    judged = {name: decided.get(name, set()) for name in settings.annotators} or {"": set().union(*decided.values())}
    missing = {name: sum(each.id not in ids for each in candidates) for name, ids in judged.items()}
    if not any(missing.values()):
        return
    command = ["vl-assay", "review", str(settings.work / "review")]
    command += ["--images", str(settings.work / "captions" / IMAGES)]
    if settings.annotators:
        command += ["--annotators", ",".join(settings.annotators)]
    numbers = ", ".join(f"{number:,}" + (f" ({name})" if name else "") for name, number in missing.items() if number)
    raise Waiting(
        f"people have still to judge {numbers} of {len(candidates):,} candidates, with\n\n    {shlex.join(command)}\n\n"
        "and then this command again. --limit makes fewer candidates; --no-review continues without people, and the "
        "card says so"
    )


def _read_kept(path: Path) -> list[Pair]:
    if not path.read_text(encoding="utf-8").strip():
        raise DataError(f"{path} has no pairs: the review kept none; make other candidates, or review them again")
    return read_pairs(path)


def do_audit(settings: Settings, pairs_file: Path, folder: Path) -> Result:
    """Audit pairs."""
    from rich.console import Console

    from ..audit.audit import audit
    from ..audit.report import print_audit, write_audit

    pairs = _read_kept(pairs_file)
    with Console(stderr=True).status("audit") as status:
        result = audit(pairs, settings.name, seed=settings.seed, progress=lambda step: status.update(f"audit: {step}"))
    print_audit(result.record)
    write_audit(result, folder)
    name, worst = max(result.record["scorers"].items(), key=lambda item: item[1]["accuracy"])
    return {
        "summary": f"{len(pairs):,} pairs; the best scorer without the image, {name}, reaches {worst['accuracy']:.1%}"
    }


def do_refine(settings: Settings, folder: Path) -> Result:
    """Filter adversarially, and leave out kinds with too few pairs."""
    from ..refine.refine import blind_scorers, refine
    from ..refine.report import print_refinement, write_refinement

    pairs = _read_kept(settings.work / "review" / KEPT_FILE)
    refined = refine(
        pairs,
        blind_scorers(pairs, settings.scorers),
        learned=settings.learned,
        grid=settings.grid,
        seed=settings.seed,
        progress=True,
    )
    print_refinement(refined.record)
    write_refinement(refined, folder, settings.name)
    sizes = Counter(pair.category for pair in refined.kept)
    order = [kind for kind in settings.kinds if sizes[kind] >= settings.fewest_pairs]
    kept = [pair for kind in order for pair in refined.kept if pair.category == kind]
    if not kept:
        raise DataError(
            f"of {len(pairs):,} pairs the refinement keeps {len(refined.kept):,}, and of no kind "
            f"{settings.fewest_pairs} or more; give more captions, fewer --learned rounds or a coarser --grid"
        )
    write_pairs(kept, folder / PAIRS_FILE)
    small = {kind: sizes[kind] for kind in dict.fromkeys(pair.category for pair in pairs) if kind not in order}
    summary = f"{len(kept):,} of {len(pairs):,} pairs kept, of {', '.join(order)}"
    return {"summary": summary, "too_small": small}


def do_build(settings: Settings, folder: Path) -> Result:
    """Write the benchmark's folder, and build its repository."""

    def read(path: str) -> Any:
        return json.loads((settings.work / path).read_text(encoding="utf-8"))

    pairs = read_pairs(settings.work / "refine" / PAIRS_FILE)
    records = {"before": read(f"audit/{AUDIT_FILE}"), "after": read(f"final-audit/{AUDIT_FILE}")}
    records["results"] = {name: read(f"{name}/{STAGE_FILE}")["result"] for name in STAGES[:-1]}
    write_folder(settings, pairs, records | {"refinement": read("refine/report.json")})
    build_repository(settings)
    return {"summary": f"{len(pairs):,} pairs in {settings.folder}, the repository in {settings.repository}"}
