"""Detection of copies: predictions whose scores, ranks or mistakes match stored or shipped predictions.

A stored record has a hash and a sketch of the scores of each predictions file, so a new submission can be compared with
all others without reading their files.
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

# As many examples are needed for a comparison. Larger tasks than any here are compared on as many as a sketch may have.
FEWEST_EXAMPLES, FEWEST_ERRORS, _MOST_EXAMPLES = 30, 20, 1 << 16
# The rank correlation on the most similar `_KEPT` of the examples, and the agreement beyond chance on what is right,
# that models trained apart do not reach: in simulations, if their margins correlate by less than about 0.95. Noise of a
# quarter of the margins' standard deviation, or other scores for a quarter of the examples, leave a copy above.
MOST_CORRELATION, MOST_AGREEMENT = 0.99, 0.85
_KEPT, _STEPS = 0.7, 4
# Of fewer different values, evenly used, ranks say nothing.
_FEWEST_VALUES = 8
# The types of tasks in which a margin of 0 or less is an error.
_CHOICES = ("matching", "text_similarity", "retrieval")


class CopySource(NamedTuple):
    """Stored or shipped predictions that a submission may be a copy of.

    Attributes:
        name: the model, and the location of its predictions.
        benchmark, task: the task of the predictions.
        scores: their `scores_hash`.
        sketch: their `sketch`, "" if not known.
    """

    name: str
    benchmark: str
    task: str
    scores: str
    sketch: str


def find_copied(described: Mapping[str, Any], name: str, stored: Iterable[CopySource]) -> Iterator[str]:
    """Yield a sentence for each source that the predictions of a model appear to be copied from.

    Args:
        described: the ``benchmark``, ``task``, ``scores`` and ``sketch`` of the predictions.
        name: the model's name; shipped predictions of this name are its own.
        stored: the stored predictions to compare with, in addition to the shipped ones.
    """
    benchmark, task = described["benchmark"], described["task"]
    shipped = shipped_sources(benchmark, task).items()
    for source in [*(source for model, source in shipped if not is_same_name(model, name)), *stored]:
        if (source.benchmark, source.task) != (benchmark, task):
            continue
        if source.scores == described["scores"]:
            yield f"{benchmark}/{task}: The scores are the same as those of {source.name}."
        elif similarity := _likeness(described["sketch"], source.sketch):
            yield f"{benchmark}/{task}: The scores are close to those of {source.name}: {similarity}."


@cache
def shipped_sources(benchmark: str, task: str) -> dict[str, CopySource]:
    """Return the shipped predictions of a task, with the names of their models."""
    paths, sources = shipped_predictions(), {}
    for result in shipped_results():
        name = result.model["name"]
        if (result.benchmark["name"], result.benchmark["task"]) == (benchmark, task) and name not in sources:
            predictions = read_predictions(paths[result.predictions["sha256"]])
            hash_and_sketch = scores_hash(predictions), sketch(predictions)
            sources[name] = CopySource(f"{name}, {SHIPPED}", benchmark, task, *hash_and_sketch)
    return sources


def scores_hash(predictions: Predictions) -> str:
    """Return the SHA-256 of scores and boxes in single precision, sorted by id, without metadata and row order."""
    digest = hashlib.sha256()
    for row in sorted(predictions.rows, key=lambda row: row.id):
        arrays = [numbers(getattr(row, name, None)) for name in ("score", "scores", "boxes")]
        digest.update(f"{row.id}\n{row.is_scored}\n{[len(array) for array in arrays]}\n".encode())
        for array in arrays:
            # Adding 0 turns -0 into 0; what overflows single precision becomes infinity.
            with np.errstate(over="ignore"):
                digest.update((array + 0.0).astype(np.float32).tobytes())
    return digest.hexdigest()


def sketch(predictions: Predictions) -> str:
    """Return a short text that is similar for similar scores: the rank of each example's margin, in 255 steps.

    Returns:
        The highest step of an example that is wrong, a colon, and in base64 a byte for each example in the order of
        the ids: its step, from 1, and 0 for an example without scores.
    """
    from scipy.stats import rankdata

    rows = sorted(predictions.rows, key=lambda row: row.id)
    values = margins(rows[:: -(-len(rows) // _MOST_EXAMPLES)])
    steps, first = np.zeros(len(values), np.uint8), 0
    is_wrong = (values <= 0) & (predictions.task_type in _CHOICES)
    highest = round(255 * is_wrong.sum() / max((~np.isnan(values)).sum(), 1))
    highest = min(max(highest, int(is_wrong.any())), 255 - int((values > 0).any()))
    for is_in_part, last in ((is_wrong, highest), (~is_wrong & ~np.isnan(values), 255)):
        ranks = (rankdata(values[is_in_part]) - 0.5) / max(is_in_part.sum(), 1)
        steps[is_in_part] = first + 1 + np.floor(ranks * (last - first)).astype(int)
        first = last
    return f"{highest}:{base64.b64encode(steps.tobytes()).decode()}"


def margins(rows: Iterable[Any]) -> NDArray[np.float64]:
    """Return one number for each row; NaN for a row without scores.

    Returns:
        The least margin by which a correct caption beats the others; the score of an answer; for detection the mean of
        the best confidences of all phrases.
    """
    return np.array([_margin(row) if row.is_scored else np.nan for row in rows], np.float64)


def numbers(said: Any) -> NDArray[np.float64]:
    """Return all numbers in nested lists, in order."""
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
        return float(np.mean([max(confidences, default=0.0) for confidences in row.scores]))
    least = np.inf
    options = getattr(row, "options", None)
    lists = np.atleast_2d(row.scores if options is None else options[0])
    # The columns of the correct captions of each list of scores.
    all_correct = [row.correct] if row.task_type == "retrieval" else [[column] for column in row.correct]
    for scores, correct in zip(lists, all_correct, strict=True):
        scores = np.asarray(scores, np.float64)
        negatives = np.delete(scores, correct)
        if len(negatives):
            with np.errstate(over="ignore"):
                least = min(least, scores[correct].max() - negatives.max())
    return least


@lru_cache(maxsize=1024)
def _read_sketch(text: str) -> tuple[int, NDArray[np.uint8]]:
    highest, _, encoded = text.partition(":")
    try:
        return int(highest), np.frombuffer(base64.b64decode(encoded), np.uint8)
    except ValueError:  # none, or damaged
        return 0, np.empty(0, np.uint8)


def _likeness(first: str, second: str) -> str | None:
    """Explain, for the moderator, why two sketches look like copies; None if they do not."""
    (highest_1, steps_1), (highest_2, steps_2) = _read_sketch(first), _read_sketch(second)
    if len(steps_1) != len(steps_2):
        return None
    both = (steps_1 > 0) & (steps_2 > 0)
    steps_1, steps_2 = steps_1[both], steps_2[both]
    if len(steps_1) < FEWEST_EXAMPLES:
        return None
    correlation = _trimmed_correlation(steps_1, steps_2)
    if correlation > MOST_CORRELATION:
        return f"their rank correlation is {correlation:.4f} on the most similar {100 * _KEPT:.0f} % of the examples"
    errors_1, errors_2 = steps_1 <= highest_1, steps_2 <= highest_2
    common, either = (errors_1 & errors_2).sum(), (errors_1 | errors_2).sum()
    if not FEWEST_ERRORS <= either <= len(steps_1) - FEWEST_ERRORS:
        return None
    # Cohen's kappa; by chance it is higher where there are few examples.
    by_chance = 1 - (errors_1.mean() + errors_2.mean()) + 2 * errors_1.mean() * errors_2.mean()
    agreement = (np.mean(errors_1 == errors_2) - by_chance) / (1 - by_chance)
    if agreement > MOST_AGREEMENT + len(steps_1) ** -0.5:
        return f"{common:,} of their {either:,} errors are the same"
    return None


def _trimmed_correlation(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Return the rank correlation without the examples that differ most, ranked again; 0 if most are ties.

    Changing the scores of some examples moves the ranks of all, so the examples to leave out are found in several
    steps.
    """
    # Models that answer yes or no differ in no rank once those that differ are left out.
    for steps in (first, second):
        if ((np.bincount(steps) / len(steps)) ** 2).sum() > 1 / _FEWEST_VALUES:
            return 0.0
    most_similar = np.arange(len(first))
    for _ in range(_STEPS):
        ranks = _ranks(first[most_similar])[first] - _ranks(second[most_similar])[second]
        most_similar = np.argsort(np.abs(ranks), kind="stable")[: int(_KEPT * len(first))]
    first, second = first[most_similar], second[most_similar]
    return float(np.corrcoef(_ranks(first)[first], _ranks(second)[second])[0, 1])


def _ranks(steps: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the mean rank of each of the 256 steps in a sample."""
    counts = np.bincount(steps, minlength=256)
    return np.cumsum(counts) - counts / 2
