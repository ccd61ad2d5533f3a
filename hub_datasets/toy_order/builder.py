"""toy_scenes without order: its retrieval set with shuffled captions or images, and the order task, drawn by a seed.

After ARO (Yuksekgonul et al., ICLR 2023), sections 2.3 and 3.1. Scenes and captions come from the test split of
toy_scenes; only permutations depend on the seed. Nouns and adjectives are known from the lexicon, without a tagger.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import datasets
from PIL import Image

from ..authoring.text.perturb import caption_rng, shuffle_image
from ..authoring.text.shuffles import CONDITIONS, IMAGE_SHUFFLES, TEXT_SHUFFLES, UNSHUFFLED
from ..sources.builders import check_options
from ..sources.columns import columns
from ..sources.crops import to_png
from ..toy_scenes.render import to_png as render
from ..toy_scenes.retrieval import POOL
from ..toy_scenes.tasks import TASKS, sample_episode, shuffle_words, task_rows

ORDER = "order"
ALL_WORDS = "shuffle_all_words"
# The condition of each configuration of retrieval.
RETRIEVAL = {("retrieval" if name == UNSHUFFLED else f"retrieval_{name}"): name for name in CONDITIONS}
CONFIG_NAMES = (*RETRIEVAL, ORDER)
# How many scenes of toy_scenes' test split: its retrieval set, and all.
SIZES = {"retrieval": POOL, ORDER: 1000}
_WORLD, _SPLIT = 0, "test"


@dataclass
class ToyOrderConfig(datasets.BuilderConfig):
    """The permutations of a configuration: another `seed`, any whole number, draws others."""

    seed: int = 0


class ToyOrder(datasets.GeneratorBasedBuilder):
    """Eleven configurations, one split `test`; the card has the columns of each."""

    config: ToyOrderConfig
    BUILDER_CONFIG_CLASS = ToyOrderConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        ToyOrderConfig(name=name, version=datasets.Version("1.0.0")) for name in CONFIG_NAMES
    ]
    DEFAULT_CONFIG_NAME = "retrieval"

    def _info(self) -> datasets.DatasetInfo:
        texts = "caption negative_captions perturbations" if self.config.name == ORDER else "captions condition"
        return datasets.DatasetInfo(features=datasets.Features(columns(f"id image filename {texts} seed")))

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        check_options(self.config)
        return [datasets.SplitGenerator(name=_SPLIT)]

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        make = self._order_row if self.config.name == ORDER else self._retrieval_row
        for index in range(SIZES[ORDER if self.config.name == ORDER else "retrieval"]):
            row_id = f"{_SPLIT}-{index:06d}"
            row = {"id": row_id, **make(index, row_id), "seed": self.config.seed}
            yield row_id, row | {"filename": row["image"]["path"]}

    def _order_row(self, index: int, row_id: str) -> dict[str, Any]:
        episode = sample_episode(_WORLD, _SPLIT, index)
        rng = caption_rng(self.config.seed, ORDER, row_id)
        [row] = TASKS[ORDER](episode, rng)
        return row | {"image": {"path": f"{row_id}.png", "bytes": render(episode.scene)}}

    def _retrieval_row(self, index: int, row_id: str) -> dict[str, Any]:
        condition, seed = RETRIEVAL[self.config.name], self.config.seed
        row = _scene_and_captions(index)
        name, content, captions = f"{row_id}.png", render(row["image"]), row["captions"]
        if condition in IMAGE_SHUFFLES:
            shuffled = shuffle_image(Image.open(io.BytesIO(content)), condition, name, seed)
            # Another name for each order: it is part of the data's fingerprint.
            name, content = f"{row_id}-{condition}-{seed}.png", to_png(shuffled)
        if condition in TEXT_SHUFFLES:
            captions = [shuffle_caption(condition, caption, seed) for caption in captions]
        return {"image": {"path": name, "bytes": content}, "captions": captions, "condition": condition}


@cache
def _scene_and_captions(index: int) -> dict[str, Any]:
    """Return a row of toy_scenes' retrieval set, which all configurations shuffle."""
    _, [row] = task_rows("retrieval", _WORLD, _SPLIT, index)
    return row


def shuffle_caption(shuffle: str, caption: str, seed: int) -> str:
    """Shuffle the words of a toy_scenes caption by one of `TEXT_SHUFFLES`, drawing until the text changes.

    Every such caption has two different nouns and three function words, so that each shuffle can change it. The draw
    depends on the seed, the shuffle and the caption only.

    Source: ARO (Yuksekgonul et al., ICLR 2023), Table 1, and section 3.1 for ``"shuffle_all_words"``.

    >>> shuffle_caption("shuffle_trigrams", "a red disc above a star", 0)
    'above a star a red disc'
    """
    rng, words = caption_rng(seed, shuffle, caption), caption.split()
    while True:
        shuffled = rng.permutation(words).tolist() if shuffle == ALL_WORDS else shuffle_words(shuffle, words, rng)
        if shuffled != words:
            return " ".join(shuffled)
