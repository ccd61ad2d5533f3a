"""The conditions of the study, the data that have them, and how large it is.

Everything here, and the rule of the verdicts in ``findings``, was fixed before the study was run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ....metrics.common.errors import ScoresError, check_known

PLAIN, CLEANED = "none", "cleaned"
# The strategies of ARO's Tables 3 and 4, in their order.
TEXT_SHUFFLES = {
    "shuffle_nouns_and_adjectives": "nouns and adjectives",
    "shuffle_all_words": "all words",
    "shuffle_all_but_nouns_and_adjectives": "all but nouns and adjectives",
    "shuffle_trigrams": "trigrams",
    "shuffle_within_trigrams": "within trigrams",
}
IMAGE_SHUFFLES = {"shuffle_rows_4": "rows (4)", "shuffle_columns_4": "columns (4)", "shuffle_patches_9": "patches (9)"}
LABELS = {PLAIN: "nothing", CLEANED: "nothing, captions cleaned", **TEXT_SHUFFLES, **IMAGE_SHUFFLES}
CONDITIONS = tuple(LABELS)
# What each kind of shuffle is compared with: text shuffles are made of cleaned captions.
BASELINES = {CLEANED: TEXT_SHUFFLES, PLAIN: IMAGE_SHUFFLES}
# For each kind of order the shuffle that leaves the least of it, and what that is compared with: for the verdicts.
STRONGEST = {"words": ("shuffle_all_words", CLEANED), "parts of the image": ("shuffle_patches_9", PLAIN)}


def baseline(condition: str) -> str | None:
    """What a condition is compared with; None for what is not shuffled."""
    return next((base for base, shuffles in BASELINES.items() if condition in shuffles), None)


class Source(NamedTuple):
    """Data of the study: configurations of benchmarks, see `Design.reference`, and tests of composition."""

    retrieval: str
    order: str
    composition: tuple[str, ...] = ()


TOY = "toy_scenes"
# Benchmarks that take nothing from the user's data.
GENERATED = ("toy_order", "toy_scenes")
SOURCES = {
    TOY: Source("toy_order/retrieval", "toy_order/order", ("toy_scenes/itm",)),
    "coco": Source("retrieval/coco", "aro/coco_order"),
    "flickr30k": Source("retrieval/flickr30k", "aro/flickr30k_order"),
}


@dataclass(frozen=True)
class Design:
    """What is measured.

    Args:
        dataset: a key of `SOURCES`.
        seeds: of the permutations in retrieval; the paper has three.
        order_seeds: of those in the order task; the paper has five.
        composition: parts of benchmarks whose accuracy stands beside; None for those of the data.
        limit: the most examples of each task, for a quick look; None for all.

    Raises:
        UnknownNameError: no such data.
        ScoresError: no seed, or one twice.
    """

    dataset: str = TOY
    seeds: tuple[int, ...] = (0, 1, 2)
    order_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    composition: tuple[str, ...] | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        check_known("dataset of the study", [self.dataset], SOURCES)
        for name, seeds in (("seeds", self.seeds), ("order_seeds", self.order_seeds)):
            if not seeds or len(set(seeds)) < len(seeds):
                raise ScoresError(f"{name} are {list(seeds)}; give at least one seed, and each once")

    def reference(self, condition: str) -> str:
        """The configuration of a condition of retrieval."""
        name = SOURCES[self.dataset].retrieval
        return name if condition == PLAIN else f"{name}_{condition}"

    def runs(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Everything to predict: a part of a benchmark and the seeds with which it is drawn, none where none is."""
        for condition in CONDITIONS:
            # Without a shuffle all seeds give the same rows.
            yield self.reference(condition), self.seeds if baseline(condition) else self.seeds[:1]
        yield SOURCES[self.dataset].order, self.order_seeds
        yield from ((reference, ()) for reference in self.composition_references)

    @property
    def composition_references(self) -> tuple[str, ...]:
        """The parts of benchmarks that test composition."""
        return SOURCES[self.dataset].composition if self.composition is None else self.composition


QUICK = Design(seeds=(0, 1), order_seeds=(0, 1), limit=200)
