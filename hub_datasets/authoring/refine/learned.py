"""Adversarial filtering: refinement on probes that are trained on the pairs themselves, round after round.

In each round probes are trained and held out by image (`_probes`) on the pairs that are left. Those of some kinds of
features refine: the pairs are balanced on the held-out gaps of the one that does best, together with the gaps of all
other scorers, which stay at 50 %. The others only watch. They see other features, so that what they still find in the
end was not merely hidden from the probes refined on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....metrics.common.errors import DataError
from ..audit.probes import group_pairs, held_out_gaps, widened
from ..data.pairs import Pair
from .cells import scale_gaps
from .refine import Balancing, Gaps, blind_accuracy

REFINING = ("formatting", "words")
WATCHING = ("characters", "parts_of_speech", "rarity")
# Gaps of probes are ranked, so that all of its cells are filled alike; finer ones would cost many pairs.
GRID = 10


def refine_in_rounds(
    pairs: Sequence[Pair],
    how: Balancing,
    scorers: Sequence[str],
    most: int,
    confidence: float,
    progress: bool,
) -> tuple[NDArray[np.intp], dict[str, Gaps], dict[str, Any]]:
    """Refine on the scorers, if there are any, then on learned probes for so many rounds at most.

    It ends early when no probe that refines is better than chance, or after a round none that watches: when the
    interval of its held-out accuracy does not lie above 0.5.

    Returns:
        The rows kept, in their order; of each probe its gaps on all pairs and on those kept; and for the record, under
        ``learned``, the settings, why it ended, and ``rounds``: what each probe knew before the first refinement and
        after each, and what was refined on then.

    Raises:
        DataError: too few pairs are left.
    """
    # Probes divide the pairs as they come, and their order must not matter.
    rows = np.array(sorted(range(len(pairs)), key=lambda row: pairs[row].id))
    groups, categories = group_pairs(pairs).codes, np.array(how.categories, dtype=object)
    rounds: list[dict[str, Any]] = []
    before: dict[str, NDArray[np.float64]] = {}
    while True:
        gaps = _held_out([pairs[row] for row in rows], how.seed + len(rounds), progress)
        before = before or {name: column[np.argsort(rows)] for name, column in gaps.items()}
        probes = {
            name: _accuracy(column, categories[rows].tolist(), groups[rows], confidence)
            for name, column in gaps.items()
        }
        rounds.append({"pairs": len(rows), "probes": probes, "refined_on": []})
        if scorers and len(rounds) == 1:
            rounds[-1]["refined_on"] = list(scorers)
            rows = how.choose(rows)
            continue
        ended = _why_end(probes, len(rounds) - 1 - bool(scorers), most)
        if ended:
            break
        strongest = max(REFINING, key=lambda name: probes[name]["accuracy"])
        rounds[-1]["refined_on"] = [f"probe {strongest}"]
        rows = how.choose(rows, scale_gaps(gaps[strongest], "rank", name=strongest), GRID)
    told = {"most": most, "grid": GRID, "refining": REFINING, "watching": WATCHING, "ended": ended, "rounds": rounds}
    order = np.argsort(rows)
    return rows[order], {f"probe {name}": Gaps(before[name], gaps[name][order]) for name in gaps}, {"learned": told}


def _held_out(pairs: Sequence[Pair], seed: int, progress: bool) -> dict[str, NDArray[np.float64]]:
    """Of each probe the gaps of pairs that it did not learn from."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    names = track(
        (*REFINING, *WATCHING),
        f"probes of {len(pairs):,} pairs",
        console=console,
        transient=True,
        disable=not (progress and console.is_terminal),
    )
    try:
        return {name: held_out_gaps(pairs, name, seed) for name in names}
    except DataError as error:
        raise DataError(f"too few pairs for another round of probes: {error}; or give fewer rounds") from error


def _accuracy(
    gaps: NDArray[np.float64], categories: Sequence[str], groups: NDArray[np.intp], confidence: float
) -> dict[str, Any]:
    """A probe's held-out accuracy, its interval wider by what the folds have in common, and its ties."""
    found = blind_accuracy(gaps, categories, groups, confidence)
    interval = widened(found["accuracy"], found["accuracy_interval"])
    return {"accuracy": found["accuracy"], "accuracy_interval": interval, "tie_rate": found["tie_rate"]}


def _why_end(probes: dict[str, Any], done: int, most: int) -> str | None:
    """Why no further round is made; None where one is."""
    better = {name for name, found in probes.items() if found["accuracy_interval"][0] > 0.5}
    if done and not better.intersection(WATCHING):
        return "no probe that watches is better than chance"
    if not better.intersection(REFINING):
        return "no probe that refines is better than chance"
    return f"{most} rounds were allowed" if done == most else None
