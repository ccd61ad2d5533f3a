"""Mock models with known results: the sanity baselines of every benchmark.

| name | score of a caption | answer to a question | boxes of a phrase |
|---|---|---|---|
| ``mock:constant`` | always 0 | neither yes nor no | the whole image |
| ``mock:shuffled`` | random, a function of image and caption | random, likewise | ten random boxes, likewise |
| ``mock:bag-of-words`` | share of its words that apply | yes if all words apply | objects that fit the phrase |
| ``mock:oracle`` | whether it is true | the truth | what the phrase refers to, if the caption is true |
| ``mock:nan`` | NaN, an error | NaN | none |

The similarity of two captions is the share of words that they have in common (bag-of-words), or whether they mean the
same (oracle); the other mocks score captions as they score images. The oracle reads the scenes of toy_scenes and
supports no other images. Each mock supports every type of task; the cards state their results.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from ..hub_datasets.toy_scenes.language import MEANING, NounPhrase, applies, parse
from ..hub_datasets.toy_scenes.render import box, read_scene
from ..hub_datasets.toy_scenes.world import Scene
from ..metrics.common.errors import ModelError, check_known
from .engine.protocol import Detections, LoadOptions, ModelInfo, PhraseQuery, choose

MODEL_TYPES = ()
_QUESTION = "is there "
_RANDOM_BOXES = 10

Box = tuple[float, float, float, float]


class _Constant:
    """A mock's knowledge of one image: here only its size. Answers above 0 mean yes, below 0 no."""

    value = 0.0

    def __init__(self, image: Image.Image) -> None:
        self.size = image.size

    def score(self, caption: str) -> float:
        return self.value

    @classmethod
    def similarity(cls, text: str, compared: str) -> float:
        return cls.value

    def answer(self, question: str) -> float:
        return self.value

    def boxes(self, query: PhraseQuery) -> list[tuple[Box, float]]:
        width, height = self.size
        return [((0.0, 0.0, float(width), float(height)), 0.0)]


class _Nan(_Constant):
    value = math.nan

    def boxes(self, query: PhraseQuery) -> list[tuple[Box, float]]:
        return []


class _Shuffled(_Constant):
    def __init__(self, image: Image.Image) -> None:
        super().__init__(image)
        self._pixels = _digest(image.tobytes())

    def score(self, caption: str) -> float:
        return _random(self._pixels, caption)

    @classmethod
    def similarity(cls, text: str, compared: str) -> float:
        return _random(b"", "\0".join(sorted((text, compared))))

    def answer(self, question: str) -> float:
        return _random(self._pixels, question) - 0.5

    def boxes(self, query: PhraseQuery) -> list[tuple[Box, float]]:
        boxes = []
        for number in range(_RANDOM_BOXES):
            draws = (_random(self._pixels, f"{query}{number}{corner}") for corner in range(5))
            (x1, x2), (y1, y2) = sorted(itertools.islice(draws, 2)), sorted(itertools.islice(draws, 2))
            width, height = self.size
            boxes.append(((x1 * width, y1 * height, x2 * width, y2 * height), next(draws)))
        return boxes


class _BagOfWords(_Shuffled):
    """On images other than toy scenes each word has a random weight."""

    def __init__(self, image: Image.Image) -> None:
        super().__init__(image)
        self._scene = read_scene(image)

    def score(self, caption: str) -> float:
        words = sorted(caption.split())  # so that equal bags have equal sums
        return sum(map(self._weight, words)) / max(len(words), 1)

    @classmethod
    def similarity(cls, text: str, compared: str) -> float:
        ours, theirs = Counter(text.split()), Counter(compared.split())
        return (ours & theirs).total() / max((ours | theirs).total(), 1)

    def answer(self, question: str) -> float:
        return 0.5 if self.score(question.removeprefix(_QUESTION)) == 1 else -0.5

    def boxes(self, query: PhraseQuery) -> list[tuple[Box, float]]:
        if self._scene is None:
            return super().boxes(query)
        things = (thing for phrase in _phrases(query.text) for thing in self._scene.things if phrase.fits(thing))
        return [(box(thing), 1.0) for thing in things]

    def _weight(self, word: str) -> float:
        return _random(self._pixels, word) if self._scene is None else float(applies(word, self._scene))


class _Oracle(_Constant):
    def __init__(self, image: Image.Image) -> None:
        super().__init__(image)
        scene = read_scene(image)
        if scene is None:
            raise ModelError("mock:oracle reads the scene that images of toy_scenes carry, and this image carries none")
        self._scene: Scene = scene

    def score(self, caption: str) -> float:
        statement = parse(caption)
        if statement is None:  # a single object, as in the prompts of zero-shot classification
            return float(any(phrase.fits(thing) for phrase in _phrases(caption) for thing in self._scene.things))
        return float(statement.is_true_of(self._scene))

    @classmethod
    def similarity(cls, text: str, compared: str) -> float:
        return float(_meaning(text) == _meaning(compared))

    def answer(self, question: str) -> float:
        return self.score(question.removeprefix(_QUESTION)) - 0.5

    def boxes(self, query: PhraseQuery) -> list[tuple[Box, float]]:
        statement = parse(query.caption)
        if statement is None:
            return []
        parts = [number for number, phrase in enumerate(statement.phrases) if phrase.text == query.text]
        players = {things[role] for things in statement.readings(self._scene) for role in parts}
        return [(box(thing), 1.0) for thing in self._scene.things if thing in players]


class Mock:
    """A mock as a `PairScorer`, `TextPairScorer`, `Detector` and `VQAModel`."""

    max_tokens = 10**6

    def __init__(self, name: str, knowledge: type[_Constant]) -> None:
        self.info = ModelInfo(f"mock:{name}", "mock", name, revision="2", dtype="float64", is_baseline=True)
        self._knowledge = knowledge

    def score(self, image: Image.Image, captions: Sequence[str]) -> list[float]:
        """Return the score of each caption."""
        known = self._knowledge(image)
        return [known.score(caption) for caption in captions]

    def score_texts(self, text: str, others: Sequence[str]) -> list[float]:
        """Return the similarity of a text to each of the other texts."""
        return [self._knowledge.similarity(text, candidate) for candidate in others]

    def prepare_image(self, image: Image.Image) -> _Constant:
        """Return the mock's knowledge of the image."""
        return self._knowledge(image)

    def prepare_questions(self, questions: Sequence[str]) -> list[list[int]]:
        """Return the characters of each question."""
        return [[ord(letter) for letter in question] for question in questions]

    def encode_images(self, images: Sequence[_Constant], *, exact: bool = False) -> Sequence[_Constant]:
        """Return the images unchanged."""
        return images

    def answer(
        self,
        features: Sequence[_Constant],
        images: Sequence[int],
        questions: Sequence[Sequence[int]],
        *,
        exact: bool = False,
    ) -> np.ndarray:
        """Return the answer to each question."""
        texts = ["".join(map(chr, question)) for question in questions]
        return np.array([features[image].answer(text) for image, text in zip(images, texts, strict=True)])

    def detect(
        self, images: Sequence[_Constant], sizes: Sequence[tuple[int, int]], queries: Sequence[Sequence[PhraseQuery]]
    ) -> list[list[Detections]]:
        """Return the boxes of each query."""
        return [[_found(known.boxes(query)) for query in asked] for known, asked in zip(images, queries, strict=True)]


def load(checkpoint: str, options: LoadOptions) -> Mock:
    """Return the mock of a name; mocks have no settings."""
    check_known("mock", [checkpoint], _MOCKS)
    choose("mock", options, {})
    return Mock(checkpoint, _MOCKS[checkpoint])


def _phrases(text: str) -> tuple[NounPhrase, ...]:
    """Return the phrase that a text is, or nothing if it is not a phrase."""
    statement = parse(f"{text} and {text}")
    return statement.phrases[:1] if statement else ()


def _meaning(caption: str) -> tuple[Any, ...]:
    """Return a value that is equal for toy_scenes captions with the same meaning."""
    statement = parse(caption)
    if statement is None:
        raise ModelError(f"mock:oracle knows the meaning of captions of toy_scenes, and {caption!r:.80} is none")
    phrases = [tuple(MEANING[word] for word in (*phrase.adjectives, phrase.noun)) for phrase in statement.phrases]
    if statement.relation is None:
        return (None, *sorted(phrases))
    return (MEANING[statement.relation], *phrases[:2], *sorted(phrases[2:]))


def _found(boxes: list[tuple[Box, float]]) -> Detections:
    table = np.array([[*corners, score] for corners, score in sorted(boxes, key=lambda pair: -pair[1])]).reshape(-1, 5)
    return Detections(table[:, :4], table[:, 4])


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _random(pixels: bytes, text: str) -> float:
    """Return a pseudorandom number in [0, 1), a function of image and text."""
    return int.from_bytes(_digest(pixels + text.encode())[:8], "big") / 2**64


_MOCKS: dict[str, type[_Constant]] = {
    "constant": _Constant,
    "shuffled": _Shuffled,
    "bag-of-words": _BagOfWords,
    "oracle": _Oracle,
    "nan": _Nan,
}
CHECKPOINTS = tuple(_MOCKS)
