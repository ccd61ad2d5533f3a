"""Adversarial refinement: the largest subset of pairs found in which blind scorers are right as often as wrong.

On the 17,478 candidates of SugarCrepe before its own refinement, read as the folder of their files (counts by category
are in ``test_refine.py``), the two language models of `ngrams` prefer the positive caption in 66.8 % (words) and
61.7 % (characters), and in 50.0 % of the 10,297 pairs that are kept with the default options. Ids decide which pairs
each model is trained on: with the ids of the benchmark ``sugarcrepe/unrefined`` the values are 66.4 %, 61.7 % and
10,349.

Filtering balances only these two scorers: a probe that sees only formatting, trained on other images, is right in 80 %
of the pairs kept. Three rounds of learned probes in place of the language models leave 2,928 pairs, in which that probe
is right in 52 %, and a probe of characters, which was never used for filtering, in 56 %. Almost no pairs remain of the
categories that add words, whose negatives are the longer caption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....metrics.common.errors import DataError, ScoresError
from ....metrics.estimation.aggregate import aggregate
from ....metrics.estimation.bootstrap import check_share, check_whole
from ....metrics.estimation.checks import label_codes
from ....metrics.estimation.spec import make_examples
from ....metrics.functional.matching import match_scores
from ..audit.probes import group_pairs, run_probes, widened
from ..data.pairs import Pair
from .cells import GRID, balance, rank_gaps
from .ngrams import BLIND_SCORERS

SCHEMA = "vl-assay/refinement"
VERSION = 1
# The probes that decide which pairs are removed, and probes of other features that only measure, to show what the
# filtering did not remove.
REFINING = ("formatting", "words")
WATCHING = ("characters", "parts_of_speech", "rarity")
# The grid for ranked gaps of probes, which fill all cells evenly; a finer grid would remove many pairs.
LEARNED_GRID = 10
_PROBES = (*REFINING, *WATCHING)

_Floats = NDArray[np.float64]
_Rows = NDArray[np.intp]


def refine(
    pairs: Sequence[Pair],
    scorers: Mapping[str, _Floats],
    *,
    learned: int = 0,
    grid: int = GRID,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[list[Pair], dict[str, Any]]:
    """Filter pairs adversarially, so that blind scorers are right as often as wrong on the pairs kept.

    Each category is balanced by itself, as SugarCrepe probably did: in its Table 6 the grammar model is at 50.00 % in
    every category.

    With `learned`, probes are then trained on the pairs that remain, each pair held out with its image. The pairs are
    balanced on the gaps of the best probe in ``REFINING``, together with the gaps of all scorers. Rounds are repeated
    until no such probe, or after a round no probe in ``WATCHING``, is better than chance: until the interval of its
    held-out accuracy does not lie above 0.5.

    Args:
        pairs: n pairs with distinct ids.
        scorers: by name, the scores of the positive and the negative captions by a scorer that sees no image, shape
            (n, 2), higher is more plausible. The paper has two, of plausibility and of grammar.
        learned: the largest number of rounds of learned probes, 0 for none.
        grid: as for `balance`. Probabilities are used as they are, as in the paper. The differences of log-likelihoods
            (of ``ngrams.BLIND_SCORERS``, and all that exceed [-1, 1]) are divided by the largest of their scorer.
        seed: a whole number from 0.
        confidence: level of the intervals in the record, from resampling images.

    Returns:
        The pairs kept, in their order, and a record for JSON. It has for each scorer the blind accuracy before and
        after, ties counting half; after, it is 0.5 in each category, by construction. With `learned` it has why the
        rounds ended, and the accuracy of each probe before and after each. The result does not depend on the order of
        the pairs.

    Raises:
        ScoresError: neither scorers nor learned rounds, scores that are not finite, or an option outside its range.
        DataError: not a single pair can be kept, or too few are left for another round of probes.

    Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), section 3.2, Algorithm 1 and appendix C.3;
    the rounds of learned probes follow Le Bras et al., Adversarial Filters of Dataset Biases, ICML 2020.
    """
    check_whole(learned=(learned, 0), seed=(seed, 0))
    check_share("confidence", confidence)
    if not scorers and not learned:
        raise ScoresError("nothing came to refine on; give at least one scorer, or a round of learned probes")
    gaps = {name: scores[:, 0] - scores[:, 1] for name, scores in scorers.items()}
    scaled = [_scaled(name, column) for name, column in gaps.items()]
    filtering = _Filtering(pairs, group_pairs(pairs).codes, scaled, grid, seed, confidence)
    every = np.arange(len(pairs))
    rows, rounds = _refine_in_rounds(filtering, [*gaps], learned) if learned else (filtering.choose(every), {})
    figures = {
        name: {
            when: filtering.accuracy(column[subset], subset) for when, subset in (("before", every), ("after", rows))
        }
        for name, column in gaps.items()
    }
    kept = [pairs[row] for row in rows]
    before, after = (Counter(pair.category for pair in part) for part in (pairs, kept))
    categories = {name: {"pairs": number, "kept": after[name]} for name, number in before.items()}
    settings = {"grid": grid, "seed": seed, "confidence": confidence}
    counts = {"pairs": len(pairs), "kept": len(kept), "categories": categories}
    return kept, {"schema": SCHEMA, "version": VERSION, "settings": settings, **counts, "scorers": figures, **rounds}


def _scaled(name: str, gaps: _Floats) -> _Floats:
    """Bring gaps into [-1, 1] without changing their signs, see `refine`."""
    sizes, tiny = np.abs(gaps), np.finfo(float).tiny
    largest = np.nanmax(sizes, initial=0)
    if name not in BLIND_SCORERS and largest <= 1:
        return gaps
    # Sizes that underflow keep their sign.
    return np.sign(gaps) * np.maximum(sizes / max(largest, tiny), tiny)


class _Filtering(NamedTuple):
    """The pairs of a refinement with their groups, the scaled gaps of the scorers, and the options of `refine`."""

    pairs: Sequence[Pair]
    groups: _Rows
    scaled: Sequence[_Floats]
    grid: int
    seed: int
    confidence: float

    def choose(self, rows: _Rows, probe_gaps: _Floats | None = None) -> _Rows:
        """Choose the rows to keep, balanced on all scorers and on the ranks of a probe's gaps."""
        probe = [] if probe_gaps is None else [rank_gaps(probe_gaps)]
        is_kept = balance(
            np.column_stack([column[rows] for column in self.scaled] + probe),
            [self.pairs[row].id for row in rows],
            groups=[self.pairs[row].category for row in rows],
            grid=[self.grid] * len(self.scaled) + [LEARNED_GRID] * len(probe),
            seed=self.seed,
        )
        if not is_kept.any():
            raise DataError(
                f"none of {len(rows)} pairs has a counterpart whose gaps are its own with the signs turned; give fewer "
                "scorers or rounds, more pairs, or a coarser --grid (2 balances signs alone)"
            )
        return rows[is_kept]

    def accuracy(self, gaps: _Floats, rows: _Rows) -> dict[str, Any]:
        """Return how often the gaps of rows are above 0, with ties counting half: `accuracy`, its interval from
        resampling the groups, `tie_rate`, `mean_gap`, `n`, and the same by category."""
        categories = [self.pairs[row].category for row in rows]
        values, tied = match_scores(np.column_stack([gaps, np.zeros(len(gaps))]), np.zeros(len(gaps)), "half")
        examples = make_examples({"accuracy": values}, tied, categories=categories, clusters=self.groups[rows])
        figures = aggregate(examples, confidence=self.confidence)
        names, codes = label_codes(categories, len(gaps), "categories")
        for number, name in enumerate(names):
            figures["per_category"][name]["mean_gap"] = float(gaps[codes == number].mean())
        return {**figures, "mean_gap": float(gaps.mean())}

    def probe(self, rows: _Rows, seed: int) -> tuple[dict[str, _Floats], dict[str, Any]]:
        """Train all probes on rows; return the held-out gaps and the figures of each."""
        pairs = [self.pairs[row] for row in rows]
        try:
            scores = {name: scores for name, scores, _ in run_probes(pairs, group_pairs(pairs), seed, _PROBES)}
        except DataError as error:
            raise DataError(f"too few pairs for another round of probes: {error}; or give fewer rounds") from error
        gaps, figures = {}, {}
        for name in _PROBES:
            gaps[name] = scores[name][:, 0] - scores[name][:, 1]
            measured = self.accuracy(gaps[name], rows)
            measured["accuracy_interval"] = widened(measured["accuracy"], measured["accuracy_interval"])
            figures[name] = {key: measured[key] for key in ("accuracy", "accuracy_interval", "tie_rate")}
        return gaps, figures


def _refine_in_rounds(filtering: _Filtering, scorers: Sequence[str], most: int) -> tuple[_Rows, dict[str, Any]]:
    """Return the rows kept, and the ``learned`` part of the record; see `refine`."""
    # Folds depend on the order of the pairs, so this one is fixed.
    rows = np.array(sorted(range(len(filtering.pairs)), key=lambda row: filtering.pairs[row].id))
    rounds: list[dict[str, Any]] = []
    while True:
        gaps, probes = filtering.probe(rows, filtering.seed + len(rounds))
        rounds.append({"pairs": len(rows), "probes": probes, "refined_on": []})
        if scorers and len(rounds) == 1:
            rounds[-1]["refined_on"] = list(scorers)
            rows = filtering.choose(rows)
            continue
        if ended := _why_ended(probes, len(rounds) - 1 - bool(scorers), most):
            break
        strongest = max(REFINING, key=lambda name: probes[name]["accuracy"])
        rounds[-1]["refined_on"] = [f"probe {strongest}"]
        rows = filtering.choose(rows, gaps[strongest])
    record = {"most": most, "grid": LEARNED_GRID, "refining": REFINING, "watching": WATCHING}
    return np.sort(rows), {"learned": {**record, "ended": ended, "rounds": rounds}}


def _why_ended(probes: Mapping[str, Any], done: int, most: int) -> str:
    """Return why no further round is made; "" if a round follows."""
    better = {name for name, figures in probes.items() if figures["accuracy_interval"][0] > 0.5}
    if done and not better.intersection(WATCHING):
        return "no probe that watches is better than chance"
    if not better.intersection(REFINING):
        return "no probe that refines is better than chance"
    return f"{most} rounds were allowed" if done == most else ""
