"""Scorers whose result is known beforehand: the sanity gates that every benchmark must pass.

| name | what it says | what it must score |
|---|---|---|
| ``mock:constant`` | the same of every pair | nothing (a tie is wrong), chance where a tie counts half |
| ``mock:shuffled`` | a random number for each pair, fixed by its content | chance |
| ``mock:bag-of-words`` | how many of the caption's words apply, whatever their order | ties on equal bags of words |
| ``mock:oracle`` | whether the caption is true of the scene (toy_scenes only) | everything |
| ``mock:nan`` | NaN | is refused |
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

from PIL import Image

from ..hub_datasets.toy_scenes.language import applies, parse
from ..hub_datasets.toy_scenes.render import read_scene
from ..metrics.errors import ModelError, UnknownNameError
from ._protocol import LoadOptions, ModelInfo

MODEL_TYPES = ()


Rule = Callable[[Image.Image], Callable[[str], float]]


class Mock:
    """A scorer that applies a rule to each pair; the rule looks at an image once and then at its captions."""

    def __init__(self, name: str, rule: Rule) -> None:
        self.info = ModelInfo(f"mock:{name}", "mock", name, revision="1", dtype="float64")
        self._rule = rule

    def score(self, image: Image.Image, captions: Sequence[str]) -> list[float]:
        """The rule's score of each caption."""
        judge = self._rule(image)
        return [judge(caption) for caption in captions]


def load(checkpoint: str, options: LoadOptions) -> Mock:
    """The mock of that name."""
    if checkpoint not in _RULES:
        raise UnknownNameError("mock", checkpoint, _RULES)
    return Mock(checkpoint, _RULES[checkpoint])


def _constant(image: Image.Image) -> Callable[[str], float]:
    return lambda caption: 0.0


def _nan(image: Image.Image) -> Callable[[str], float]:
    return lambda caption: math.nan


def _shuffled(image: Image.Image) -> Callable[[str], float]:
    pixels = _digest(image.tobytes())
    return lambda caption: _random(pixels, caption)


def _bag_of_words(image: Image.Image) -> Callable[[str], float]:
    """The mean over the words, in sorted order so that equal bags give equal sums.

    In a toy scene a word counts 1 if it applies; elsewhere each word has a random weight for each image.
    """
    scene = read_scene(image)
    pixels = _digest(image.tobytes())

    def weight(word: str) -> float:
        return _random(pixels, word) if scene is None else float(applies(word, scene))

    def score(caption: str) -> float:
        words = sorted(caption.split())
        return sum(map(weight, words)) / max(len(words), 1)

    return score


def _oracle(image: Image.Image) -> Callable[[str], float]:
    scene = read_scene(image)
    if scene is None:
        raise ModelError("mock:oracle reads the scene that images of toy_scenes carry, and this image carries none")

    def score(caption: str) -> float:
        statement = parse(caption)
        return float(statement is not None and statement.is_true_of(scene))

    return score


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _random(pixels: bytes, text: str) -> float:
    """A number in [0, 1) that is fixed by an image and a text."""
    return int.from_bytes(_digest(pixels + text.encode())[:8], "big") / 2**64


_RULES: dict[str, Rule] = {
    "constant": _constant,
    "shuffled": _shuffled,
    "bag-of-words": _bag_of_words,
    "oracle": _oracle,
    "nan": _nan,
}
CHECKPOINTS = tuple(_RULES)
