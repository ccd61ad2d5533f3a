"""Make `sugarcrepe/v2`, the pairs of SugarCrepe on which learned probes do no better than chance, from the release.

``python -m vl_assay.hub_datasets.sugarcrepe.make_v2 FOLDER`` reads the release in FOLDER, writes the ids to ``v2.py``
and the counts and the accuracies of fresh probes to the card, both in its own folder or in ``--into``. The same release
and tagger give the same files; the ids in ``v2.py`` were chosen with the tagger of VL-Assay 0.2.

The card's audit of v2 is a separate section, which ``vl-assay audit sugarcrepe/v2 --card`` writes.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...metrics.common.documents import simple_table, to_markdown
from ...metrics.common.formatting import percent, words
from ...metrics.common.storage import write_text
from ..authoring.audit.probes import PROBES, TREES, group_pairs, run_probes
from ..authoring.data.pairs import Pair, read_pairs
from ..authoring.refine.refine import refine
from .v2 import texts_hash

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


def as_module(kept: Sequence[Pair], template: str) -> str:
    """The text of ``v2.py`` with the ids of some pairs in place of those of `template`."""
    keys: dict[str, list[str]] = defaultdict(list)
    for pair in kept:
        keys[pair.category].append(pair.id.removeprefix(f"{pair.category}/"))
    filled = {category: textwrap.fill(" ".join(found), 118) for category, found in sorted(keys.items())}
    blocks = "".join(f'    "{category}": """\n{text}\n""",\n' for category, text in filled.items())
    found = texts_hash((pair.id, pair.positive, pair.negative) for pair in kept)
    template = re.sub(r'(?m)^TEXTS = ".*"$', f'TEXTS = "{found}"', template)
    return re.sub(r"(?s)(\n_KEYS = \{\n).*?(\n?\}\n)", lambda match: f"{match[1]}{blocks}}}\n", template)


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
    """Write ``v2.py`` and the card's section."""
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(prog="make_v2", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", help="the release: a folder with data/swap_obj.json and the other files")
    parser.add_argument("--into", type=Path, default=here, help="where v2.py and README.md are updated")
    chosen = parser.parse_args(arguments)
    pairs = read_pairs("sugarcrepe/itm", data_dir=chosen.folder)
    kept = choose(pairs)
    module, card = chosen.into / "v2.py", chosen.into / "README.md"
    write_text(module, as_module(kept, (here / "v2.py").read_text("utf-8")))
    section = as_section(pairs, kept)
    text = re.sub(r"(?s)(<!-- v2 -->\n).*(<!-- /v2 -->)", rf"\g<1>{section}\g<2>", card.read_text("utf-8"))
    write_text(card, text)
    print(f"{len(kept):,} of {len(pairs):,} pairs are kept; written: {module}, {card}")


if __name__ == "__main__":
    main()
