"""Learned probes: models that see only captions and are evaluated on pairs of held-out images."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ....metrics.common.errors import DataError
from ....metrics.estimation.checks import component_codes
from ..data.pairs import Pair
from ..text.normalising import normalise
from .features import Features, Matrix, Rarity, character_counts, formatting, tag_counts, word_counts

FOLDS = 5
# The models of two folds share most of their training data. Nadeau and Bengio (Machine Learning 52, 2003) correct the
# variance of a mean over K folds from 1 / K to 1 / K + 1 / (K - 1). Without that, 9 to 13 in 100 sets with random
# labels (312 sets each of 300 shuffled pairs of SugarCrepe and of 200 generated ones) excluded 50 % at a level of 5 %;
# with it, 1 to 4 did.
WIDENING = math.sqrt(1 + FOLDS / (FOLDS - 1))

_COUNTED: dict[str, Callable[[Sequence[str]], Features]] = {
    "formatting": formatting,
    "words": word_counts,
    "characters": character_counts,
    "parts_of_speech": tag_counts,
}
PROBES = (*_COUNTED, "rarity", "all")
_FEATURES_TOLD = 5
_EXAMPLES = 2


class Groups(NamedTuple):
    """The group of each pair; the pairs of a group are held out together and resampled together.

    Attributes:
        codes: int array of shape (n,).
        by: ``"image and captions"`` or ``"image"``.
    """

    codes: NDArray[np.intp]
    by: str


def group_pairs(pairs: Sequence[Pair]) -> Groups:
    """Group the pairs that share an image, or a caption on either side, directly or through others.

    Captions are compared after `normalise`. A pair whose image is not known is grouped by its positive caption. If
    captions recur so often that a group would be larger than a fold, as with captions from templates, pairs are grouped
    by image only.

    Raises:
        DataError: no pairs.
    """
    if not pairs:
        raise DataError("no pairs came; an audit needs at least one")
    images = [[f"image {pair.image}" if pair.image else f"text {normalise(pair.positive)}"] for pair in pairs]
    captions = ([f"text {normalise(text)}" for text in (pair.positive, pair.negative)] for pair in pairs)
    codes = component_codes(map(chain, images, captions))
    if np.bincount(codes).max() <= max(len(pairs) / FOLDS, 1):
        return Groups(codes, "image and captions")
    return Groups(component_codes(images), "image")


def assign_folds(groups: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """Assign pairs to folds 0 to `FOLDS` - 1 of similar size, keeping groups together; return the fold of each pair.

    Raises:
        DataError: fewer groups than folds.
    """
    from sklearn.model_selection import GroupKFold

    number = int(groups.max()) + 1
    if number < FOLDS:
        raise DataError(
            f"the pairs are of {number} independent images, and {FOLDS} are the least for {FOLDS} folds; use a larger "
            "set"
        )
    shuffled = np.random.default_rng(seed).permutation(number)[groups]
    folds = np.empty(len(groups), dtype=np.intp)
    for fold, (_, rows) in enumerate(GroupKFold(FOLDS).split(folds, groups=shuffled)):
        folds[rows] = fold
    return folds


def widened(accuracy: float, interval: Sequence[float]) -> list[float]:
    """Return the interval of a probe's accuracy, widened for the training data that the folds share, within [0, 1]."""
    low, high = (accuracy + WIDENING * (bound - accuracy) for bound in interval)
    return [max(low, 0.0), min(high, 1.0)]


@lru_cache(2)  # `vl-assay audit` needs a benchmark's probes twice: for its tables and for its blind levels
def probe_scores(pairs: tuple[Pair, ...], seed: int) -> list[tuple[str, NDArray[np.float64], list[dict[str, Any]]]]:
    """Return the results of all probes on pairs, see `run_probes`."""
    return list(run_probes(pairs, group_pairs(pairs), seed))


def run_probes(
    pairs: Sequence[Pair], groups: Groups, seed: int, only: Sequence[str] = PROBES
) -> Iterator[tuple[str, NDArray[np.float64], list[dict[str, Any]]]]:
    """Cross-validate the probes of these names, one after the other.

    Args:
        pairs: n pairs, of at least five groups.
        groups: see `group_pairs`.
        seed: of the folds, a whole number from 0.
        only: some of `PROBES`.

    Yields:
        The name; scores of held-out pairs, float64 of shape (n, 2), of the positive caption and of the negative, in
        log-odds, of which only the difference has a meaning; and the features that contribute most to the decisions,
        the strongest first, see `_most_telling`.

    Raises:
        DataError: too few groups.
    """
    folds = assign_folds(groups.codes, seed)
    # Features of a caption are computed once, but for rarity, which depends on its fold.
    texts = [pair.positive for pair in pairs] + [pair.negative for pair in pairs]
    captions = list(dict.fromkeys(chain.from_iterable((pair.positive, pair.negative) for pair in pairs)))
    row_of = {caption: number for number, caption in enumerate(captions)}
    rows = np.array([row_of[text] for text in texts])
    counted: dict[str, Features] = {}
    rarity = Rarity(texts, np.concatenate([folds, folds])) if {"rarity", "all"} & set(only) else None
    for name in only:
        parts = [kind for kind in _COUNTED if name in (kind, "all")]
        counted |= {kind: _differing(_COUNTED[kind](captions), rows) for kind in parts if kind not in counted}
        features = [counted[kind] for kind in parts]
        yield name, *_hold_out(pairs, features, rarity if name in ("rarity", "all") else None, folds, seed)


def _differing(features: Features, rows: NDArray[np.intp]) -> Features:
    """Return the features that differ within at least two pairs, since others cannot generalise.

    Their rows are those of the positive captions, and then of the negatives.
    """
    values = features.values[rows]
    differing = (values[: len(rows) // 2] - values[len(rows) // 2 :]).tocsc()
    differing.eliminate_zeros()
    columns = np.flatnonzero(np.diff(differing.indptr) > 1)
    return Features([features.names[column] for column in columns], values[:, columns], features.scaled[columns])


def _hold_out(
    pairs: Sequence[Pair], counted: Sequence[Features], rarity: Rarity | None, folds: NDArray[np.intp], seed: int
) -> tuple[NDArray[np.float64], list[dict[str, Any]]]:
    n = len(pairs)
    scores = np.zeros((n, 2))
    weights, contributions, names = [], [], []
    for fold in range(FOLDS):
        parts = [*counted, *([] if rarity is None else [rarity.held_out(fold)])]
        names, scaled = [*chain.from_iterable(part.names for part in parts)], np.concatenate([p.scaled for p in parts])
        values: Matrix = parts[0].values if len(parts) == 1 else sparse.hstack([p.values for p in parts], format="csr")
        differences, held = values[:n] - values[n:], folds == fold
        weight, scaled_weight = _fit(differences[~held], scaled, seed)
        scores[held, 0] = values[:n][held] @ weight
        scores[held, 1] = values[n:][held] @ weight
        weights.append(scaled_weight)
        contributions.append((differences[held] @ sparse.diags(weight)).tocsr())
    order = np.concatenate([np.flatnonzero(folds == fold) for fold in range(FOLDS)])
    table: Matrix = sparse.vstack(contributions, format="csc")
    return scores, _most_telling(pairs, names, np.mean(weights, axis=0), table, order)


def _fit(differences: Matrix, scaled: NDArray[np.bool_], seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit a logistic model of which caption of a pair is true; return its weights per unit and per unit of spread.

    It has no intercept and sees differences only, so that exchanged captions exchange its prediction. Half of the pairs
    are turned round at random because the solver needs two classes; that does not change the optimum.
    """
    from sklearn.linear_model import LogisticRegression

    spread = np.sqrt(np.asarray(differences.multiply(differences).mean(axis=0)).ravel())
    scale = np.where(scaled & (spread > 0), spread, 1.0)
    if not differences.nnz:
        return np.zeros(len(scale)), np.zeros(len(scale))
    coin = np.random.default_rng(seed).permutation(np.arange(differences.shape[0]) % 2) * 2 - 1
    inputs: Matrix = (sparse.diags(coin.astype(np.float64)) @ differences @ sparse.diags(1 / scale)).tocsr()
    inputs.eliminate_zeros()
    # The dual is faster, as there are more n-grams than pairs.
    model = LogisticRegression(
        C=0.1, fit_intercept=False, solver="liblinear", dual=True, tol=0.01, max_iter=1000, random_state=0
    )
    weight = model.fit(inputs, coin).coef_[0]
    return weight / scale, weight


def _most_telling(
    pairs: Sequence[Pair],
    names: list[str],
    weights: NDArray[np.float64],
    contributions: Matrix,
    order: NDArray[np.intp],
) -> list[dict[str, Any]]:
    """Return the features with the largest mean absolute contribution to held-out decisions.

    Each has its name as `feature`; its `weight`, the mean over the folds, in log-odds that a caption is the true one,
    per occurrence, or for a measure per root mean square of its differences, above 0 where it speaks for the positive
    caption; the share of the pairs that `differs` in it; the share of these in which it is `right`; and `examples`,
    pairs with distinct captions, the strongest first.
    """
    sizes = np.asarray(abs(contributions).sum(axis=0)).ravel()
    features = []
    for column in np.argsort(-sizes, kind="stable")[:_FEATURES_TOLD]:
        values = contributions[:, column].toarray().ravel()
        differs = values != 0
        if not differs.any():
            break
        strongest = order[np.lexsort((order, -values))][: np.count_nonzero(values > 0)]
        shown: dict[str, Pair] = {}
        for row in strongest[:50]:
            shown.setdefault(pairs[row].positive, pairs[row])
        examples = [
            {"id": pair.id, "positive": pair.positive, "negative": pair.negative}
            for pair in list(shown.values())[:_EXAMPLES]
        ]
        feature = {"feature": names[column], "weight": float(weights[column]), "differs": float(differs.mean())}
        features.append(feature | {"right": float((values[differs] > 0).mean()), "examples": examples})
    return features
