"""Test examples of the study, and a model's scores of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....hub_datasets.toy_scenes.render import render
from ....hub_datasets.toy_scenes.tasks import task_rows
from ....metrics.common.errors import ScoresError
from ...engine.protocol import DualEncoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TEST_WORLD = 0
_ITM = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
_TRIPLE = ("", "positive_", "negative_")
_BATCH = 64


class Example(NamedTuple):
    """A scene of the test split and three captions to rank.

    Attributes:
        task: ``"hard_positives"``: the caption, its hard positive and its hard negative; or one of `ARTEFACTS`: the
            caption, its hard negative, and the same negative with the artefact.
        category: in toy_scenes, of ``hard_positives`` or ``itm``.
        scene: its index in the test split.
        captions: the three captions.
    """

    task: str
    category: str
    scene: int
    captions: tuple[str, str, str]


# One that is hard to see, the wrong one of "a" and "an" before the first phrase; and one that is easy to see, a final
# period, which no caption of toy_scenes has.
ARTEFACTS: Mapping[str, Callable[[str], str]] = {
    "article": lambda caption: ("an" if caption.startswith("a ") else "a") + caption[caption.index(" ") :],
    "stop": "{}.".format,
}


@lru_cache(1)
def make_examples(scenes: int) -> Sequence[Example]:
    """The examples of the first scenes of the test split, those of ``hard_positives`` first."""
    found = [
        Example("hard_positives", row["category"], scene, tuple(row[f"{name}caption"] for name in _TRIPLE))
        for scene in range(scenes)
        for row in task_rows("hard_positives", _TEST_WORLD, "test", scene)[1]
    ]
    for scene in range(scenes):
        for row in task_rows("itm", _TEST_WORLD, "test", scene)[1]:
            if row["category"] in _ITM:
                negative = row["negative_caption"]
                found += [
                    Example(name, row["category"], scene, (row["caption"], negative, plant(negative)))
                    for name, plant in ARTEFACTS.items()
                ]
    return tuple(found)


def score_examples(model: Any, examples: Sequence[Example]) -> NDArray[np.float64]:
    """Cosines of each example's captions with its scene: float64 of shape (m, 3), higher is a better match.

    Raises:
        ScoresError: the model is not a dual encoder.
    """
    if not isinstance(model, DualEncoder):
        raise ScoresError(f"{model.info.name} gives no embeddings; use a dual encoder")
    texts = sorted({text for example in examples for text in example.captions}, key=lambda text: (len(text), text))
    scenes = sorted({example.scene for example in examples})
    captions = np.concatenate([model.encode_captions(model.prepare_captions(part)) for part in _batches(texts)])
    worlds = [task_rows("captions", _TEST_WORLD, "test", scene)[1][0]["image"] for scene in scenes]
    images = np.concatenate(
        [model.encode_images([model.prepare_image(render(world)) for world in part]) for part in _batches(worlds)]
    )
    row_of_text = {text: row for row, text in enumerate(texts)}
    row_of_scene = {scene: row for row, scene in enumerate(scenes)}
    image_rows = images[[row_of_scene[example.scene] for example in examples]]
    caption_rows = captions[[[row_of_text[text] for text in example.captions] for example in examples]]
    return np.einsum("md,mcd->mc", image_rows.astype(np.float64), caption_rows.astype(np.float64))


def _batches(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[start : start + _BATCH] for start in range(0, len(items), _BATCH)]
