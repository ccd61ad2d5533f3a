"""Test examples of the study, and a model's scores of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....hub_datasets.toy_scenes.language import Statement, parse
from ....hub_datasets.toy_scenes.render import render
from ....hub_datasets.toy_scenes.tasks import task_rows
from ....metrics.common.errors import ScoresError
from ...demo_clip_web.captions import in_common_words, with_synonym_of_difference
from ...engine.protocol import DualEncoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TEST_WORLD = 0
_BATCH = 64
# Columns of the captions and scores of an example.
CAPTION, POSITIVE, NEGATIVE, STOPPED = range(4)


class Example(NamedTuple):
    """A scene of the test split and four captions to rank, of a row of ``toy_scenes/hard_positives``.

    The caption is in common words. The hard positive has the rare synonym of one of them, or the phrases in the other
    order. The hard negative has the false word that the row has, common or rare, or exchanged attributes.

    Attributes:
        category: of the row.
        scene: its index in the test split.
        captions: the caption, its hard positive, its hard negative, and the hard negative with a final period, which
            no caption of toy_scenes has.
    """

    category: str
    scene: int
    captions: tuple[str, str, str, str]


@lru_cache(1)
def make_examples(scenes: int) -> Sequence[Example]:
    """The examples of the first scenes of the test split, four of each."""
    return tuple(
        _example(scene, row)
        for scene in range(scenes)
        for row in task_rows("hard_positives", _TEST_WORLD, "test", scene)[1]
    )


def _example(scene: int, row: dict[str, Any]) -> Example:
    drawn, false = (_parsed(row[key]) for key in ("caption", "negative_caption"))
    caption = in_common_words(drawn)
    if row["category"] == "swap":
        positive, negative = Statement(caption.phrases[::-1]), in_common_words(false)
    else:
        positive = with_synonym_of_difference(caption, in_common_words(false))
        negative = _with_words_of(caption, drawn, false)
    return Example(row["category"], scene, (caption.text, positive.text, negative.text, f"{negative.text}."))


def _with_words_of(caption: Statement, drawn: Statement, false: Statement) -> Statement:
    """The caption in common words, with the word in which the row's negative differs from the row's caption."""
    phrases = []
    for common, ours, theirs in zip(caption.phrases, drawn.phrases, false.phrases, strict=True):
        changed = {*theirs.adjectives, theirs.noun} - {*ours.adjectives, ours.noun}
        for word in changed:
            common = common.with_word(word)
        phrases.append(common)
    return Statement(tuple(phrases), caption.relation if drawn.relation == false.relation else false.relation)


def _parsed(text: str) -> Statement:
    statement = parse(text)
    if statement is None:
        raise ValueError(f"{text!r} does not follow the grammar of toy_scenes")
    return statement


def score_examples(model: Any, examples: Sequence[Example]) -> NDArray[np.float64]:
    """Cosines of each example's captions with its scene: float64 of shape (m, 4), higher is a better match.

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
