"""A new benchmark, from captions and their images to a folder that can be published, in stages.

    captions → generate → review → audit → refine → final-audit → build

Each stage writes a folder of its name below the work folder, with ``stage.json``: its settings, and the hashes of what
it read. The same command again goes on with the first stage that is not done, or whose settings or inputs changed.
People come in at the review: the work rests there until every candidate is judged.

Rules and models do not see images, so that a candidate may be true of its image; only people can tell. Refinement goes
by learned probes, by default three rounds, since it is probes that the audit holds to the limit.

What comes of the 1,000 captioned scenes of toy_scenes with rules, the seven kinds and the default options, with each of
the seeds 0 to 4 (slow tests); in place of people, the scene told what is false of it:

    candidates                    6,529 to 6,546
    judged false and well formed  4,345 to 4,385    without the image: length rule 56 to 58 %, words 58 to 59 %
    kept by the refinement        3,418 to 3,524    without the image: no scorer above 51.0 %

Without any review 3,566 to 3,644 pairs are kept, and no scorer is above 51.0 % either, after up to 71.6 %. Of the kinds
that add words nothing useful is left, since each of their negatives is the longer caption.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.errors import DataError, UnknownNameError, VLAssayError
from ....metrics.common.storage import alone_in
from ....metrics.statistics.bootstrap import check_share
from ..data.candidates import CANDIDATES_FILE
from ..generate.asking import JOURNAL_FILE, count_answers
from ..generate.checks import NEGATIVE_KINDS, POSITIVE_KINDS
from ..generate.endpoint import KEY_VARIABLE
from ..generate.rules import LEXICONS, RULE_KINDS
from ..refine.ngrams import BLIND_SCORERS
from ..review.decisions import JOURNAL_FILE as DECISIONS_FILE
from .benchmark_stages import (
    AUDIT_FILE,
    CAPTIONS_FILE,
    IMAGES,
    KEPT_FILE,
    PAIRS_FILE,
    STAGES,
    do_audit,
    do_build,
    do_captions,
    do_generate,
    do_refine,
    do_review,
    find_failures,
    fingerprint,
    read_stage_captions,
)
from .folder import MADE_FILE, check_name
from .stages import STAGE_FILE, Stage, Waiting, Work

REPOSITORY = "repository"


@dataclass(frozen=True)
class Settings:
    """What a benchmark is made of, and how.

    Args:
        name: the benchmark's: small letters, digits and _.
        source: captions and their images, see `_sources.read_captions`; each caption needs the file of an image.
        work: the folder of the stages.
        reading: further arguments of `read_captions`: columns, split, limit, data_dir.
        kinds: kinds of hard negatives; by default all that a model makes.
        rules: the lexicon where candidates are made by rule; None where a model makes them.
        model, base_url, key_variable: for `_endpoint.open_model`.
        each: candidates of each kind for a caption, at most.
        asking: further arguments of `generate.generate` that do not change what comes of it: concurrency, per_minute.
        review: whether people judge the candidates.
        annotators: who has to judge all of them; by default anybody.
        scorers: blind scorers to refine on beside the probes, some of ``ngrams.BLIND_SCORERS``.
        learned: rounds of learned probes to refine on, at most.
        grid: cells for each scorer over [-1, 1].
        max_blind_accuracy: what the final audit may find, see `audit.failures`.
        seed: of everything that chance has a part in.
        into: the folder that takes the benchmark's; by default the work folder.
        licence: under which captions and images may be passed on, an identifier of the Hub.
        copy_images: whether the images go into the folder and the repository.
    """

    name: str
    source: str
    work: Path
    reading: Mapping[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = NEGATIVE_KINDS
    rules: str | None = None
    model: str | None = None
    base_url: str | None = None
    key_variable: str = KEY_VARIABLE
    each: int = 1
    asking: Mapping[str, Any] = field(default_factory=dict)
    review: bool = True
    annotators: tuple[str, ...] = ()
    scorers: tuple[str, ...] = ()
    learned: int = 3
    grid: int = 100
    max_blind_accuracy: float = 0.55
    seed: int = 0
    into: Path | None = None
    licence: str | None = None
    copy_images: bool = False

    @property
    def folder(self) -> Path:
        """The benchmark's folder."""
        return (self.into or self.work) / self.name

    @property
    def repository(self) -> Path:
        """The folder of the dataset repository."""
        return self.work / REPOSITORY


class Outcome(NamedTuple):
    """How far it went.

    Attributes:
        waiting: what people have to do before it goes on; "" for nothing.
        failures: why the final audit does not pass, a sentence each; then nothing was built.
    """

    waiting: str = ""
    failures: tuple[str, ...] = ()


class Progress(NamedTuple):
    """A stage; whether it is ``"done"``, ``"next"`` or ``"later"``; why it is next; and what came of it last."""

    stage: str
    state: str
    why: str
    said: str


def new_benchmark(settings: Settings, say: Callable[[str], None] = print) -> Outcome:
    """Make a benchmark, or go on with it.

    Args:
        settings: what of and how.
        say: is told of each stage when it begins and ends.

    Returns:
        How far it went; where nothing is waited for and nothing fails, the benchmark is in ``settings.folder`` and its
        repository in ``settings.repository``.

    Raises:
        DataError: a name that cannot be had, a source without captions or images, or nothing left of it.
        ModelError: the model answers nothing.
        StorageError: a folder cannot be written, or another run has it.
        VLAssayError: settings that contradict each other.
    """
    _check(settings)
    if (settings.rules is None) == (settings.model is None):
        raise VLAssayError("give --rules for candidates made by rule, or --model (with --base-url), and not both")
    with alone_in(settings.work):
        work = Work(settings.work, _stages(settings))
        for stage in work.stages:
            why = work.why(stage)
            if stage.name == "build" and (found := find_failures(settings)):
                return Outcome(failures=tuple(found))
            if why:
                say(f"{stage.name} …" + ("" if why == "new" else f" ({why})"))
                try:
                    work.do(stage)
                except Waiting as waiting:
                    return Outcome(waiting=str(waiting))
            result = work.result(stage) or {}
            say(f"{stage.name}: {result.get('said', '')}" + ("" if why else " (was done)"))
    return Outcome()


def progress(settings: Settings) -> list[Progress]:
    """How each stage stands; nothing is done."""
    _check(settings)
    work = Work(settings.work, _stages(settings))
    found, waits = [], False
    for stage in work.stages:
        why = work.why(stage)
        state = "later" if waits else "next" if why else "done"
        said = (work.result(stage) or {}).get("said", "")
        found.append(Progress(stage.name, state, "" if waits or why == "new" else why, said))
        waits = waits or bool(why)
    return found


def print_progress(settings: Settings) -> None:
    """Print a table of the stages and, where a model is to make candidates of captions that are read, what it takes."""
    from rich.console import Console
    from rich.table import Table

    from ..generate.command import print_plan
    from ..generate.generate import plan

    found = progress(settings)
    table = Table(title=f"{settings.name}, made in {settings.work}", title_justify="left")
    for column in ("stage", "state", "what came of it"):
        table.add_column(column)
    for each in found:
        table.add_row(each.stage, each.state + (f" ({each.why})" if each.why else ""), each.said)
    Console(highlight=False).print(table)
    states = {each.stage: each.state for each in found}
    if settings.rules is None and states["captions"] == "done" and states["generate"] != "done":
        captions = read_stage_captions(settings)
        estimate = plan(captions, settings.kinds, each=settings.each)
        print_plan(estimate, len(captions), count_answers(settings.work / "generate" / JOURNAL_FILE))


def _check(settings: Settings) -> None:
    if settings.name in (*STAGES, REPOSITORY):
        raise DataError(f"{settings.name!r} is the name of a folder that the work has; take another name")
    check_name(settings.name, settings.folder)
    check_share("max_blind_accuracy", settings.max_blind_accuracy)
    known = [kind for kind in RULE_KINDS if kind not in POSITIVE_KINDS] if settings.rules else list(NEGATIVE_KINDS)
    for kind in settings.kinds:
        if kind in POSITIVE_KINDS:
            raise VLAssayError(
                f"{kind} makes captions that are true, and this benchmark is of negatives; make those with "
                f"`vl-assay generate --kind {kind}`"
            )
        if kind not in known:
            raise UnknownNameError("kind of hard negatives", kind, known)
    if settings.rules is not None and settings.rules not in LEXICONS:
        raise UnknownNameError("lexicon", settings.rules, LEXICONS)
    for scorer in settings.scorers:
        if scorer not in BLIND_SCORERS:
            raise UnknownNameError("blind scorer", scorer, BLIND_SCORERS)
    if not settings.scorers and not settings.learned:
        raise VLAssayError("there is nothing to refine on; give --scorer, or --learned of 1 or more")
    if settings.copy_images and settings.licence is None:
        raise VLAssayError("--copy-images passes the images on: say with --licence under which licence, as cc0-1.0")


def _stages(settings: Settings) -> list[Stage]:
    """The stages; each reads what those before it wrote."""
    work, seed = settings.work, {"seed": settings.seed}
    captions, candidates = work / "captions" / CAPTIONS_FILE, work / "generate" / CANDIDATES_FILE
    kept, refined = work / "review" / KEPT_FILE, work / "refine" / PAIRS_FILE
    reading = {**settings.reading, "data_dir": str(settings.reading.get("data_dir") or "")}
    making = {"kinds": settings.kinds, "rules": settings.rules, "model": settings.model, "each": settings.each}
    reviewing = {"review": settings.review, "annotators": settings.annotators}
    refining = {name: getattr(settings, name) for name in ("kinds", "scorers", "learned", "grid", "seed")}
    publishing = {name: getattr(settings, name) for name in ("name", "source", "licence", "copy_images")}
    told = [work / name / STAGE_FILE for name in STAGES[:-1]]
    return [
        Stage(
            "captions",
            {"source": settings.source, "content": fingerprint(settings), **reading},
            (),
            partial(do_captions, settings),
        ),
        Stage("generate", making | seed, (captions,), partial(do_generate, settings), keeps=True),
        Stage(
            "review",
            reviewing,
            (candidates, work / "review" / DECISIONS_FILE),
            partial(do_review, settings),
            keeps=True,
        ),
        Stage("audit", {"name": settings.name, **seed}, (kept,), partial(do_audit, settings, kept)),
        Stage("refine", refining, (kept,), partial(do_refine, settings)),
        Stage("final-audit", {"name": settings.name, **seed}, (refined,), partial(do_audit, settings, refined)),
        Stage(
            "build",
            publishing | {"into": str(settings.into or "")},
            (refined, work / "audit" / AUDIT_FILE, work / "final-audit" / AUDIT_FILE, *told),
            partial(do_build, settings),
            writes=(settings.folder / MADE_FILE, settings.repository / "build.json"),
        ),
    ]


def make_benchmark(settings: Settings, *, only_plan: bool = False) -> bool:
    """The command: make a benchmark or go on with it, or only show how it stands; False where the audit fails."""
    if only_plan:
        print_progress(settings)
        return True
    outcome = new_benchmark(settings)
    for sentence in outcome.failures:
        print(f"fails: {sentence}", file=sys.stderr)
    if outcome.failures:
        print(
            "nothing was built now; leave out a kind with --kind, refine more with --learned or --scorer, give more "
            "captions, or allow more with --max-blind-accuracy",
            file=sys.stderr,
        )
    elif outcome.waiting:
        print(outcome.waiting)
    else:
        data_dir = "" if settings.copy_images else f" --data-dir {settings.work / 'captions' / IMAGES}"
        print(f"publish it with `vl-assay publish {settings.repository} OWNER/{settings.name}`")
        if settings.into:
            print(f"try it with `vl-assay run demo-clip {settings.name}{data_dir}`")
    return not outcome.failures
