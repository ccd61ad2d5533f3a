"""Audit: the accuracy of rules, learned probes and blind models in finding a pair's true caption without the image."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....metrics.common.errors import PredictionsError, VLAssayError
from ....metrics.common.wording import words
from ....metrics.estimation.bootstrap import check_share
from ....metrics.functional.symmetry import artifact_gap
from ....metrics.records.predictions import read_predictions
from ....metrics.records.schema import MatchingRow
from ...core.benchmarks import get_task
from ..data.pairs import Pair, has_pairs, pair_places
from ..text.normalising import normalise
from ..text.tagging import tagger_name
from .probes import FOLDS, PROBES, group_pairs, probe_scores, widened

SCHEMA = "vl-assay/audit"
VERSION = 1
# More resamples would take longer than the probes, for a tenth of a point in the ends of intervals.
_RESAMPLES = 2_000

Scores = NDArray[np.float64]


def _looks_typed(caption: str) -> float:
    """Return 2 for irregular white space, 1 for a missing final full stop, their sum for both."""
    return 2.0 * (caption != " ".join(caption.split())) + (not caption.strip().endswith("."))


# Rules are not fitted to the data. Each gives a caption a score, higher for the one it takes to be true.
RULES: dict[str, tuple[str, Callable[[str], float]]] = {
    "formatting_rule": (
        "irregular white space (at the ends, or more than a single blank inside) is right, else no final full stop is",
        _looks_typed,
    ),
    "length_rule": (
        "the shorter caption is right, in characters without outer white space",
        lambda caption: -float(len(caption.strip())),
    ),
}

_IDS_SHOWN = 5
# Kinds of pairs that cannot measure what they should.
MEANINGS = {
    "identical": "caption and negative are the same text: nothing can be right",
    "identical_normalised": "they are the same after normalisation: only typing tells them apart",
    "same_bag_of_words": "they have the same words, in lower case, equally often: no bag of words can be right",
    "duplicate": "image, caption and negative came in an earlier row",
    "negative_under_several_images": "the negative is that of another image's row as well",
    "positive_is_a_negative": "the caption is the negative of another row",
}


def audit(
    pairs: Sequence[Pair],
    dataset: str,
    *,
    predictions: Sequence[str | Path] = (),
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Measure how well the true caption of a pair can be found without the image.

    Args:
        pairs: pairs of at least five images.
        dataset: its name, for the record.
        predictions: predictions of models that do not see the image, for the same rows.
        confidence: coverage of the intervals, strictly between 0 and 1.
        seed: of folds and resamples, a whole number from 0.

    Returns:
        A record for JSON: `schema`, `version`, `dataset`, `pairs` and `images` (how many), `categories` (pairs of
        each), `settings`, `degenerate` (see `find_degenerate`) and `scorers`. A scorer has `kind` (``"rule"``,
        ``"probe"`` or ``"predictions"``), the figures of `metrics.functional.symmetry.artifact_gap` with half credit
        for a tie (`accuracy` with `accuracy_interval`, `tie_rate`, `auc`, `asymmetry` …, also `per_category`) and, if
        it is a probe, `telling`: features with their weights and examples. 0.5 is chance, and higher is worse for the
        benchmark.

        Probes score each pair after training on other images only. Intervals are from resampling groups of pairs (see
        `probes.group_pairs`). The intervals of probes are widened by a factor of 1.5, since the five models share
        training data (Nadeau and Bengio, Machine Learning 52, 2003).

    Raises:
        DataError: pairs of fewer than five independent images.
        ScoresError: an option outside its range.
        PredictionsError: a predictions file that cannot be read, is of a model that sees the image, or lacks some of
            the pairs.

    Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), section 3, for blind models as a test of
    a benchmark.
    """
    pairs = list(pairs)
    groups = group_pairs(pairs)
    check_share("confidence", confidence)
    options = {"confidence": confidence, "seed": seed}
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "dataset": dataset,
        "pairs": len(pairs),
        "images": len({pair.image or pair.positive for pair in pairs}),
        "categories": dict(Counter(pair.category for pair in pairs)),
        "settings": {
            **{"seed": seed, "confidence": confidence, "folds": FOLDS, "held_out_by": groups.by},
            **{"groups": int(groups.codes.max()) + 1, "resamples": _RESAMPLES, "tagger": tagger_name("textblob")},
        },
        "degenerate": find_degenerate(pairs),
        "scorers": _run_scorers(pairs, blind_predictions(predictions, pairs), **options),
    }


def failures(record: Mapping[str, Any], max_blind_accuracy: float) -> list[str]:
    """Return a sentence for each scorer above a limit of accuracy; empty if the audit passes.

    The accuracy over all pairs is compared with the limit; of each category, which may be small, the lower end of the
    interval is, so that a clean benchmark does not fail by chance.

    Raises:
        ScoresError: a limit that is not strictly between 0 and 1.
    """
    check_share("max_blind_accuracy", max_blind_accuracy)
    sentences = []
    for name, scorer in record["scorers"].items():
        over = [f"{scorer['accuracy']:.1%} of all pairs"] if scorer["accuracy"] > max_blind_accuracy else []
        over += [
            f"{figures['accuracy']:.1%} of {category} (at least {figures['accuracy_interval'][0]:.1%})"
            for category, figures in scorer["per_category"].items()
            if figures["accuracy_interval"][0] > max_blind_accuracy and len(record["categories"]) > 1
        ]
        if over:
            features = scorer.get("telling")
            most = f", most by {features[0]['feature']!r}" if features else ""
            sentences.append(
                f"the {scorer['kind']} {name!r} is right without the image in {', '.join(over)}{most}; "
                f"{max_blind_accuracy:.1%} is allowed"
            )
    return sentences


def find_degenerate(pairs: Sequence[Pair]) -> dict[str, dict[str, Any]]:
    """Count the pairs of each kind in `MEANINGS`.

    Returns:
        For each kind `pairs`, the number of such pairs; `per_category`, their number in each category that has any; and
        `examples`, up to five of their ids. A pair may be of several kinds: identical captions are also the same bag of
        words. Captions are compared without normalisation, and images by their key or, if it is unknown, by the
        positive caption.
    """
    images: dict[str, set[str]] = defaultdict(set)
    rows_of: dict[str, set[int]] = defaultdict(set)
    for row, pair in enumerate(pairs):
        images[pair.negative].add(pair.image or pair.positive)
        rows_of[pair.negative].add(row)
    earlier: set[tuple[str, ...]] = set()
    by_kind: dict[str, list[Pair]] = {kind: [] for kind in MEANINGS}
    for row, pair in enumerate(pairs):
        is_of_kind = (
            pair.positive == pair.negative,
            normalise(pair.positive) == normalise(pair.negative),
            sorted(words(pair.positive)) == sorted(words(pair.negative)),
            pair[1:4] in earlier,
            len(images[pair.negative]) > 1,
            bool(rows_of.get(pair.positive, set()) - {row}),
        )
        earlier.add(pair[1:4])
        for of_kind in compress(by_kind.values(), is_of_kind):
            of_kind.append(pair)
    return {
        kind: {
            "pairs": len(of_kind),
            "per_category": dict(Counter(pair.category for pair in of_kind)),
            "examples": [pair.id for pair in of_kind[:_IDS_SHOWN]],
        }
        for kind, of_kind in by_kind.items()
    }


def blind_predictions(paths: Sequence[str | Path], pairs: Sequence[Pair]) -> dict[str, Scores]:
    """Return the scores that blind models gave the captions of pairs, shape (n, 2), by the model's name.

    Raises:
        PredictionsError: as for `audit`, or two files of one model.
    """
    scores_of: dict[str, Scores] = {}
    for path in paths:
        predictions = read_predictions(path)
        model, task_name = predictions.metadata["model"], f"{predictions.benchmark}/{predictions.task}"
        # Baselines (mocks) are accepted for tests.
        if model.get("sees_images", True) and not model.get("is_baseline"):
            raise PredictionsError(
                f"{path} is of {predictions.model}, of the family {model.get('family')!r}, which sees the image as far "
                "as its predictions say; an audit takes those of models that see captions alone"
            )
        try:
            task = get_task(predictions.benchmark, predictions.task)
        except VLAssayError as error:
            raise PredictionsError(f"{path}: {error}") from error
        if not has_pairs(task):
            raise PredictionsError(f"{path} is of {task_name}, which has no pairs of captions of one image")
        scores = {
            id: (row.scores[0][right], row.scores[0][wrong])
            for prefixed in (True, False)
            for row in predictions.rows
            if isinstance(row, MatchingRow) and row.scores is not None
            for id, right, wrong in pair_places(task, row.id, len(row.scores[0]), prefixed=prefixed)
        }
        lacking = [pair.id for pair in pairs if pair.id not in scores]
        if lacking:
            raise PredictionsError(
                f"{path} has no scores for {len(lacking):,} of {len(pairs):,} pairs, such as {lacking[0]!r}; it is of "
                f"{task_name}: audit the same part, or score all of it"
            )
        name = predictions.model
        if name in scores_of or name in (*RULES, *PROBES):
            raise PredictionsError(f"{path} is of {name}, which is there already; give one predictions file per model")
        scores_of[name] = np.array([scores[pair.id] for pair in pairs], dtype=np.float64)
    return scores_of


def _run_scorers(
    pairs: Sequence[Pair], of_models: Mapping[str, Scores], *, confidence: float, seed: int
) -> dict[str, Any]:
    """Return the figures of rules, models and probes, by the name of each."""
    categories, groups = [pair.category for pair in pairs], group_pairs(pairs).codes
    figures: dict[str, Any] = {}

    def measure(name: str, values: Scores, **facts: Any) -> dict[str, Any]:
        options = {"confidence": confidence, "resamples": _RESAMPLES, "seed": seed, "ties": "half"}
        measured = artifact_gap(values, np.zeros(len(values)), categories=categories, clusters=groups, **options)
        del measured["confidence"]
        figures[name] = facts | measured
        return figures[name]

    for name, (text, rule) in RULES.items():
        values = np.array([[rule(pair.positive), rule(pair.negative)] for pair in pairs])
        measure(name, values, kind="rule", rule=text)
    for name, values in of_models.items():
        measure(name, values, kind="predictions")
    for name, values, features in probe_scores(tuple(pairs), seed):
        measured = measure(name, values, kind="probe")
        for figure in (measured, *measured["per_category"].values()):
            figure["accuracy_interval"] = widened(figure["accuracy"], figure["accuracy_interval"])
        measured["telling"] = features
    return figures
