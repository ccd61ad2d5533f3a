"""Blind levels: a task's scores for the best scorer that sees only the captions.

The audit's scorers are used: rules of length and form, and probes that are trained on other images. The probes need
scikit-learn and up to a minute, so ``vl-assay audit`` calls `measure_levels`, and a run only looks the levels up
(`blind_levels`). An audited benchmark has its levels in its folder, next to its card.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ....metrics.common.errors import ScoresError, StorageError, UnknownNameError
from ....metrics.common.storage import read_sealed, write_sealed, write_text
from ....metrics.estimation.aggregate import aggregate
from ....metrics.modules.discovery import get_spec
from ....metrics.records.schema import MatchingRow, Row, VQARow
from ....metrics.results.compute import examples_of
from ...core.benchmarks import benchmark_folder
from ...core.examples import Example, TaskData, load_examples
from ...core.image_keys import MISSING
from ...core.repository import cache_folder
from ..data.pairs import has_pairs, pair_places, task_pairs

SCHEMA = "vl-assay/blind-levels"
VERSION = 1
BLIND_FILE = "blind.json"
EXACT, PROBE, RULE = "exact", "probe", "rule"
_CONFIDENCE = 0.95
_RESAMPLES = 2_000

# The scores of each caption of each example by one scorer.
_Captions = Mapping[str, Sequence[float]]


def blind_levels(data: TaskData) -> dict[str, dict[str, Any]]:
    """Look up the blind levels of a task, or measure them with rules only if the task was not audited.

    Args:
        data: the task's examples. If they are only the first ones of an audited task (`limit`), the levels are still
            the full task's.

    Returns:
        As `measure_levels`. Levels measured with rules only are lower bounds: a better blind scorer may exist.
    """
    if known := _known(data):
        return known
    path = cache_folder() / "blind" / f"{_key(data)}.json"
    with suppress(OSError, ValueError):
        return json.loads(read_sealed(path))
    levels = measure_levels(data, probes=False)
    _keep(data, levels)
    return levels


def _known(data: TaskData) -> dict[str, Any] | None:
    """Return the stored levels of these examples, of a set that contains them, or of their category."""
    shipped = shipped_levels(data.benchmark).get(data.task.name)
    if shipped is None or shipped["key"] == _key(data):
        return shipped and shipped["metrics"]
    if shipped["options"] != data.options:
        return None
    categories = {example.category for example in data.examples}
    if len(categories) == 1 and data.configs != data.task.configs:
        [category] = categories
        return {
            metric: {"kind": levels["kind"], **cell, "per_category": {category: cell}}
            for metric, levels in shipped["metrics"].items()
            if (cell := levels["per_category"].get(category))
        }
    return shipped["metrics"] if data.is_partial and data.configs == data.task.configs else None


def known_levels(benchmark: str, task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored levels of a task, by metric; empty if it was not audited with these options."""
    shipped = shipped_levels(benchmark).get(task)
    return shipped["metrics"] if shipped and shipped["options"] == options else {}


def shipped_levels(benchmark: str) -> dict[str, Any]:
    """Return the levels in a benchmark's folder by task, each with its `options`, `key` and `metrics`."""
    try:
        return _read(benchmark_folder(benchmark) / BLIND_FILE)
    except UnknownNameError:  # predictions of a benchmark that is not here
        return {}


@cache
def _read(path: Path) -> dict[str, Any]:
    """Read the levels in a file, by task; empty if the file is missing."""
    return json.loads(path.read_text("utf-8"))["tasks"] if path.is_file() else {}


def keep_benchmark(reference: str, card: Path | None = None, *, seed: int = 0, **options: Any) -> None:
    """Measure the levels of a benchmark, or of one of its tasks, and store them for `blind_levels`.

    Args:
        reference: such as ``"sugarcrepe"`` or ``"toy_scenes/itm"``.
        card: a README.md; the levels are also written to `BLIND_FILE` in the same folder.
        seed: of folds and resamples.
        options: further arguments of ``load_examples``.

    Raises:
        DataError: the texts are not available, or there are too few images for probes.
        StorageError: the file cannot be written.
    """
    for data in load_examples(reference, needs_images=False, **options):
        levels = measure_levels(data, seed=seed)
        _keep(data, levels)
        if card is not None and any(level["kind"] == PROBE for level in levels.values()):
            path = card.with_name(BLIND_FILE)
            task = {"key": _key(data), "options": data.options, "metrics": levels}
            tasks = dict(sorted({**_read(path), data.task.name: task}.items()))
            content = {"schema": SCHEMA, "version": VERSION, "tasks": tasks}
            write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
            _read.cache_clear()


def _keep(data: TaskData, levels: Mapping[str, Any]) -> None:
    """Keep the levels of a task in the cache, where `blind_levels` finds them."""
    with suppress(StorageError):  # a cache only
        write_sealed(cache_folder() / "blind" / f"{_key(data)}.json", json.dumps(levels).encode())


def measure_levels(data: TaskData, *, probes: bool = True, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Measure the best text-only scorer for each metric of a task.

    Every scorer gives each caption a score, and the metric evaluates these scores like a model's: among k captions,
    over groups, with its usual averages. Ties count half, like a guess. If several choices must be right together
    (`MetricSpec.is_joint`), such as the choices for both images of a group, a scorer without the image makes the same
    choice for each image. Ties are then broken by the text of the caption, and the levels are exact.

    Args:
        data: the task's examples; examples without an image are left out.
        probes: whether to train probes, if a row has one image with true and false captions.
        seed: of folds and resamples.

    Returns:
        For each metric the scores of the scorer with the best main score, which ``by`` names, each with its 95 %
        interval as ``<score>_interval`` (widened for probes, since folds share training data); ``per_category`` has the
        same for the best scorer of each category. ``kind`` is ``"exact"`` if no scorer without the image can do better
        or worse, else ``"probe"`` or ``"rule"``: another scorer may do better. Empty for detection and retrieval.

    Raises:
        DataError: probes of fewer than five independent images.
    """
    examples = [example for example in data.examples if MISSING not in example.images]
    if not examples or data.task.task_type not in (MatchingRow.task_type, VQARow.task_type):
        return {}
    rows = dict(_rule_rows(examples, data.task.task_type))
    with_probes = probes and has_pairs(data.task)
    if with_probes:
        rows |= _probe_rows(replace(data, examples=examples), seed)
    asks_one_image = data.task.task_type == VQARow.task_type or has_pairs(data.task)
    kind = PROBE if with_probes else RULE if asks_one_image else EXACT
    levels = {}
    for metric, settings in data.task.metrics.items():
        try:
            results = {
                name: _aggregate(scorer_rows, examples, metric, settings, seed) for name, scorer_rows in rows.items()
            }
        except ScoresError:  # not defined on these examples, such as on questions of one kind
            continue
        levels[metric] = {"kind": kind, **_best(metric, results)}
    return levels


def _aggregate(
    rows: Sequence[Row], examples: Sequence[Example], metric: str, settings: Any, seed: int
) -> dict[str, Any]:
    ties = "half"
    if get_spec(metric).is_joint:
        rows, ties = [_untied(row, example) for row, example in zip(rows, examples, strict=True)], None
    return aggregate(
        examples_of(rows, metric, settings, ties=ties), confidence=_CONFIDENCE, resamples=_RESAMPLES, seed=seed
    )


def _best(metric: str, results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the scores of the scorer with the best main score, over all examples and in each category."""
    from .probes import widened

    spec = get_spec(metric)
    scores = spec.table_scores(list(next(iter(results.values()))))
    main = spec.main_score if spec.main_score in scores else scores[0]
    better = max if spec.is_higher_better(main) else min

    def cell(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        known = {scorer: scores_of[main] for scorer, scores_of in parts.items() if scores_of.get(main) is not None}
        if not known:
            return {}
        scorer = better(known, key=known.__getitem__)
        best_cell: dict[str, Any] = {"by": scorer}
        for name, value in parts[scorer].items():
            if {name, name.removeprefix("macro_")} & {*scores} and value is not None:
                bounds = parts[scorer].get(f"{name}_interval")
                if bounds is not None and scorer.startswith("probe"):
                    bounds = widened(value, bounds)
                best_cell |= {name: value, f"{name}_interval": bounds}
        return best_cell

    categories = next(iter(results.values())).get("per_category", {})
    parts = {name: {scorer: result["per_category"][name] for scorer, result in results.items()} for name in categories}
    return {**cell(results), "per_category": {name: cell(by_scorer) for name, by_scorer in parts.items()}}


def _rule_rows(examples: Sequence[Example], task_type: str) -> Iterator[tuple[str, list[Row]]]:
    """Return the rows of each rule, in both directions; for questions, of the answers yes and no."""
    from .audit import RULES

    for sign, direction in ((1.0, ""), (-1.0, ", reversed")):
        if task_type == VQARow.task_type:
            answers: list[Row] = [
                VQARow(**example.facts(), question=example.captions[0], correct=example.answer, score=sign)
                for example in examples
            ]
            yield f"rule: always {'yes' if sign > 0 else 'no'}", answers
            continue
        for name, (_, rule) in RULES.items():
            scores = {example.id: [sign * rule(caption) for caption in example.captions] for example in examples}
            yield f"rule: {name.removesuffix('_rule')}{direction}", _rows(examples, scores)


def _probe_rows(data: TaskData, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each probe, trained on the pairs of other images.

    All pairs of an example are held out in the same fold, so that a caption has the same score in each.
    """
    from .probes import probe_scores

    pairs = tuple(task_pairs(data))
    row_of_pair = {pair.id: row for row, pair in enumerate(pairs)}
    for name, scores, _ in probe_scores(pairs, seed):
        captions: dict[str, list[float]] = {}
        for example in data.examples:
            values = captions[example.id] = [np.nan] * len(example.captions)
            for id, right, wrong in pair_places(data.task, example.id, len(example.captions), prefixed=False):
                values[right], values[wrong] = map(float, scores[row_of_pair[id]])
        yield f"probe: {name}", _rows(data.examples, captions)


def _rows(examples: Sequence[Example], scores: _Captions) -> list[Row]:
    return [
        MatchingRow(**example.facts(), correct=example.correct, scores=[[*scores[example.id]] for _ in example.images])
        for example in examples
    ]


def _untied(row: Row, example: Example) -> Row:
    """Return a row in which different captions have different scores: ties of a rule are broken alphabetically."""
    if not isinstance(row, MatchingRow) or not row.scores:
        return row
    keys = list(zip(row.scores[0], example.captions, strict=True))
    order = sorted(set(keys))
    return replace(row, scores=[[float(order.index(key)) for key in keys] for _ in row.scores])


def _key(data: TaskData) -> str:
    """Return a hash of everything that the levels depend on: captions, their categories and groups, and the metrics."""
    digest = hashlib.sha256(repr((VERSION, data.task.task_type, data.task.metrics)).encode())
    for each in sorted(data.examples, key=lambda example: example.id):
        digest.update(repr((each.id, each.category, each.tags, each.captions, each.cluster, each.answer)).encode())
    return digest.hexdigest()[:32]
