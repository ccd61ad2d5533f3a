"""The check of a new model: is it loaded as its authors meant, and what does a benchmark cost?

A few pairs, questions or phrases of toy_scenes are scored together and one at a time, in float32 and in bfloat16, and
captions are tokenized by the family and by the checkpoint's own tokenizer. This finds a wrong padding, a lost end token
or an overflow, not a model that is merely weak.
"""

from __future__ import annotations

import copy
import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...hub_datasets.core.benchmarks import get_benchmark, split_reference
from ...hub_datasets.core.examples import TaskData, load_examples
from ...hub_datasets.core.images import decode
from ...hub_datasets.core.pretrained import load_part
from ...hub_datasets.core.repository import card_counts
from ...metrics.common.errors import ModelError
from ...metrics.records.schema import DetectionRow, MatchingRow, Row, VQARow
from .embeddings import NEAR_TIE
from .estimate import changed_decisions, peak_memory, sample, score_alone
from .families import checkpoint_path, load_model
from .gpu_decoding import decode_on_gpu
from .pairs import NEAR_TIE_OF_LOGITS
from .plan import ScoringPlan
from .protocol import (
    CrossEncoder,
    Detector,
    DualEncoder,
    LoadOptions,
    Model,
    ModelInfo,
    RemoteModel,
    TextScorer,
    abilities,
)
from .results import refuse_computed
from .stages import Stages

PASSED, FAILED, NOTE, SKIPPED = "passed", "failed", "note", "skipped"
BENCHMARK = "sugarcrepe"
# By task type the tasks to score and their numbers of examples: groups show if scores depend on image and caption.
_SAMPLES = {
    "matching": (("toy_scenes/groups", 6), ("toy_scenes/itm", 13)),
    "detection": (("toy_scenes/detection", 15),),
    "vqa": (("toy_scenes/vqa", 25),),
}
_TOGETHER = 16
# The cost of encoding an image, in texts that are matched with it.
IMAGE_COST = 4
# Scores of boxes are probabilities, which are not re-checked.
_BOX_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Finding:
    """One thing that was checked: its name, its state (`PASSED`, `FAILED`, `NOTE` or `SKIPPED`), and what came out."""

    name: str
    state: str
    text: str


@dataclass(frozen=True)
class ModelCheck:
    """The result of a check.

    Args:
        info: its description.
        seconds: of loading it.
        findings: in the order of the checks.
        costs: by benchmark the seconds that it takes at most on this device, without loading; None where not known.
        memory: peak memory in bytes, of the device or, on a CPU, of the process.
    """

    info: ModelInfo
    seconds: float
    findings: list[Finding]
    costs: dict[str, float | None]
    memory: int

    @property
    def is_passed(self) -> bool:
        """Return whether nothing failed."""
        return all(finding.state != FAILED for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        failed = [finding.name for finding in self.findings if finding.state == FAILED]
        if failed:
            return f"{self.info.name} fails: {', '.join(failed)}. Its scores would not be its own."
        noted = [finding.name for finding in self.findings if finding.state == NOTE]
        return f"{self.info.name} is ready to be evaluated" + (f"; look at: {', '.join(noted)}." if noted else ".")


def check(
    model: str | Model, benchmarks: Sequence[str] = (BENCHMARK,), options: LoadOptions | None = None
) -> ModelCheck:
    """Check a model on a few examples of toy_scenes.

    Args:
        model: a model's name (see `load_model`), or an object that implements a protocol, of which neither the
            precision nor the tokens can be checked.
        benchmarks: benchmarks, or parts of them, whose cost is to be estimated from their cards.
        options: device, dtype, revision and settings. In another dtype than float32, for a model that is too large, a
            score may depend on the batch: this is a note and not a failure.

    Raises:
        ModelError: it cannot be loaded, follows no protocol, or gives NaN.
        UnknownNameError: no such benchmark.
    """
    for benchmark in benchmarks:
        get_benchmark(split_reference(benchmark)[0])
    options = options or LoadOptions()
    start = time.perf_counter()
    loaded: Any = load_model(model, options) if isinstance(model, str) else model
    seconds = time.perf_counter() - start
    refuse_computed(loaded, "no model to check")
    if isinstance(loaded, RemoteModel):
        loaded.connect()
    tasks = _tasks(loaded)
    plan = ScoringPlan(tasks)
    alone, together = (score_alone(loaded, plan, size) for size in (1, _TOGETHER))
    rows = [[row for number in range(len(tasks)) for row in results.rows(number)] for _, results in (alone, together)]
    findings = [*_scores(loaded, rows[1]), _batches(loaded, rows)]
    if isinstance(model, str):
        findings += [_precision(model, loaded, options, tasks), _tokens(model, loaded, plan)]
        findings += _decoding(loaded, tasks)
    costs = {benchmark: _cost(benchmark, loaded, together[0], plan) for benchmark in benchmarks}
    return ModelCheck(loaded.info, seconds, findings, costs, peak_memory(loaded))


def _tasks(model: Model) -> list[TaskData]:
    able = abilities(model)
    if not able:
        raise ModelError(f"{model.info.name} follows none of the protocols in model_wrappers/engine/protocol.py")
    samples_of_model = [
        task_sample for task_type, samples in _SAMPLES.items() if task_type in able for task_sample in samples
    ]
    return [task for reference, size in samples_of_model for task in sample(load_examples(reference), size)]


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
        text = f"{' and '.join(lacking)}" if lacking else f"depend on {sees}"
        yield Finding(
            "scores",
            FAILED if lacking else PASSED,
            f"{sum(scores.size for scores in pairs)} pairs of toy_scenes, finite, {text}",
        )
    answers = np.array([row.score for row in rows if isinstance(row, VQARow)])
    if len(answers):
        yes = int((answers > 0).sum())
        same = np.ptp(answers) == 0
        yield Finding("answers", FAILED if same else PASSED, f"{len(answers)} questions, {yes} answered with yes")
    phrases = [scores for row in rows if isinstance(row, DetectionRow) for scores in row.scores or ()]
    if phrases:
        counts = [len(scores) for scores in phrases]
        state = PASSED if any(counts) else FAILED
        yield Finding("boxes", state, f"{sum(counts):,} boxes for {len(counts)} phrases, at most {max(counts)} for one")


def _batches(model: Model, rows: Sequence[Sequence[Row]]) -> Finding:
    """Compare scores in batches of `_TOGETHER` with scores of single items; differences are relative above 1."""
    worst = 0.0
    for alone_row, batch_row in zip(*rows, strict=True):
        if isinstance(alone_row, DetectionRow) and isinstance(batch_row, DetectionRow):
            a, b = ([max(scores, default=0.0) for scores in row.scores or ()] for row in (alone_row, batch_row))
        elif isinstance(alone_row, MatchingRow | VQARow) and isinstance(batch_row, MatchingRow | VQARow):
            a, b = (row.score if isinstance(row, VQARow) else row.scores for row in (alone_row, batch_row))
        else:
            continue
        a, b = np.array(a, np.float64), np.array(b, np.float64)
        worst = max(worst, float((np.abs(a - b) / np.maximum(np.abs(a), 1)).max(initial=0)))
    cosines = isinstance(model, DualEncoder | TextScorer)
    allowed = _BOX_TOLERANCE if isinstance(model, Detector) else NEAR_TIE if cosines else NEAR_TIE_OF_LOGITS
    text = f"in batches of {_TOGETHER} and one at a time scores differ by {worst:.1g} at most; allowed: {allowed:.0e}"
    wrong = FAILED if model.info.dtype == "float32" else NOTE
    return Finding("batches", PASSED if worst <= allowed else wrong, text)


def _precision(name: str, model: Model, options: LoadOptions, tasks: list[TaskData]) -> Finding:
    if not hasattr(model, "module") or isinstance(model, Detector):
        return Finding("bfloat16", SKIPPED, "no model of torch, or one of boxes")
    if options.dtype != "float32":
        return Finding("bfloat16", SKIPPED, f"there is no float32 to compare with in {options.dtype}")
    try:
        half: Any = load_model(name, replace(options, dtype="bfloat16"))
        counts = changed_decisions(half, model, tasks, batch_size=_TOGETHER, size=max(len(t.examples) for t in tasks))
    except ModelError as error:
        return Finding("bfloat16", NOTE, str(error))
    changes, compared = counts["precision_changes"], counts["precision_sample"]
    text = f"{changes} of {compared} decisions differ from float32"
    return Finding("bfloat16", NOTE if changes else PASSED, text)


class _JpegPlan(ScoringPlan):
    """A plan whose images are JPEG files."""

    def image_bytes(self, number: int) -> bytes:
        """Return image number `number` as a JPEG file."""
        file = io.BytesIO()
        decode(super().image_bytes(number)).save(file, "JPEG", quality=90)
        return file.getvalue()


def _decoding(model: Model, tasks: list[TaskData]) -> Iterator[Finding]:
    """Count the decisions that change with ``--decode gpu``, where it can be tried."""
    if not str(getattr(model, "device", "")).startswith("cuda") or not find_spec("torchvision"):
        return
    decoding_model = copy.copy(model)
    try:
        decode_on_gpu(decoding_model)
    except ModelError as error:
        yield Finding("decode gpu", SKIPPED, str(error))
        return
    counts = changed_decisions(
        decoding_model, model, tasks, batch_size=_TOGETHER, size=len(tasks[0].examples), plan=_JpegPlan
    )
    changes, compared = counts["precision_changes"], counts["precision_sample"]
    state = NOTE if changes else PASSED
    yield Finding("decode gpu", state, f"{changes} of {compared} decisions change if images are decoded on the GPU")


def _tokens(name: str, model: Model, plan: ScoringPlan) -> Finding:
    """Compare the family's tokens with the tokens from the checkpoint's tokenizer."""
    captions = plan.captions.texts or plan.questions.texts
    captions = captions or [query.caption for asked in plan.queries.values() for query in asked]
    reference = _reference_tokenizer(name, model)
    if reference is None or not isinstance(model, DualEncoder | CrossEncoder | TextScorer):
        return Finding("tokens", SKIPPED, "the model does not take tokens of a tokenizer of transformers")
    ours = model.prepare_captions(captions)
    with_special, without_special = (
        reference(captions, add_special_tokens=added)["input_ids"] for added in (True, False)
    )
    strange = [
        index
        for index, ids in enumerate(ours)
        if list(ids) != list(with_special[index]) and not _is_within(without_special[index], list(ids))
    ]
    if strange:
        index = strange[0]
        text = f"{len(strange)} of {len(ours)} captions are not as by {type(reference).__name__}, the first: "
        return Finding(
            "tokens", NOTE, f"{text}{captions[index]!r}: {list(ours[index])} instead of {with_special[index]}"
        )
    same = sum(list(ids) == list(reference_ids) for ids, reference_ids in zip(ours, with_special, strict=True))
    where = "" if same == len(ours) else ", within the family's own prompt or with its own special tokens"
    text = f"{len(ours)} captions as by {type(reference).__name__}{where}; at most {model.max_tokens} are read of each"
    return Finding("tokens", PASSED, text)


def _reference_tokenizer(name: str, model: Model) -> Any:
    """Return the checkpoint's tokenizer, or None if `transformers` cannot load one."""
    if not hasattr(model, "module"):
        return None
    from transformers import AutoTokenizer

    family, _, checkpoint = name.partition(":")
    path = checkpoint_path(checkpoint if family == model.info.family else name)
    try:
        return load_part(AutoTokenizer, path, revision=model.info.revision)
    except (OSError, ValueError, KeyError):
        return None


def _is_within(needle: Sequence[int], ids: Sequence[int]) -> bool:
    size = len(needle)
    return any(list(ids[start : start + size]) == list(needle) for start in range(len(ids) - size + 1))


def _cost(reference: str, model: Model, measured: Stages, plan: ScoringPlan) -> float | None:
    """Return seconds for a benchmark by the counts on its card, which count a shared image once per configuration."""
    name, config_part = split_reference(reference)
    benchmark, counts = get_benchmark(name), card_counts(name)
    items: dict[str, float] = {}
    for task, configs in benchmark.select(name, config_part, abilities(model)):
        for config in configs:
            rows, images = counts.get((config, benchmark.split_for(task)), (None, None))
            if rows is None or images is None:
                return None
            stages = {"detection": {"boxes": rows}, "vqa": {"questions": rows}}.get(
                task.task_type, {"images": images, "captions": 2 * rows, "pairs": IMAGE_COST * images + 2 * rows}
            )
            items = {stage: items.get(stage, 0) + stages.get(stage, 0) for stage in {**items, **stages}}
    sampled = {
        "images": len(plan.captions.images()),
        "captions": len(plan.captions.texts),
        "pairs": IMAGE_COST * len(plan.captions.images()) + len(plan.captions),
        "boxes": len(plan.queries),
        "questions": len(plan.questions),
    }
    spent = {stage: measured.seconds[stage]["total"] for stage in items if stage in measured.seconds}
    return sum(seconds * items[stage] / sampled[stage] for stage, seconds in spent.items()) if spent else None
