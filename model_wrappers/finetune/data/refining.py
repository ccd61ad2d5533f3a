"""Training on adversarially refined negatives (SugarCrepe, Hsieh et al. 2023, Table 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....hub_datasets.authoring.data.pairs import Pair
from ....hub_datasets.authoring.refine.refine import blind_scorers, refine
from .training_set import TrainingSet

SCORERS = ("words", "characters")


def refined(training_set: TrainingSet, seed: int = 0, *, scorers: Sequence[str] = SCORERS) -> TrainingSet:
    """A training set without the negatives by which blind scorers could tell captions from negatives.

    As in the paper, which refines negatives that were made by rule with Algorithm 1: pairs of a caption and its
    negative are kept so that each scorer prefers the caption as often as the negative, by as much. All kinds of
    negatives are refined together. Captions whose negative goes stay.

    Args:
        training_set: each sample has one negative at most, as from `TrainingSet.frozen`.
        seed: of the choice of pairs, at least 0.
        scorers: some of ``refine.ngrams.BLIND_SCORERS``; the paper has Vera and a grammar model, which `vl-assay refine
            --predictions` takes.

    Raises:
        DataError: all pairs are of one image, or not a single pair can be kept.
        ScoresError: a seed below 0.
    """
    pairs = [
        Pair(str(index), sample.image, sample.caption, sample.negatives[0], "all")
        for index, sample in enumerate(training_set.samples)
        if sample.negatives
    ]
    result = refine(pairs, blind_scorers(pairs, scorers), by_category=False, seed=seed)
    kept = {int(pair.id) for pair in result.kept}
    samples = [
        sample if index in kept else sample._replace(negatives=()) for index, sample in enumerate(training_set.samples)
    ]
    return replace(training_set, samples=samples, refined=training_set.refined + len(pairs) - len(kept))
