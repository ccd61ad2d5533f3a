"""What each stage of a new benchmark does: it reads what those before it wrote, and writes to its folder."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....metrics.common.errors import DataError
from ....metrics.common.storage import write_text
from ....metrics.records.predictions import file_hash
from ...core.benchmarks import benchmark_names, code_hash
from ..data.candidates import CANDIDATES_FILE, Candidate, read_candidates, to_pairs, write_candidates
from ..data.pairs import Pair, read_pairs, write_pairs
from ..data.sources import Captioned, read_captions
from .stages import STAGE_FILE, Result, Waiting

if TYPE_CHECKING:
    from .new_benchmark import Settings

STAGES = ("captions", "generate", "review", "audit", "refine", "final-audit", "build")
CAPTIONS_FILE, IMAGES = "captions.jsonl", "images"
REVIEWED_FILE, KEPT_FILE = "reviewed.jsonl", "reviewed.pairs.jsonl"
PAIRS_FILE, REPORT_FILE, AUDIT_FILE = "pairs.jsonl", "report.json", "audit.json"
# With fewer pairs an accuracy of 50 % has an interval of more than 18 points on each side.
FEWEST_PAIRS = 30


def fingerprint(settings: Settings) -> str:
    """What tells a source from the same name with other content; of the Hub's only its name is known."""
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
    """Read the captions, and copy their images under the keys of their content."""
    images = folder / IMAGES
    found = read_captions(settings.source, **settings.reading, images=images)
    without = [each.id for each in found if Path(each.image).parent != images]
    if without:
        raise DataError(
            f"{settings.source}: {len(without):,} captions have no file of an image, such as {without[0]!r}; a "
            "benchmark needs one for each: name the column with --column image=NAME, or download what has an address"
        )
    rows = [each._replace(image=Path(each.image).name) for each in found]
    write_text(folder / CAPTIONS_FILE, "".join(json.dumps(row._asdict(), ensure_ascii=False) + "\n" for row in rows))
    number = len({row.image for row in rows})
    return {"said": f"{len(rows):,} captions of {number:,} images"}


def read_stage_captions(settings: Settings) -> list[Captioned]:
    """What the first stage wrote, with the paths of the images."""
    folder = settings.work / "captions"
    lines = (folder / CAPTIONS_FILE).read_text(encoding="utf-8").split("\n")
    rows = [Captioned(**json.loads(line)) for line in lines if line]
    return [row._replace(image=str(folder / IMAGES / row.image)) for row in rows]


def do_generate(settings: Settings, folder: Path) -> Result:
    """Make candidates of the captions, by rule or by a model."""
    from ..generate.command import print_report
    from ..generate.endpoint import open_model
    from ..generate.generate import generate, generate_by_rule

    captions = read_stage_captions(settings)
    options: dict[str, Any] = {"each": settings.each, "seed": settings.seed}
    if settings.model is None:
        report = generate_by_rule(captions, folder, settings.kinds, **options, lexicon=settings.rules or "builtin")
    else:
        model = open_model(settings.model, settings.base_url, key_variable=settings.key_variable)
        report = generate(captions, model, folder, settings.kinds, **options, **settings.asking)
    print_report(report)
    if not report.candidates:
        raise DataError(f"{report.source} made no candidate of {len(captions):,} captions; the table says why")
    told = report.as_json()
    said = f"{len(report.candidates):,} candidates by {report.source}"
    return {"said": said, **told, "seed": settings.seed, "by_model": settings.model is not None}


def do_review(settings: Settings, folder: Path) -> Result:
    """Lay the candidates out for people, and take those that they keep, once all are judged."""
    from ..review.agreement import agreement, votes_of
    from ..review.decisions import DECISIONS, JOURNAL_FILE, export, shown_texts
    from ..review.journal import Journal

    candidates = read_candidates(settings.work / "generate")
    # The page shows the images of one folder, so their names are those in it.
    here = [each._replace(image=Path(each.image).name) for each in candidates]
    write_candidates(here, folder / CANDIDATES_FILE)
    if not settings.review:
        write_pairs(to_pairs(here), folder / KEPT_FILE)
        return {"said": "nobody looked", "candidates": len(here), "annotators": {}}
    journal = Journal(folder / JOURNAL_FILE, DECISIONS)
    standing = journal.standing(shown_texts(here))
    _check_decided(settings, here, {name: {id for id, _ in entries} for name, entries in standing.items()})
    done = export(here, journal, folder / REVIEWED_FILE)
    # What is told comes into the card: who it was is for the annotators to say.
    annotators = {f"annotator {place}": len(entries) for place, entries in enumerate(standing.values(), 1)}
    found = [row._asdict() for row in agreement(votes_of(standing))] if len(annotators) > 1 else []
    people = "1 person" if len(annotators) == 1 else f"{len(annotators)} people"
    said = f"{done.pairs:,} of {len(here):,} candidates kept by {people}"
    told = {"said": said, "candidates": len(here), "pairs": done.pairs, "annotators": annotators}
    return told | {"statuses": done.statuses, "agreement": found}


def _check_decided(settings: Settings, candidates: Sequence[Candidate], decided: Mapping[str, set[str]]) -> None:
    """Wait unless everybody who is named, or anybody where nobody is, has judged every candidate."""
    everybody = settings.annotators or [""]
    judged = {name: decided.get(name, set()) for name in settings.annotators} or {"": set().union(*decided.values())}
    lacking = {name: sum(each.id not in judged[name] for each in candidates) for name in everybody}
    if not any(lacking.values()):
        return
    command = ["vl-assay", "review", str(settings.work / "review")]
    command += ["--images", str(settings.work / "captions" / IMAGES)]
    if settings.annotators:
        command += ["--annotators", ",".join(settings.annotators)]
    numbers = ", ".join(f"{number:,}" + (f" ({name})" if name else "") for name, number in lacking.items() if number)
    raise Waiting(
        f"people have still to judge {numbers} of {len(candidates):,} candidates, with\n\n    {shlex.join(command)}\n\n"
        "and then the same command as now goes on. With --limit there are fewer candidates; with --no-review it goes "
        "on without people, and the card says so"
    )


def _read_kept(path: Path) -> list[Pair]:
    if not path.read_text(encoding="utf-8").strip():
        raise DataError(f"{path} has no pairs: the review kept none; make other candidates, or judge them anew")
    return read_pairs(path)


def do_audit(settings: Settings, pairs_file: Path, folder: Path) -> Result:
    """Audit pairs, and print and write what is found."""
    from rich.console import Console

    from ..audit.audit import audit
    from ..audit.report import print_audit, write_audit

    pairs = _read_kept(pairs_file)
    with Console(stderr=True).status("audit") as status:
        result = audit(pairs, settings.name, seed=settings.seed, progress=lambda step: status.update(f"audit: {step}"))
    print_audit(result.record)
    write_audit(result, folder)
    name, worst = max(result.record["scorers"].items(), key=lambda item: item[1]["accuracy"])
    return {"said": f"{len(pairs):,} pairs; without the image right in at most {worst['accuracy']:.1%}, by {name}"}


def do_refine(settings: Settings, folder: Path) -> Result:
    """Refine adversarially, and leave out kinds of which too little remains."""
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
    order = [kind for kind in settings.kinds if sizes[kind] >= FEWEST_PAIRS]
    kept = [pair for kind in order for pair in refined.kept if pair.category == kind]
    if not kept:
        raise DataError(
            f"of {len(pairs):,} pairs the refinement keeps {len(refined.kept):,}, and of no kind {FEWEST_PAIRS} or "
            "more; give more captions, fewer --learned rounds or a coarser --grid"
        )
    write_pairs(kept, folder / PAIRS_FILE)
    small = {kind: sizes[kind] for kind in dict.fromkeys(pair.category for pair in pairs) if kind not in order}
    said = f"{len(kept):,} of {len(pairs):,} pairs kept, of {', '.join(order)}"
    return {"said": said, "too_small": small}


def find_failures(settings: Settings) -> list[str]:
    """Why the final audit does not pass, a sentence each."""
    from ..audit.audit import failures

    record = json.loads((settings.work / "final-audit" / AUDIT_FILE).read_text(encoding="utf-8"))
    return failures(record, settings.max_blind_accuracy)


def do_build(settings: Settings, folder: Path) -> Result:
    """Write the benchmark's folder, and build its repository."""
    from .folder import UNKNOWN_LICENCE, Material, build_repository, write_folder

    def read(path: str) -> Any:
        return json.loads((settings.work / path).read_text(encoding="utf-8"))

    pairs = read_pairs(settings.work / "refine" / PAIRS_FILE)
    material = Material(
        name=settings.name,
        source=_name_source(settings.source),
        pairs=pairs,
        images=settings.work / "captions" / IMAGES,
        licence=settings.licence or UNKNOWN_LICENCE,
        copy_images=settings.copy_images,
        told={name: read(f"{name}/{STAGE_FILE}")["result"] for name in STAGES[:-1]},
        audits=(read(f"audit/{AUDIT_FILE}"), read(f"final-audit/{AUDIT_FILE}")),
        refinement=read(f"refine/{REPORT_FILE}"),
    )
    write_folder(material, settings.folder)
    build_repository(settings.folder, settings.repository, with_images=settings.copy_images)
    return {"said": f"{len(pairs):,} pairs in {settings.folder}, the repository in {settings.repository}"}


def _name_source(source: str) -> str:
    """A source as others may read it: of a file or folder here only its name."""
    path = Path(source).expanduser()
    return path.resolve().name if source.partition("/")[0] not in benchmark_names() and path.exists() else source
