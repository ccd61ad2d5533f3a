"""Scorers whose result is known beforehand: the sanity gates that every benchmark must pass.

| name | of a caption | of a question | of a phrase |
|---|---|---|---|
| ``mock:constant`` | the same score, whatever it says | no answer | a box around the whole image |
| ``mock:shuffled`` | a random score, fixed by image and caption | yes or no, likewise | ten random boxes, likewise |
| ``mock:bag-of-words`` | how many of its words apply | yes if all words apply | what the phrase alone fits |
| ``mock:oracle`` | whether it is true | the truth | what it means where the caption is true |
| ``mock:nan`` | NaN, which is refused | NaN | no box |

The oracle reads the scenes of toy_scenes and knows no other images. Each can be given every kind of task. What they
must score stands on the cards.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image

from ..hub_datasets.toy_scenes.language import applies, parse
from ..hub_datasets.toy_scenes.render import box, read_scene
from ..hub_datasets.toy_scenes.world import Scene
from ..metrics.common.errors import ModelError, UnknownNameError
from .engine.protocol import Detections, LoadOptions, ModelInfo, PhraseQuery

MODEL_TYPES = ()
_QUESTION = "is there "
_RANDOM_BOXES = 10

Box = tuple[float, float, float, float]


class Judge:
    """What a mock says of one image; this one says the same of everything."""

    def __init__(self, image: Image.Image) -> None:
        self.size = image.size

    def score(self, caption: str) -> float:
        """How well the caption matches."""
        return 0.0

    def answer(self, question: str) -> float:
        """Above 0 for yes, below for no."""
        return 0.0

    def boxes(self, query: PhraseQuery) -> list[tuple[Box, float]]:
        """Boxes for a phrase, with how sure it is."""
        width, height = self.size
        return [((0.0, 0.0, float(width), float(height)), 0.0)]


class Nan(Judge):
    """Says nothing that counts."""

    def score(self, caption: str) -> float:
        """NaN."""
        return math.nan

    def answer(self, question: str) -> float:
        """NaN."""
        return math.nan

    def boxes(self, query: PhraseQuery) -> list[tuple[Box, float]]:
        """None."""
        return []


class Shuffled(Judge):
    """Says what is random, and the same whenever it is asked again."""

    def __init__(self, image: Image.Image) -> None:
        super().__init__(image)
        self._pixels = _digest(image.tobytes())

    def score(self, caption: str) -> float:
        """A number in [0, 1)."""
        return _random(self._pixels, caption)

    def answer(self, question: str) -> float:
        """A number in [-1/2, 1/2)."""
        return _random(self._pixels, question) - 0.5

    def boxes(self, query: PhraseQuery) -> list[tuple[Box, float]]:
        """Ten boxes anywhere."""
        found = []
        for number in range(_RANDOM_BOXES):
            draws = (_random(self._pixels, f"{query}{number}{corner}") for corner in range(5))
            (x1, x2), (y1, y2) = sorted(itertools.islice(draws, 2)), sorted(itertools.islice(draws, 2))
            width, height = self.size
            found.append(((x1 * width, y1 * height, x2 * width, y2 * height), next(draws)))
        return found


class BagOfWords(Shuffled):
    """Knows words and not their order. In other images than toy scenes each word has a random weight."""

    def __init__(self, image: Image.Image) -> None:
        super().__init__(image)
        self._scene = read_scene(image)

    def score(self, caption: str) -> float:
        """The mean over the words, in sorted order so that equal bags give equal sums."""
        words = sorted(caption.split())
        return sum(map(self._weight, words)) / max(len(words), 1)

    def answer(self, question: str) -> float:
        """Yes where every word applies."""
        return 0.5 if self.score(question.removeprefix(_QUESTION)) == 1 else -0.5

    def boxes(self, query: PhraseQuery) -> list[tuple[Box, float]]:
        """Around everything that the phrase fits, whatever else the caption says."""
        if self._scene is None:
            return super().boxes(query)
        statement = parse(f"{query.text} and {query.text}")
        phrases = statement.phrases[:1] if statement else ()
        return [(box(thing), 1.0) for phrase in phrases for thing in self._scene.things if phrase.fits(thing)]

    def _weight(self, word: str) -> float:
        return _random(self._pixels, word) if self._scene is None else float(applies(word, self._scene))


class Oracle(Judge):
    """Reads the scene that an image of toy_scenes carries."""

    def __init__(self, image: Image.Image) -> None:
        super().__init__(image)
        scene = read_scene(image)
        if scene is None:
            raise ModelError("mock:oracle reads the scene that images of toy_scenes carry, and this image carries none")
        self._scene: Scene = scene

    def score(self, caption: str) -> float:
        """1 where the caption is true, else 0."""
        statement = parse(caption)
        return float(statement is not None and statement.is_true_of(self._scene))

    def answer(self, question: str) -> float:
        """The truth."""
        return self.score(question.removeprefix(_QUESTION)) - 0.5

    def boxes(self, query: PhraseQuery) -> list[tuple[Box, float]]:
        """Around every thing that plays the phrase's part in the caption, where that is true."""
        statement = parse(query.caption)
        if statement is None:
            return []
        parts = [number for number, phrase in enumerate(statement.phrases) if phrase.text == query.text]
        players = {things[part] for things in statement.readings(self._scene) for part in parts}
        return [(box(thing), 1.0) for thing in self._scene.things if thing in players]


class Mock:
    """A mock as a model: a pair scorer, a detector and one that answers questions."""

    max_tokens = 10**6

    def __init__(self, name: str, judge: type[Judge]) -> None:
        self.info = ModelInfo(f"mock:{name}", "mock", name, revision="2", dtype="float64", is_baseline=True)
        self._judge = judge

    def score(self, image: Image.Image, captions: Sequence[str]) -> list[float]:
        """The score of each caption."""
        judge = self._judge(image)
        return [judge.score(caption) for caption in captions]

    def prepare_image(self, image: Image.Image) -> Judge:
        """What the mock knows of the image."""
        return self._judge(image)

    def prepare_questions(self, questions: Sequence[str]) -> list[list[int]]:
        """The characters of each question."""
        return [[ord(letter) for letter in question] for question in questions]

    def encode_images(self, images: Sequence[Judge], *, exact: bool = False) -> Sequence[Judge]:
        """The images as they are."""
        return images

    def answer(
        self,
        features: Sequence[Judge],
        images: Sequence[int],
        questions: Sequence[Sequence[int]],
        *,
        exact: bool = False,
    ) -> np.ndarray:
        """The answer to each question."""
        texts = ["".join(map(chr, question)) for question in questions]
        return np.array([features[image].answer(text) for image, text in zip(images, texts, strict=True)])

    def detect(
        self, images: Sequence[Judge], sizes: Sequence[tuple[int, int]], queries: Sequence[Sequence[PhraseQuery]]
    ) -> list[list[Detections]]:
        """The boxes of each query."""
        return [[_found(judge.boxes(query)) for query in asked] for judge, asked in zip(images, queries, strict=True)]


def load(checkpoint: str, options: LoadOptions) -> Mock:
    """The mock of that name."""
    if checkpoint not in _JUDGES:
        raise UnknownNameError("mock", checkpoint, _JUDGES)
    return Mock(checkpoint, _JUDGES[checkpoint])


def _found(boxes: list[tuple[Box, float]]) -> Detections:
    boxes = sorted(boxes, key=lambda pair: -pair[1])
    return Detections(
        np.array([corners for corners, _ in boxes]).reshape(-1, 4), np.array([score for _, score in boxes])
    )


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _random(pixels: bytes, text: str) -> float:
    """A number in [0, 1) that is fixed by an image and a text."""
    return int.from_bytes(_digest(pixels + text.encode())[:8], "big") / 2**64


_JUDGES: dict[str, type[Judge]] = {
    "constant": Judge,
    "shuffled": Shuffled,
    "bag-of-words": BagOfWords,
    "oracle": Oracle,
    "nan": Nan,
}
CHECKPOINTS = tuple(_JUDGES)
