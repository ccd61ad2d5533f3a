"""float32's decisions at nearly the speed of bfloat16: ``--dtype auto``, for dual encoders and matching tasks.

Everything is computed in bfloat16, and a sample of the examples in float32 too. The difference of two scores that
decides an example is off by the difference of two rounding errors; `BOUND` times its root mean square over the sample,
of examples with as many images and captions, is the bound below which a decision is open. Open ones are computed again
in two stages: first the captions in float32, after which only the images' rounding is left, whose bound is measured
apart and is lower; then the images of those that are still open. What lies within rounding of float32 itself is
re-checked in float64, as always.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from ...metrics.common.errors import ModelError
from .plan import Pairs
from .protocol import DualEncoder, LoadOptions

AUTO = "auto"
# Errors are nearly normal: beyond five standard deviations lies one decision in two million.
BOUND = 5
SAMPLE = 32, 256  # the least and the most examples, of which it is a sixteenth

_FACTS = (
    "bfloat16_bound",
    "bfloat16_bound_of_images",
    "scores_with_float32_captions",
    "scores_with_float32_images",
    "margins_in_sample",
    "margins_that_bfloat16_turns",
)

Rows = Callable[[np.ndarray], np.ndarray]


class TwoPrecisions:
    """A dual encoder in bfloat16, with the same in float32 for what bfloat16 cannot decide."""

    def __init__(self, fast: DualEncoder, precise: DualEncoder) -> None:
        self.fast, self.precise = fast, precise
        self.info = replace(fast.info, dtype=AUTO)
        self.max_tokens = fast.max_tokens
        self.shares_prefixes = getattr(fast, "shares_prefixes", False)

    @property
    def device(self) -> Any:
        """The device of both."""
        return getattr(self.fast, "device", "cpu")

    def prepare_image(self, image: Image.Image) -> Any:
        """As for one precision."""
        return self.fast.prepare_image(image)

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """As for one precision."""
        return self.fast.prepare_captions(captions)

    def encode_images(self, images: Sequence[Any], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) in bfloat16; with `exact` in float64 by the weights of float32."""
        return self.precise.encode_images(images, exact=True) if exact else self.fast.encode_images(images)

    def encode_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) in bfloat16; with `exact` in float64 by the weights of float32."""
        return self.precise.encode_captions(captions, exact=True) if exact else self.fast.encode_captions(captions)


def load_in_two(load: Callable[[str, LoadOptions], Any], name: str, options: LoadOptions) -> TwoPrecisions:
    """A model in bfloat16 and in float32, by `load`.

    Raises:
        ModelError: it is no dual encoder; or as `load_model`.
    """
    fast = load(name, replace(options, dtype="bfloat16"))
    if not isinstance(fast, DualEncoder):
        raise ModelError(
            f"dtype auto re-computes what bfloat16 cannot decide, from embeddings, which {fast.info.name} does not "
            "give; take float32, bfloat16 or float16"
        )
    precise = load(name, replace(options, dtype="float32"))
    return TwoPrecisions(fast, precise)


class Decided(NamedTuple):
    """Scores of pairs (p,), float64, that decide as float32 does, and counts for the metadata."""

    scores: np.ndarray
    facts: dict[str, Any]


def decide(pairs: Pairs, scores: np.ndarray, images: np.ndarray, see: Rows, read: Rows) -> Decided:
    """Replace the scores of bfloat16 by those of float32 where a decision is open.

    Args:
        pairs: with examples alone.
        scores: (p,), in bfloat16.
        images: for each pair its image's embedding (p, d) in bfloat16.
        see, read: embeddings (n, d) in float32 of images and texts with these numbers, which may repeat.
    """
    found = scores.copy()
    facts: dict[str, Any] = dict.fromkeys(_FACTS, 0)
    for shape in np.unique(pairs.shapes, axis=0):
        if shape.prod() < 2:
            continue
        of_shape = np.flatnonzero((pairs.shapes == shape).all(axis=1))
        chosen = pairs.of_examples(of_shape)
        group = Pairs(pairs.texts, pairs.anchor[chosen], pairs.text[chosen], pairs.shapes[of_shape], [])
        found[chosen], counts = _decide_alike(group, scores[chosen], images[chosen], see, read)
        for name, value in counts.items():
            facts[name] = max(facts[name], value) if "bound" in name else facts[name] + value
    return Decided(found, facts)


def _decide_alike(
    pairs: Pairs, scores: np.ndarray, images: np.ndarray, see: Rows, read: Rows
) -> tuple[np.ndarray, dict[str, Any]]:
    """`decide` for examples of one shape: where images are compared, too, their rounding does not cancel."""
    examples = _sample(pairs.anchor[:: int(pairs.shapes[0].prod())])
    chosen = pairs.of_examples(examples)
    sample = Pairs(pairs.texts, pairs.anchor[chosen], pairs.text[chosen], pairs.shapes[examples], [])
    texts = read(sample.text)
    true, mixed = dots(see(sample.anchor), texts), dots(images[chosen], texts)
    margins = [sample.differences(each) for each in (scores[chosen], mixed, true)]
    bound, bound_of_images = (
        BOUND * max((float(np.sqrt(np.mean((own - exact) ** 2))) for own, exact in zip(each, margins[2], strict=True)))
        for each in margins[:2]
    )
    bound_of_images = min(bound, bound_of_images)

    found = scores.copy()
    near = pairs.near_ties(scores, bound)
    rows = read(pairs.text[near])
    found[near] = dots(images[near], rows)
    open_ = near & pairs.near_ties(found, bound_of_images)
    found[open_] = dots(see(pairs.anchor[open_]), rows[open_[near]])
    rough, exact = (np.sign(np.concatenate(each)) for each in (margins[0], margins[2]))
    values = (bound, bound_of_images, int(near.sum()), int(open_.sum()), len(exact), int((rough != exact).sum()))
    return found, dict(zip(_FACTS, values, strict=True))


def _sample(images: np.ndarray) -> np.ndarray:
    """Numbers of the examples that are computed in both precisions, from the (first) image of each: `SAMPLE`.

    They are those of as few images as have enough, since images cost the most, but of the least number at least.
    """
    size = int(np.clip(len(images) // 16, *SAMPLE))
    distinct = np.unique(images)
    wanted = max(SAMPLE[0], math.ceil(size * len(distinct) / len(images)))
    examples = np.flatnonzero(np.isin(images, _spread(distinct, wanted)))
    return _spread(examples, size)


def _spread(values: np.ndarray, count: int) -> np.ndarray:
    """So many of the values, evenly spaced."""
    return values[np.unique(np.linspace(0, len(values) - 1, count).round().astype(int))]


def describe(facts: Mapping[str, Any], scores: int) -> str:
    """What `decide` did, in a sentence."""
    captions, images = (100 * facts[f"scores_with_float32_{what}"] / max(scores, 1) for what in ("captions", "images"))
    return (
        f"bfloat16 decides differences above {facts['bfloat16_bound']:.2g}; of the scores {captions:.1f} % have their "
        f"captions in float32, {images:.1f} % their images too. It alone would turn "
        f"{facts['margins_that_bfloat16_turns']} of {facts['margins_in_sample']} differences of a sample"
    )


def dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The dot product of each two rows, in float64."""
    return np.einsum("nd,nd->n", a.astype(np.float64), b.astype(np.float64)) if len(a) else np.empty(0)
