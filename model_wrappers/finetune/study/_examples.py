"""What the models of a study are tested on, and their scores."""

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
_AT_ONCE = 64


class Example(NamedTuple):
    """A scene of the test split and captions to rank.

    Attributes:
        task: ``"hard_positives"``: the caption, its hard positive and its hard negative; or one of `ARTEFACTS`: the
            caption, its hard negative, and the same negative with the artefact.
        category: in toy_scenes, of ``hard_positives`` or ``itm``.
        scene: its number in the test split.
        captions: three.
    """

    task: str
    category: str
    scene: int
    captions: tuple[str, str, str]


def with_final_stop(caption: str) -> str:
    """A planted artefact that is easy to see: a final stop, which no caption of toy_scenes has.

    The released pairs of SugarCrepe have it the other way round (see its card's audit).
    """
    return f"{caption}."


def with_wrong_article(caption: str) -> str:
    """A planted artefact that is hard to see: the wrong one of "a" and "an" before a caption's first phrase.

    As a rule leaves it that puts another word in without a look at the article; here each negative has it.

    >>> with_wrong_article("a red circle above an azure square")
    'an red circle above an azure square'
    """
    article, rest = caption.split(" ", 1)
    return f"{'an' if article == 'a' else 'a'} {rest}"


ARTEFACTS: Mapping[str, Callable[[str], str]] = {"article": with_wrong_article, "stop": with_final_stop}


@lru_cache(1)
def make_examples(scenes: int) -> Sequence[Example]:
    """The examples of the first scenes of the test split, of ``hard_positives`` first."""
    found = [
        Example("hard_positives", row["category"], number, tuple(row[f"{name}caption"] for name in _TRIPLE))
        for number in range(scenes)
        for row in task_rows("hard_positives", _TEST_WORLD, "test", number)[1]
    ]
    for number in range(scenes):
        for row in task_rows("itm", _TEST_WORLD, "test", number)[1]:
            if row["category"] in _ITM:
                true, negative = row["caption"], row["negative_caption"]
                for name, plant in ARTEFACTS.items():
                    found.append(Example(name, row["category"], number, (true, negative, plant(negative))))
    return tuple(found)


def score_examples(model: Any, examples: Sequence[Example]) -> NDArray[np.float64]:
    """Cosines of each example's captions with its scene: float64 of shape (m, 3), higher is a better match.

    Raises:
        ScoresError: the model is no dual encoder.
    """
    if not isinstance(model, DualEncoder):
        raise ScoresError(f"{model.info.name} gives no embeddings; take a dual encoder")
    texts = sorted({text for example in examples for text in example.captions}, key=lambda text: (len(text), text))
    places = {text: place for place, text in enumerate(texts)}
    scenes = sorted({example.scene for example in examples})
    rows = {scene: row for row, scene in enumerate(scenes)}
    captions = np.concatenate([model.encode_captions(model.prepare_captions(part)) for part in _parts(texts, _AT_ONCE)])
    images = np.concatenate(
        [
            model.encode_images([model.prepare_image(_picture(scene)) for scene in part])
            for part in _parts(scenes, _AT_ONCE)
        ]
    )
    mine = images[[rows[example.scene] for example in examples]].astype(np.float64)
    theirs = captions[[[places[text] for text in example.captions] for example in examples]].astype(np.float64)
    return np.einsum("md,mcd->mc", mine, theirs)


def _picture(scene: int) -> Any:
    [row, *_] = task_rows("captions", _TEST_WORLD, "test", scene)[1]
    return render(row["image"])


def _parts(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
