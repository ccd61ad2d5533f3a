"""Text-only baselines: the scores that the best of some rules without images reaches on a task."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ....metrics.common.errors import ScoresError, StorageError
from ....metrics.common.storage import read_sealed, write_sealed
from ....metrics.estimation.aggregate import aggregate
from ....metrics.evaluation import examples_of
from ....metrics.modules.discovery import get_spec
from ....metrics.records.schema import MatchingRow, Row, VQARow
from ...core.examples import Example, TaskData
from ...core.image_keys import MISSING
from ...core.repository import cache_folder

_RULES_FILE = Path(__file__).with_name("audit.py")
_BOTH_WAYS = (1.0, -1.0)


def blind_levels(task: TaskData) -> dict[str, dict[str, Any]]:
    """The scores of the best text-only rule for each metric of a task.

    The rules are those of the audit (formatting, length), each with both signs; for questions, always yes and always
    no. Ties count half, as a guess does. Where several choices must be right together (`MetricSpec.is_joint`), such as
    those of both images of a group, a guess that sees the text alone is the same for all: there a tie of captions is
    broken by their text, and images tie as they do in the metric. As the levels depend on the captions alone, they are
    computed once and kept in the cache.

    Args:
        task: its examples; those without an image are left out.

    Returns:
        For each metric, the scores of the rule with the best main score, and ``per_category`` with the same by
        category. Empty for detection and retrieval.
    """
    path = cache_folder() / "blind" / f"{_key(task)}.json"
    with suppress(OSError, ValueError):
        return json.loads(read_sealed(path))
    levels = _blind_levels(task)
    with suppress(StorageError):  # a cache only
        write_sealed(path, json.dumps(levels).encode())
    return levels


def _key(task: TaskData) -> str:
    """A hash of all that the levels depend on: examples, metrics with their settings, and the code."""
    digest = hashlib.sha256(repr((task.task.task_type, task.task.metrics)).encode())
    for example in task.examples:
        digest.update(repr([*vars(example).values()]).encode())
    sources = Path(__file__).parents[3]
    for code in sorted([Path(__file__), _RULES_FILE, *(sources / "metrics").rglob("*.py")]):
        digest.update(code.read_bytes())
    return digest.hexdigest()[:32]


def _blind_levels(task: TaskData) -> dict[str, dict[str, Any]]:
    examples = [example for example in task.examples if MISSING not in example.images]
    rules = _rules(task.task.task_type)
    if not examples or not rules:
        return {}
    rows = [[rule(example) for example in examples] for rule in rules]
    levels: dict[str, dict[str, Any]] = {}
    for metric, settings in task.task.metrics.items():
        spec = get_spec(metric)
        try:
            if spec.is_joint:
                untied = [list(map(_without_ties, row, examples)) for row in rows]
                results = [aggregate(examples_of(row, metric, settings)) for row in untied]
            else:
                results = [aggregate(examples_of(row, metric, settings, ties="half")) for row in rows]
        except ScoresError:  # not defined on these examples, such as on questions of one kind
            continue
        scores = spec.table_scores(list(results[0]))
        main = spec.main_score if spec.main_score in scores else scores[0]
        better = max if spec.is_higher_better(main) else min
        best = better(results, key=lambda result: result[main])
        names = [name for name in best if {name, name.removeprefix("macro_")} & set(scores)]
        levels[metric] = {name: best[name] for name in names if best[name] is not None}
        levels[metric]["per_category"] = {
            name: {score: scores_of[score] for score in scores if score in scores_of}
            for name, scores_of in best.get("per_category", {}).items()
        }
    return levels


def _rules(task_type: str) -> list[Callable[[Example], Row]]:
    """Return a function from an example to its row of predictions for each rule."""
    from .audit import RULES

    def match(rule: Callable[[str], float], sign: float, example: Example) -> Row:
        scores = [sign * rule(caption) for caption in example.captions]
        return MatchingRow(**example.facts(), correct=example.correct, scores=[scores for _ in example.images])

    def answer(sign: float, example: Example) -> Row:
        return VQARow(**example.facts(), question=example.captions[0], correct=example.answer, score=sign)

    if task_type == MatchingRow.task_type:
        return [partial(match, rule, sign) for _, rule in RULES.values() for sign in _BOTH_WAYS]
    return [partial(answer, sign) for sign in _BOTH_WAYS] if task_type == VQARow.task_type else []


def _without_ties(row: Row, example: Example) -> Row:
    """A row in which different captions have different scores, by their order in the alphabet where a rule ties."""
    if not isinstance(row, MatchingRow) or not row.scores:
        return row
    keys = list(zip(row.scores[0], example.captions, strict=True))
    order = sorted(set(keys))
    return replace(row, scores=[[float(order.index(key)) for key in keys] for _ in row.scores])
