"""A new benchmark of contextual phrase detection, made as TRICD was, in stages that wait for people.

    images → spot → rate → cross → check → boxes → export

Each stage but the first and the last has a page of `vl-assay review` (`review.proposals`, `review.crossing`,
`review.boxes`), and a folder in the work folder with its journal. The same command continues with the first stage that
is not finished, or whose settings or inputs changed. The result is a folder in the layout of TRICD's release, which the
benchmark `tricd` reads.

Without people (``review=False``) a source with boxes is needed, such as ``toy_scenes/detection``: its positive captions
are the proposals, all are kept, each is crossed with the nearest image that has a fitting caption, and the boxes are
the source's. Then nobody has seen whether a caption is false of the other image, and the result says so.

Source: TRICD (Kamath, Price et al., 2023), section 4.1.1, Figures 3, 9, 11 and 12.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ....metrics.common.storage import alone_in
from ..review.boxes import JOURNAL_FILE as BOXES_FILE
from ..review.crossing import CHECKED_FILE, CROSSED_FILE
from ..review.proposals import RATINGS_FILE, SPOTS_FILE
from .detection_steps import (
    IMAGES_FILE,
    KEPT_FILE,
    DetectionSettings,
    do_boxes,
    do_check,
    do_cross,
    do_export,
    do_images,
    do_rate,
    do_spot,
)
from .workflow import Result, Stage, print_progress, progress_of, run_stages

STAGES = ("images", "spot", "rate", "cross", "check", "boxes", "export")


def new_detection_benchmark(settings: DetectionSettings, say: Callable[[str], None] = print) -> str:
    """Make a detection benchmark, or continue one.

    Args:
        settings: the settings.
        say: receives a line when a stage begins and ends.

    Returns:
        What people have to do before it continues; "" when ``settings.result`` is there.

    Raises:
        DataError: the source has no images, or nothing is left at a stage; or, without people, no boxes.
        ModelError: the image model cannot be used.
        StorageError: a folder cannot be written, or another run uses it.
    """
    with alone_in(settings.work):
        return run_stages(detection_stages(settings), say)


def print_detection_progress(settings: DetectionSettings) -> None:
    """Print a table of the stages: done, next or later."""
    print_progress(progress_of(detection_stages(settings)), f"{settings.name}, made in {settings.work}")


def detection_stages(settings: DetectionSettings) -> list[Stage]:
    """The stages, in their order."""
    work, review = settings.work, {"review": settings.review}
    reading = {**settings.reading, "data_dir": str(settings.reading.get("data_dir") or "")}
    rating, crossing = {"raters": settings.raters}, {"image_model": settings.image_model}
    drawing = {"drawers": settings.drawers}
    kept = {name: work / name / KEPT_FILE for name in STAGES[1:-1]}
    shown = work / "images" / IMAGES_FILE
    stage = partial(Stage, work)

    def step(do: Callable[[DetectionSettings, Path], Result]) -> Callable[[Path], Result]:
        return partial(do, settings)

    return [
        stage("images", {"source": settings.source, "seed": settings.seed, **reading, **review}, (), step(do_images)),
        stage("spot", review, (shown, work / "spot" / SPOTS_FILE), step(do_spot), keeps=True),
        stage("rate", review | rating, (kept["spot"], work / "rate" / RATINGS_FILE), step(do_rate), keeps=True),
        stage("cross", review | crossing, (kept["rate"], work / "cross" / CROSSED_FILE), step(do_cross), keeps=True),
        stage("check", review, (kept["cross"], work / "check" / CHECKED_FILE), step(do_check), keeps=True),
        stage("boxes", review | drawing, (kept["check"], work / "boxes" / BOXES_FILE), step(do_boxes), keeps=True),
        stage("export", {"name": settings.name}, (kept["check"], kept["boxes"]), step(do_export)),
    ]
