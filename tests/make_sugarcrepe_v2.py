"""Make `sugarcrepe/v2`, the pairs of SugarCrepe on which learned probes do no better than chance, from the release.

``python tests/make_sugarcrepe_v2.py FOLDER`` reads the release in FOLDER, writes the ids to ``v2.json`` and the counts
and the accuracies of fresh probes to the card, both in the benchmark's folder or in ``--into``. The same release gives
the same files. The audit of v2 in the card is a section of its own: ``vl-assay audit sugarcrepe/v2 --card``.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vl_assay.hub_datasets.authoring.audit.probes import PROBES, TREES, group_pairs, run_probes
from vl_assay.hub_datasets.authoring.data.pairs import Pair, read_pairs
from vl_assay.hub_datasets.authoring.refine.refine import refine
from vl_assay.hub_datasets.sugarcrepe.v2 import FILE, texts_hash
from vl_assay.metrics.common.documents import simple_table, to_markdown
from vl_assay.metrics.common.formatting import percent, words
from vl_assay.metrics.common.storage import write_text

# All probes of the audit decide which pairs go, in as many rounds as it takes.
ROUNDS = 20
SEED = 0
# Of fewer pairs no accuracy can be told; a category that keeps less is left out.
FEWEST = 50
# None of them is a seed of a round.
FRESH_SEEDS = (101, 102, 103, 104, 105)
FRESH_PROBES = (*PROBES, TREES)


def choose(pairs: Sequence[Pair], *, fewest: int = FEWEST) -> list[Pair]:
    """The pairs of `v2`: adversarially refined on all probes, without categories that are left small.

    Args:
        pairs: those of the release.
        fewest: the smallest number of pairs of a category.

    Raises:
        DataError: no pairs can be kept.
    """
    kept = by_category(refine(pairs, learned=ROUNDS, refining=PROBES, seed=SEED).kept)
    return [pair for own in kept.values() if len(own) >= fewest for pair in own]


def by_category(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """The pairs of each category."""
    found: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        found[pair.category].append(pair)
    return dict(found)


def fresh_accuracies(pairs: Sequence[Pair], seeds: Sequence[int] = FRESH_SEEDS) -> dict[str, list[float]]:
    """How often probes that are trained anew prefer the positive caption of held-out pairs, for each seed of the folds.

    Ties count half; 0.5 is chance. `probes.TREES` is of another kind than the probes that refine.
    """
    groups, found = group_pairs(pairs), defaultdict(list)
    for seed in seeds:
        for name, scores, _ in run_probes(pairs, groups, seed, FRESH_PROBES):
            found[name].append(float((np.sign(scores[:, 0] - scores[:, 1]) / 2 + 0.5).mean()))
    return dict(found)


def as_record(kept: Sequence[Pair]) -> str:
    """Return the text of ``v2.json`` for the ids of some pairs."""
    keys = {name: " ".join(pair.id.removeprefix(f"{name}/") for pair in own) for name, own in by_category(kept).items()}
    texts = texts_hash((pair.id, pair.positive, pair.negative) for pair in kept)
    return json.dumps({"texts": texts, "keys": dict(sorted(keys.items()))}, indent=1) + "\n"


def as_section(pairs: Sequence[Pair], kept: Sequence[Pair]) -> str:
    """The counts by category, and what fresh probes reach before and after, as Markdown."""
    before, after = by_category(pairs), by_category(kept)
    sizes = {name: (len(own), len(after.get(name, ()))) for name, own in before.items()}
    sizes["all"] = len(pairs), len(kept)
    counted = [[name, f"{all:,}", f"{left:,}", f"{left / all:.0%}"] for name, (all, left) in sizes.items()]
    full, fresh = fresh_accuracies(pairs), fresh_accuracies(kept)
    alone = {name: fresh_accuracies(own) for name, own in after.items()}
    reached = [
        [words(probe), *map(_mean_and_range, (full[probe], found)), *(_mean(own[probe]) for own in alone.values())]
        for probe, found in fresh.items()
    ]
    headings = ["probe, trained anew", "all pairs", "v2", *(f"v2, {name} alone" for name in alone)]
    return to_markdown([simple_table(["category", "pairs", "v2", "share"], counted), simple_table(headings, reached)])


def _mean(values: Sequence[float]) -> str:
    return percent(float(np.mean(values)))


def _mean_and_range(values: Sequence[float]) -> str:
    return f"{_mean(values)} ({percent(min(values))}–{percent(max(values))})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write ``v2.json`` and the card's section."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", help="the release: a folder with data/swap_obj.json and the other files")
    parser.add_argument("--into", type=Path, default=FILE.parent, help="where v2.json and README.md are updated")
    chosen = parser.parse_args(arguments)
    pairs = read_pairs("sugarcrepe/itm", data_dir=chosen.folder)
    kept = choose(pairs)
    record, card = chosen.into / FILE.name, chosen.into / "README.md"
    write_text(record, as_record(kept))
    section = as_section(pairs, kept)
    text = re.sub(r"(?s)(<!-- v2 -->\n).*(<!-- /v2 -->)", rf"\g<1>{section}\g<2>", card.read_text("utf-8"))
    write_text(card, text)
    print(f"{len(kept):,} of {len(pairs):,} pairs are kept; written: {record}, {card}")


if __name__ == "__main__":
    main()
