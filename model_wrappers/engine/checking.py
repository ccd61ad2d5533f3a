"""The check of a new model: how it was loaded, what its scores depend on, and how fast it is.

A few pairs, questions or phrases of toy_scenes are scored together and one at a time. This finds a wrong padding
or an overflow, not a model that is merely weak.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...hub_datasets.core.examples import TaskData, load_examples
from ...metrics.common.errors import ModelError
from ...metrics.records.schema import DetectionRow, MatchingRow, Row, VQARow
from .distributed import Processes
from .embeddings import NEAR_TIE
from .families import load_model
from .loader import Loader
from .output import device_of
from .pairs import NEAR_TIE_OF_LOGITS
from .plan import ScoringPlan
from .progress import Progress
from .protocol import Detector, DualEncoder, LoadOptions, Model, ModelInfo, RemoteModel, TextScorer, abilities
from .results import Results, refuse_computed, score_plan
from .stages import Stages
from .store import Store

# By task type the tasks to score and their numbers of examples: groups show if scores depend on image and caption.
_SAMPLES = {
    "matching": (("toy_scenes/groups", 6), ("toy_scenes/itm", 13)),
    "detection": (("toy_scenes/detection", 15),),
    "vqa": (("toy_scenes/vqa", 25),),
}
_TOGETHER = 16
# Scores of boxes are probabilities, which are not re-checked.
_BOX_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Finding:
    """One property that was checked: its name, whether the model has it, and what was measured."""

    name: str
    is_passed: bool
    text: str


@dataclass(frozen=True)
class ModelCheck:
    """The result of a check.

    Args:
        info: the model's description: precision, image processor, settings.
        device: where it computes.
        task_types: the types of tasks that it can be evaluated on.
        load_seconds: the time of loading it.
        findings: in the order of the checks.
        seconds: of an item by stage, such as ``{"images": 0.002}``, in batches of 16.
        memory: peak memory in bytes, of the device or, on a CPU, of the process.
    """

    info: ModelInfo
    device: str
    task_types: tuple[str, ...]
    load_seconds: float
    findings: list[Finding]
    seconds: dict[str, float]
    memory: int

    @property
    def is_passed(self) -> bool:
        """Return whether nothing failed."""
        return all(finding.is_passed for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        failed = [finding.name for finding in self.findings if not finding.is_passed]
        if failed:
            return f"{self.info.name} fails: {', '.join(failed)}. Its scores would not be its own."
        return f"{self.info.name} is ready to be evaluated."


def check(model: str | Model, options: LoadOptions | None = None) -> ModelCheck:
    """Check a model on a few examples of toy_scenes.

    Args:
        model: a model's name (see `load_model`), or an object that implements a protocol.
        options: device, dtype, revision and settings. In half precision a score may depend on the
            batch, which is not checked.

    Raises:
        ModelError: it cannot be loaded, follows no protocol of the tasks of toy_scenes, or gives NaN.
    """
    start = time.perf_counter()
    loaded: Any = load_model(model, options or LoadOptions()) if isinstance(model, str) else model
    load_seconds = time.perf_counter() - start
    refuse_computed(loaded, "no model to check")
    if isinstance(loaded, RemoteModel):
        loaded.connect()
    tasks = _tasks(loaded)
    plan = ScoringPlan(tasks)
    alone, together = (_score(loaded, plan, size) for size in (1, _TOGETHER))
    rows = [[row for number in range(len(tasks)) for row in results.rows(number)] for _, results in (alone, together)]
    findings = [*_scores(loaded, rows[1])]
    if loaded.info.dtype not in ("bfloat16", "float16"):
        findings.append(_batches(loaded, rows))
    stages = together[0].seconds.items()
    seconds = {stage: spent["total"] / spent["items"] for stage, spent in stages if spent["items"]}
    facts = device_of(loaded), abilities(loaded), load_seconds
    return ModelCheck(loaded.info, *facts, findings, seconds, _peak_memory(loaded))


def _tasks(model: Model) -> list[TaskData]:
    able = abilities(model)
    if not able:
        raise ModelError(f"{model.info.name} follows none of the protocols in model_wrappers/engine/protocol.py")
    samples = [sample for task_type in able for sample in _SAMPLES.get(task_type, ())]
    if not samples:
        raise ModelError(f"{model.info.name} does {' and '.join(able)}, of which toy_scenes has no task to check")
    return [_sample(task, size) for reference, size in samples for task in load_examples(reference)]


def _sample(task: TaskData, size: int) -> TaskData:
    """Return a task with `size` evenly spaced examples."""
    indices = np.linspace(0, len(task.examples) - 1, size).round().astype(int)
    return replace(task, examples=[task.examples[index] for index in indices])


def _score(model: Model, plan: ScoringPlan, batch_size: int) -> tuple[Stages, Results]:
    """Score a plan in this process and store nothing; the stages have their times."""
    progress = Progress(show=False)
    stages = Stages(model.info.name, Store(None), Processes(), progress, Loader(), batch_size)
    return stages, score_plan(model, plan, stages)[0]


def _peak_memory(model: object) -> int:
    """Return the peak memory in bytes of a model's GPU, or else of this process; 0 on Windows, where it is unknown."""
    if str(getattr(model, "device", "")).startswith("cuda"):
        return sys.modules["torch"].cuda.max_memory_allocated(model.device)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        import resource
    except ModuleNotFoundError:
        return 0
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def _scores(model: Model, rows: Sequence[Row]) -> Iterator[Finding]:
    """Check that scores depend on the image and on the caption. NaN has been refused by the stage before."""
    pairs = [np.array(row.scores) for row in rows if isinstance(row, MatchingRow)]
    if pairs:
        groups = np.array([scores for scores in pairs if len(scores) > 1])
        by_image, by_caption = (np.ptp(groups, axis=axis).max() > 0 for axis in (1, 2))
        lacking = [
            f"ignore the {input_name}"
            for input_name, depends in (("image", by_image or isinstance(model, TextScorer)), ("caption", by_caption))
            if not depends
        ]
        sees = "the caption alone: a text-only model" if isinstance(model, TextScorer) else "image and caption"
        text = " and ".join(lacking) if lacking else f"depend on {sees}"
        count = sum(scores.size for scores in pairs)
        yield Finding("scores", not lacking, f"{count} pairs of toy_scenes, finite, {text}")
    answers = np.array([row.score for row in rows if isinstance(row, VQARow)])
    if len(answers):
        yes = int((answers > 0).sum())
        yield Finding("answers", bool(np.ptp(answers) > 0), f"{len(answers)} questions, {yes} answered with yes")
    phrases = [scores for row in rows if isinstance(row, DetectionRow) for scores in row.scores or ()]
    if phrases:
        counts = [len(scores) for scores in phrases]
        text = f"{sum(counts):,} boxes for {len(counts)} phrases, at most {max(counts)} for one"
        yield Finding("boxes", any(counts), text)


def _batches(model: Model, rows: Sequence[Sequence[Row]]) -> Finding:
    """Compare scores in batches of `_TOGETHER` with scores of single items; differences are relative above 1."""
    worst = 0.0
    for pair in zip(*rows, strict=True):
        a, b = (np.array(_numbers(row), np.float64) for row in pair)
        worst = max(worst, float((np.abs(a - b) / np.maximum(np.abs(a), 1)).max(initial=0)))
    cosines = isinstance(model, DualEncoder | TextScorer)
    allowed = _BOX_TOLERANCE if isinstance(model, Detector) else NEAR_TIE if cosines else NEAR_TIE_OF_LOGITS
    text = f"in batches of {_TOGETHER} and one at a time scores differ by {worst:.1g} at most; allowed: {allowed:.0e}"
    return Finding("batches", worst <= allowed, text)


def _numbers(row: Row) -> Any:
    """Return the scores of a row; of boxes the highest for each phrase."""
    if isinstance(row, DetectionRow):
        return [max(scores, default=0.0) for scores in row.scores or ()]
    assert isinstance(row, MatchingRow | VQARow)
    return row.score if isinstance(row, VQARow) else row.scores
