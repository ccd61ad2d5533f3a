"""How much of a benchmark can be known without the image: rules, learned probes, blind models, degenerate pairs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....metrics.common.errors import PredictionsError, VLAssayError
from ....metrics.common.storage import write_text
from ....metrics.functional.symmetry import artifact_gap
from ....metrics.records.predictions import Predictions, read_predictions
from ....metrics.records.schema import MatchingRow
from ....metrics.statistics.bootstrap import check_share
from ...core.benchmarks import get_task
from ..data.pairs import Pair, has_pairs, pair_places
from ..text.normalising import normalise
from ..text.tagging import tagger_name
from .probes import FOLDS, PROBES, Groups, Telling, group_pairs, run_probes, widened
from .sides import find_degenerate

SCHEMA = "vl-assay/audit"
VERSION = 1
# More resamples would take longer than the probes, for a tenth of a point in the ends of intervals.
_RESAMPLES = 2_000

Scores = NDArray[np.float64]


def _looks_typed(caption: str) -> float:
    """2 for irregular white space, 1 for no final full stop; the first outweighs the second."""
    return 2.0 * (caption != " ".join(caption.split())) + (not caption.strip().endswith("."))


# Nothing is learned here, so nothing can be over-fitted; the higher the likelier true.
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


@dataclass(frozen=True)
class Audit:
    """The result of `audit`.

    Attributes:
        record: all figures, as JSON takes them; its layout is in `audit`.
        pairs: what was audited.
        scores: for each scorer in the record float64 of shape (n, 2), of the true caption and of the negative.
    """

    record: dict[str, Any]
    pairs: list[Pair]
    scores: dict[str, Scores]


def audit(
    pairs: Sequence[Pair],
    dataset: str,
    *,
    predictions: Sequence[str | Path] = (),
    normalised: bool = False,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[str], None] = lambda step: None,
) -> Audit:
    """Measure how far captions alone tell which of a pair is true.

    Args:
        pairs: what to audit, of at least five images.
        dataset: its name, for the record.
        predictions: predictions of models that do not see the image, of the same rows.
        normalised: whether rules and probes also judge the captions after `normalising.normalise`.
        confidence: coverage of the intervals, strictly between 0 and 1.
        seed: of folds, resamples and permutations, a whole number from 0.
        progress: is told each step before it is taken.

    Returns:
        An `Audit` whose record has `schema`, `version`, `dataset`, `pairs` and `images` (how many), `categories`
        (pairs of each), `settings`, `degenerate` (see `_audit_pairs.find_degenerate`), `scorers` and, with
        `normalised`, `normalised`: rules and probes anew. A scorer has `kind` (``"rule"``, ``"probe"`` or
        ``"predictions"``), what `metrics.symmetry.artifact_gap` says of its scores with half credit for a tie
        (`accuracy` with `accuracy_interval`, `tie_rate`, `auc`, `asymmetry` …, also `per_category`) and, if it is a
        probe,
        `telling`: features with their weights and examples. 0.5 is chance, and higher is worse for the benchmark.

        Every pair is judged by a probe that learned from other images only. Intervals are from resampling groups of
        pairs (see `_probes.group_pairs`); those of probes are wider by a factor of 1.5, since the five models share
        what they learned from (Nadeau and Bengio, Machine Learning 52, 2003).

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
    judge = _Judge(pairs, groups, confidence, seed)
    said = blind_predictions(predictions, pairs)
    progress("rules")
    scorers, scores = _rules(judge, pairs)
    for name, of_model in said.items():
        progress(name)
        scores[name] = of_model
        scorers[name] = {"kind": "predictions", **judge(of_model)}
    for name, found in run_probes(pairs, groups, seed):
        progress(f"probe {name}")
        scores[name] = found.scores
        scorers[name] = {"kind": "probe", **judge(found.scores, learned=True), "telling": _told(found.telling, pairs)}
    record = {
        "schema": SCHEMA,
        "version": VERSION,
        "dataset": dataset,
        "pairs": len(pairs),
        "images": len({pair.image or pair.positive for pair in pairs}),
        "categories": dict(Counter(pair.category for pair in pairs)),
        "settings": {
            "seed": seed,
            "confidence": confidence,
            "folds": FOLDS,
            "held_out_by": groups.by,
            "groups": int(groups.codes.max()) + 1,
            "resamples": _RESAMPLES,
            "tagger": tagger_name("plain"),
        },
        "degenerate": find_degenerate(pairs),
        "scorers": scorers,
    }
    if normalised:
        record["normalised"] = _after_normalisation(pairs, groups, confidence, seed, progress)
    return Audit(record, pairs, scores)


def failures(record: Mapping[str, Any], max_blind_accuracy: float) -> list[str]:
    """What knows more without the image than it may, a sentence each; empty where the audit passes.

    Over all pairs the accuracy itself is held to the limit: it is one number of many pairs. Of the categories, which
    are many and may be small, the lower end of the interval is, lest chance fail a clean benchmark. Captions are
    judged as they are, not after normalisation.

    Raises:
        ScoresError: a limit that is not strictly between 0 and 1.
    """
    check_share("max_blind_accuracy", max_blind_accuracy)
    found = []
    for name, scorer in record["scorers"].items():
        over = []
        if scorer["accuracy"] > max_blind_accuracy:
            over.append(f"{scorer['accuracy']:.1%} of all pairs")
        if len(record["categories"]) > 1:
            over += [
                f"{part['accuracy']:.1%} of {category} (at least {part['accuracy_interval'][0]:.1%})"
                for category, part in scorer["per_category"].items()
                if part["accuracy_interval"][0] > max_blind_accuracy
            ]
        if over:
            told = scorer.get("telling")
            most = f", most by {told[0]['feature']!r}" if told else ""
            found.append(
                f"the {scorer['kind']} {name!r} is right without the image in {', '.join(over)}{most}; "
                f"{max_blind_accuracy:.1%} is allowed"
            )
    return found


def write_audit(result: Audit, folder: str | Path) -> list[Path]:
    """Write ``audit.json``, ``audit.md`` and ``audit.html`` (one file with all it needs) into a folder.

    Raises:
        StorageError: one of them could not be written.
    """
    from ._page import to_html
    from .report import to_markdown

    folder = Path(folder)
    contents = {
        "audit.json": json.dumps(result.record, indent=1, ensure_ascii=False) + "\n",
        "audit.md": to_markdown(result.record),
        "audit.html": to_html(result),
    }
    for name, text in contents.items():
        write_text(folder / name, text)
    return [folder / name for name in contents]


def blind_predictions(paths: Sequence[str | Path], pairs: Sequence[Pair]) -> dict[str, Scores]:
    """What blind models said of the captions of pairs, by the model's name."""
    said: dict[str, Scores] = {}
    for path in paths:
        predictions = read_predictions(path)
        if predictions.model in said or predictions.model in (*RULES, *PROBES):
            raise PredictionsError(
                f"{path} is of {predictions.model}, which is there already; give one predictions file of each model"
            )
        said[predictions.model] = _scores_of(predictions, path, pairs)
    return said


def _scores_of(predictions: Predictions, path: str | Path, pairs: Sequence[Pair]) -> Scores:
    """The scores of the captions of pairs, matched by id."""
    model = predictions.metadata["model"]
    # The mocks too, which the tests need.
    if model.get("sees_images", True) and not model.get("is_baseline"):
        raise PredictionsError(
            f"{path} is of {predictions.model}, of the family {model.get('family')!r}, which sees the image as far "
            f"as its "
            "predictions say; an audit takes those of models that see captions alone"
        )
    try:
        task = get_task(predictions.benchmark, predictions.task)
    except VLAssayError as error:
        raise PredictionsError(f"{path}: {error}") from error
    if not has_pairs(task):
        raise PredictionsError(
            f"{path} is of {predictions.benchmark}/{predictions.task}, which has no pairs of captions of one image"
        )
    said = {
        id: (row.scores[0][right], row.scores[0][wrong])
        for prefixed in (True, False)
        for row in _scored(predictions)
        for id, right, wrong in pair_places(task, row.id, len(row.scores[0]), prefixed=prefixed)
    }
    lacking = [pair.id for pair in pairs if pair.id not in said]
    if lacking:
        raise PredictionsError(
            f"{path} has no scores for {len(lacking):,} of {len(pairs):,} pairs, such as {lacking[0]!r}; it is of "
            f"{predictions.benchmark}/{predictions.task}: audit the same part, or score all of it"
        )
    return np.array([said[pair.id] for pair in pairs], dtype=np.float64)


def _scored(predictions: Predictions) -> list[Any]:
    return [row for row in predictions.rows if isinstance(row, MatchingRow) and row.scores is not None]


class _Judge:
    """Accuracy and symmetry of scores over the pairs, by group and category."""

    def __init__(self, pairs: Sequence[Pair], groups: Groups, confidence: float, seed: int) -> None:
        check_share("confidence", confidence)
        self._categories = [pair.category for pair in pairs]
        self._clusters = groups.codes
        self._options = {"confidence": confidence, "resamples": _RESAMPLES, "seed": seed, "ties": "half"}

    def __call__(self, scores: Scores, *, learned: bool = False) -> dict[str, Any]:
        found = artifact_gap(
            scores,
            np.zeros(len(scores)),
            categories=self._categories,
            clusters=self._clusters,
            **self._options,
        )
        del found["confidence"]
        for part in (found, *found["per_category"].values()) if learned else ():
            part["accuracy_interval"] = widened(part["accuracy"], part["accuracy_interval"])
            # Only accuracies have an interval that allows for what the models of the folds share.
            del part["mean_gap_interval"], part["auc_interval"]
        return found


def _rules(judge: _Judge, pairs: Sequence[Pair]) -> tuple[dict[str, Any], dict[str, Scores]]:
    scores = {
        name: np.array([[rule(pair.positive), rule(pair.negative)] for pair in pairs])
        for name, (_, rule) in RULES.items()
    }
    return {name: {"kind": "rule", "rule": RULES[name][0], **judge(said)} for name, said in scores.items()}, scores


def _after_normalisation(
    pairs: Sequence[Pair], groups: Groups, confidence: float, seed: int, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Rules and probes on captions of one form; predictions would have to be scored anew."""
    changed = [pair._replace(positive=normalise(pair.positive), negative=normalise(pair.negative)) for pair in pairs]
    judge = _Judge(changed, groups, confidence, seed)
    progress("rules, normalised")
    found, _ = _rules(judge, changed)
    for name, probed in run_probes(changed, groups, seed):
        progress(f"probe {name}, normalised")
        found[name] = {"kind": "probe", **judge(probed.scores, learned=True), "telling": _told(probed.telling, changed)}
    return found


def _told(telling: Sequence[Telling], pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Features as JSON takes them, with the captions of their examples."""
    by_id = {pair.id: pair for pair in pairs}
    return [
        told._asdict()
        | {
            "examples": [
                {"id": id, "positive": by_id[id].positive, "negative": by_id[id].negative} for id in told.examples
            ]
        }
        for told in telling
    ]
