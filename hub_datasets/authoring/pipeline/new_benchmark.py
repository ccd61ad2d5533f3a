"""A new benchmark, from captions and their images to a folder that can be published, in stages.

    captions → generate → review → audit → refine → final-audit → build

Each stage writes a folder of its name in the work folder, with ``stage.json``: its settings and result, and the hashes
of its inputs. The same command continues with the first stage that is not finished, or whose settings or inputs
changed. It stops at the review until people have judged every candidate.

Rules and language models do not see images, so a candidate may be true of its image; only people can tell. The
refinement uses learned probes, by default three rounds, since the audit limits the accuracy of such probes.

Results for the 1,000 captioned scenes of toy_scenes with rules, the seven kinds and default options, for the seeds 0 to
4 (slow tests), with the scene's exact truth instead of people:

    candidates                    6,529 to 6,546
    judged false and well formed  4,345 to 4,385    without the image: length rule 56 to 58 %, words 58 to 59 %
    kept by the refinement        3,418 to 3,524    without the image: no scorer above 51.0 %

Without a review 3,566 to 3,644 pairs are kept; the best scorer without the image falls from 71.6 % to 51.0 %. No pairs
remain of the kinds that add words, since each of their negatives is the longer caption.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ....metrics.common.errors import DataError, StorageError, VLAssayError, check_known
from ....metrics.common.storage import alone_in
from ....metrics.statistics.bootstrap import check_share
from ...core import benchmarks
from ..audit.audit import failures
from ..generate.checks import NEGATIVE_KINDS, POSITIVE_KINDS
from ..generate.prompt_sets import PROMPT_SETS
from ..generate.rules import RULE_KINDS
from ..refine.ngrams import BLIND_SCORERS
from . import workflow
from .folder import MADE_FILE, REPOSITORY, Settings
from .stages import AUDIT_FILE, STAGES, read_stage_captions, stages_of
from .workflow import Progress, progress_of, run_stages


class Outcome(NamedTuple):
    """The outcome of a run.

    Attributes:
        waiting: what people have to do before it continues; "" for nothing.
        failures: why the final audit fails, a sentence each; then nothing was built.
    """

    waiting: str = ""
    failures: tuple[str, ...] = ()


def new_benchmark(settings: Settings, say: Callable[[str], None] = print) -> Outcome:
    """Make a benchmark, or continue one.

    Args:
        settings: the settings.
        say: receives a line when a stage begins and ends.

    Returns:
        The outcome; if nothing is waited for and nothing fails, the benchmark is in ``settings.folder`` and its
        repository in ``settings.repository``.

    Raises:
        DataError: an invalid name, a source without captions or images, or nothing left of it.
        ModelError: the model answers nothing.
        StorageError: a folder cannot be written, or another run uses it.
        VLAssayError: settings that contradict each other.
    """
    _check(settings)
    if settings.rules == (settings.model is not None):
        raise VLAssayError("give --rules for candidates made by rule, or --model (with --base-url), and not both")
    with alone_in(settings.work):
        *before, build = stages_of(settings)
        if waiting := run_stages(before, say):
            return Outcome(waiting=waiting)
        audit = json.loads((settings.work / "final-audit" / AUDIT_FILE).read_text(encoding="utf-8"))
        if found := failures(audit, settings.max_blind_accuracy):
            return Outcome(failures=tuple(found))
        run_stages([build], say)
    return Outcome()


def progress(settings: Settings) -> list[Progress]:
    """The progress of each stage; nothing is run."""
    _check(settings)
    return progress_of(stages_of(settings))


def print_progress(settings: Settings) -> None:
    """Print a table of the stages and, before a model is asked, an estimate of the requests."""
    from ..generate.generate import plan
    from ..generate.report import print_plan

    found = progress(settings)
    workflow.print_progress(found, f"{settings.name}, made in {settings.work}")
    states = {each.stage: each.state for each in found}
    if not settings.rules and states["captions"] == "done" and states["generate"] != "done":
        captions = read_stage_captions(settings)
        print_plan(
            plan(captions, settings.kinds, each=settings.each, prompts=settings.prompts),
            len(captions),
            settings.work / "generate",
        )


def _check(settings: Settings) -> None:
    if settings.name in (*STAGES, REPOSITORY):
        raise DataError(f"{settings.name!r} is a folder of the stages; choose another name")
    name, folder = settings.name, settings.folder
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name == "authoring":
        raise DataError(f"{name!r} cannot name a benchmark; use small letters, digits and _, as in my_photos")
    ours = Path(benchmarks.__file__).parents[1] / name
    if name in benchmarks.benchmark_names() and not (ours / MADE_FILE).exists():
        raise DataError(f"there is a benchmark {name} already; choose another name")
    if folder.exists() and not (folder / MADE_FILE).is_file():
        raise StorageError(f"{folder} exists and was not written by new-benchmark; choose another name or folder")
    check_share("max_blind_accuracy", settings.max_blind_accuracy)
    known = [kind for kind in RULE_KINDS if kind not in POSITIVE_KINDS] if settings.rules else list(NEGATIVE_KINDS)
    for kind in settings.kinds:
        if kind in POSITIVE_KINDS:
            raise VLAssayError(
                f"{kind} makes true captions, and a new benchmark has negatives only; make true captions with "
                f"`vl-assay generate --kind {kind}`"
            )
    check_known("kind of hard negatives", settings.kinds, known)
    check_known("set of prompts", [settings.prompts], PROMPT_SETS)
    check_known("blind scorer", settings.scorers, BLIND_SCORERS)
    if not settings.scorers and not settings.learned:
        raise VLAssayError("nothing to refine on; give --scorer, or --learned of at least 1")
    if settings.copy_images and settings.licence is None:
        raise VLAssayError("--copy-images passes the images on: give their licence with --licence, such as cc0-1.0")
