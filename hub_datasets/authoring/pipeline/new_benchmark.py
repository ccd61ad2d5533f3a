"""A new benchmark, from images with or without captions to a folder that can be published, in stages.

Each stage writes a folder of its name in the work folder, with ``stage.json``: its settings and result, and the hashes
of its inputs. The same command continues with the first stage that is not finished, or whose settings or inputs
changed. It stops where decisions of people are missing.
"""

from __future__ import annotations

from collections.abc import Callable

from ....metrics.common.documents import print_tables, simple_table
from ....metrics.common.errors import VLAssayError
from ....metrics.common.storage import alone_in
from .captions import STAGES, caption_stages, stage_captions
from .detection import detection_stages
from .settings import Settings, check_settings
from .stages import Stage, run_stages, states_of


def new_benchmark(settings: Settings, say: Callable[[str], None] = print) -> None:
    """Make a benchmark, or continue one, and write it and its repository to ``settings.folder``.

    Args:
        settings: the settings.
        say: receives a line when a stage begins and ends.

    Raises:
        Waiting: people have to decide before it continues.
        AuditFailed: the final audit exceeds its limit, and nothing was built.
        DataError: an invalid name, a source without captions or images, or no pairs left after a stage.
        ModelError: the model answers nothing.
        StorageError: a folder cannot be written, or another run uses it.
        VLAssayError: settings that contradict each other.
    """
    stages = stages_of(settings)
    if settings.given and (settings.rules or settings.model):
        raise VLAssayError(f"{settings.source} has pairs already; leave out --rules and --model")
    if not (settings.detection or settings.given) and settings.rules == (settings.model is not None):
        raise VLAssayError("give --rules for candidates made by rule, or --model (with --base-url), and not both")
    with alone_in(settings.work):
        run_stages(stages, say)


def stages_of(settings: Settings) -> list[Stage]:
    """Return the stages; raises as `new_benchmark` does for invalid settings."""
    if settings.detection:
        return detection_stages(settings)
    check_settings(settings, STAGES)
    return caption_stages(settings)


def print_progress(settings: Settings) -> None:
    """Print a table of the stages and, before a model is asked, an estimate of the requests; nothing is run."""
    from ..generate.generate import plan, print_plan

    stages = stages_of(settings)
    states = states_of(stages)
    title = f"{settings.name}, made in {settings.work}"
    print_tables([simple_table(("stage", "state", "result"), states, title=title)])
    is_next = any(name == "generate" and state.startswith("next") for name, state, _ in states)
    if is_next and not (settings.rules or settings.given):
        captions = stage_captions(settings)
        estimate = plan(captions, settings.kinds, each=settings.each)
        print_plan(estimate, len(captions), settings.work / "generate")
