"""Whether predictions are copies of stored or shipped ones: the same scores, their order or their mistakes.

A stored record has a hash and a sketch of the scores of each predictions file, so that a new submission is compared
with all others without reading their files.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.records.predictions import Predictions, read_predictions
from ..board.launch import SHIPPED, shipped_predictions, shipped_results
from ..board.names import is_same_name

# As many examples of a task are compared at the most, and as many are needed for a comparison.
SKETCHED, FEWEST_EXAMPLES, FEWEST_ERRORS = 1_000, 30, 20
# What models that were trained apart do not reach in the share of examples that is compared.
MOST_CORRELATION, MOST_COMMON_ERRORS, KEPT = 0.995, 0.95, 0.95
# The types of tasks in which a margin of 0 or less is an error.
_CHOICES = ("matching", "text_similarity", "retrieval")


class Source(NamedTuple):
    """Predictions that others may be copies of.

    Attributes:
        name: of the model, and where its predictions are.
        benchmark, task: what they are predictions of.
        scores: their `scores_hash`.
        sketch: their `sketch`, "" if not known.
    """

    name: str
    benchmark: str
    task: str
    scores: str
    sketch: str


def find_copied(described: Mapping[str, Any], sources: Iterable[Source]) -> Iterator[str]:
    """A sentence for each source that predictions are a copy of.

    Args:
        described: the ``benchmark``, ``task``, ``scores`` and ``sketch`` of the predictions.
        sources: what they are compared with.
    """
    label = f"{described['benchmark']}/{described['task']}"
    for source in sources:
        if (source.benchmark, source.task) != (described["benchmark"], described["task"]):
            continue
        if source.scores == described["scores"]:
            yield f"{label}: The scores are the same as those of {source.name}."
        elif found := _likeness(described["sketch"], source.sketch):
            yield f"{label}: The scores are close to those of {source.name}: {found}."


@cache
def shipped_sources(benchmark: str, task: str) -> dict[str, Source]:
    """The predictions of a task that ship with this package, by the names of their models."""
    paths, found = shipped_predictions(), {}
    for result in shipped_results():
        name = result.model["name"]
        if (result.benchmark["name"], result.benchmark["task"]) == (benchmark, task) and name not in found:
            predictions = read_predictions(paths[result.predictions["sha256"]])
            own = scores_hash(predictions), sketch(predictions)
            found[name] = Source(f"{name}, {SHIPPED}", benchmark, task, *own)
    return found


def copied_from_shipped(described: Mapping[str, Any], name: str) -> Iterator[str]:
    """As `find_copied`, for the models that ship with this package under another name than `name`."""
    shipped = shipped_sources(described["benchmark"], described["task"])
    return find_copied(described, [source for own, source in shipped.items() if not is_same_name(own, name)])


def scores_hash(predictions: Predictions) -> str:
    """SHA-256 of scores and boxes in single precision, sorted by id; independent of metadata and row order."""
    digest = hashlib.sha256()
    for row in sorted(predictions.rows, key=lambda row: row.id):
        said = [numbers(getattr(row, name, None)) for name in ("score", "scores", "boxes")]
        digest.update(f"{row.id}\n{row.is_scored}\n{[len(part) for part in said]}\n".encode())
        for part in said:
            # Adding 0 turns -0 into 0; what overflows single precision becomes infinity.
            with np.errstate(over="ignore"):
                digest.update((part + 0.0).astype(np.float32).tobytes())
    return digest.hexdigest()


def sketch(predictions: Predictions) -> str:
    """A short text that is alike for scores that are alike: the ranks of the margins of at most `SKETCHED` examples.

    Returns:
        The number of examples that are wrong, a colon, and in base64 for each example twice its rank among them, from
        2, as little-endian uint16; 0 for one without scores. The examples are evenly spaced in the order of their ids.
    """
    from scipy.stats import rankdata

    rows = sorted(predictions.rows, key=lambda row: row.id)
    rows = rows[:: -(-len(rows) // SKETCHED)]
    values = margins(rows)
    is_scored = ~np.isnan(values)
    ranks = np.zeros(len(values), "<u2")
    ranks[is_scored] = 2 * rankdata(values[is_scored])
    wrong = int((values[is_scored] <= 0).sum()) if predictions.task_type in _CHOICES else 0
    return f"{wrong}:{base64.b64encode(ranks.tobytes()).decode()}"


def margins(rows: Iterable[Any]) -> NDArray[np.float64]:
    """One number for each row, NaN for a row without scores.

    Returns:
        The least margin by which a correct caption beats the others; the score of an answer; for detection the mean of
        the best confidences of all phrases.
    """
    return np.array([_margin(row) if row.is_scored else np.nan for row in rows], np.float64)


def numbers(said: Any) -> NDArray[np.float64]:
    """All numbers in nested lists, in order."""
    if said is None:
        return np.empty(0)
    if isinstance(said, np.ndarray):
        return said.astype(np.float64)
    flat: Any = [said] if isinstance(said, int | float) else said
    while flat and isinstance(flat[0], list):
        flat = list(chain.from_iterable(flat))
    return np.array(flat, np.float64)


def _margin(row: Any) -> float:
    if row.task_type == "vqa":
        return row.score
    if row.task_type == "detection":
        return float(np.mean([max(found, default=0.0) for found in row.scores]))
    least = np.inf
    options = getattr(row, "options", None)
    lists = np.atleast_2d(row.scores if options is None else options[0])
    # The columns of the correct captions of each list of scores.
    all_correct = [row.correct] if row.task_type == "retrieval" else [[column] for column in row.correct]
    for scores, correct in zip(lists, all_correct, strict=True):
        scores = np.asarray(scores, np.float64)
        others = np.delete(scores, correct)
        if len(others):
            with np.errstate(over="ignore"):
                least = min(least, scores[correct].max() - others.max())
    return least


@lru_cache(maxsize=4096)
def _read_sketch(text: str) -> tuple[int, NDArray[np.float64]]:
    wrong, _, encoded = text.partition(":")
    try:
        return int(wrong), np.frombuffer(base64.b64decode(encoded), "<u2").astype(np.float64)
    except ValueError:  # none, or damaged
        return 0, np.empty(0)


def _likeness(first: str, second: str) -> str | None:
    """What two sketches share that models of their own do not, in words."""
    (wrong_1, ranks_1), (wrong_2, ranks_2) = _read_sketch(first), _read_sketch(second)
    if len(ranks_1) != len(ranks_2):
        return None
    both = (ranks_1 > 0) & (ranks_2 > 0)
    ranks_1, ranks_2 = ranks_1[both], ranks_2[both]
    if both.sum() < FEWEST_EXAMPLES:
        return None
    # Without those that differ most: noise in a few rows hides nothing.
    kept = np.argsort(np.abs(ranks_1 - ranks_2), kind="stable")[: int(KEPT * len(ranks_1))]
    if ranks_1[kept].std() and ranks_2[kept].std():
        correlation = np.corrcoef(ranks_1[kept], ranks_2[kept])[0, 1]
        if correlation > MOST_CORRELATION:
            return f"their rank correlation is {correlation:.4f}"
    errors_1, errors_2 = ranks_1 <= 2 * wrong_1, ranks_2 <= 2 * wrong_2
    common, either = (errors_1 & errors_2).sum(), (errors_1 | errors_2).sum()
    if FEWEST_ERRORS <= either < KEPT * len(ranks_1) and common > MOST_COMMON_ERRORS * either:
        return f"{common:,} of their {either:,} errors are the same"
    return None
