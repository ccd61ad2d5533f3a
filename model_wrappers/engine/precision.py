"""float32's decisions at nearly the speed of bfloat16: ``--dtype auto``, for dual encoders and matching tasks.

Everything is computed in mixed precision, whose matrix products are in bfloat16. The difference of two scores that
decides an example is off by the rounding of the captions' embeddings and by that of the image's; the latter reaches it
in proportion to the distance of the two captions. Both are measured on samples that are computed again in float32, for
examples with as many images and captions; `BOUND` times their root mean square is the bound below which a decision is
open. Open ones are computed again in two stages: first the captions in float32, after which only the images' rounding
is left; then the images of those that are still open. What lies within rounding of float32 itself is re-checked in
float64, as always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from ...metrics.common.errors import ModelError
from .plan import Pairs
from .protocol import DualEncoder, LoadOptions

AUTO = "auto"
# Errors are nearly normal. A decision is turned unseen where the error is beyond four standard deviations and the
# difference between the two: with a tenth of the differences below four, that is one decision in some five million.
BOUND = 4
# Samples, each with its least and its most examples and the part of all that it is: those closest to a tie, which are
# mostly computed again anyhow, others, as captions that are close may be off by less, and those with images too.
CLOSEST = 32, 256, 16
OTHERS = 32, 64, 64
WITH_IMAGES = 16, 32, 128

_FACTS = (
    "bfloat16_bound",
    "bfloat16_bound_of_images",
    "scores_with_float32_captions",
    "scores_with_float32_images",
    "examples_in_sample",
    "margins_that_bfloat16_turns",
)

Rows = Callable[[np.ndarray], np.ndarray]


class TwoPrecisions:
    """A dual encoder in mixed precision, with the same in float32 for what that cannot decide."""

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
        """Embeddings (n, d) in mixed precision; with `exact` in float64."""
        return self.precise.encode_images(images, exact=True) if exact else self.fast.encode_images(images)

    def encode_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) in mixed precision; with `exact` in float64."""
        return self.precise.encode_captions(captions, exact=True) if exact else self.fast.encode_captions(captions)


def load_in_two(load: Callable[[str, LoadOptions], Any], name: str, options: LoadOptions) -> TwoPrecisions:
    """A model in mixed precision and in float32, by `load`.

    Raises:
        ModelError: it is no dual encoder of torch; or as `load_model`.
    """
    fast = load(name, options)
    mix = getattr(fast, "mix", None)
    if mix is None or not isinstance(fast, DualEncoder):
        raise ModelError(
            "dtype auto re-computes what bfloat16 cannot decide, from embeddings in two precisions, which "
            f"{fast.info.name} does not give; take float32, bfloat16 or float16"
        )
    mix()
    fast.info = replace(fast.info, dtype="mixed")
    return TwoPrecisions(fast, load(name, options))


class Rough(NamedTuple):
    """Embeddings in mixed precision: for each pair its image's and its text's, both (p, d)."""

    images: np.ndarray
    texts: np.ndarray


class Decided(NamedTuple):
    """Scores of pairs (p,), float64, that decide as float32 does, and counts for the metadata."""

    scores: np.ndarray
    facts: dict[str, Any]


def decide(pairs: Pairs, rough: Rough, see: Rows, read: Rows) -> Decided:
    """The scores of mixed precision, replaced by those of float32 where a decision is open.

    Args:
        pairs: with examples alone.
        rough: their embeddings in mixed precision.
        see, read: embeddings (n, d) in float32 of images and texts with these numbers, ascending.
    """
    see, read = _remembering(see), _remembering(read)
    found = dots(*rough)
    facts: dict[str, Any] = dict.fromkeys(_FACTS, 0)
    for shape in np.unique(pairs.shapes, axis=0):
        if shape.prod() < 2:
            continue
        of_shape = np.flatnonzero((pairs.shapes == shape).all(axis=1))
        chosen = pairs.of_examples(of_shape)
        alike = Rough(rough.images[chosen], rough.texts[chosen])
        found[chosen], counts = _decide_alike(_part(pairs, of_shape), alike, see, read)
        for name, value in counts.items():
            facts[name] = max(facts[name], value) if "bound" in name else facts[name] + value
    return Decided(found, facts)


def _decide_alike(pairs: Pairs, rough: Rough, see: Rows, read: Rows) -> tuple[np.ndarray, dict[str, Any]]:
    """`decide` for examples of one shape: where images are compared, too, their rounding does not cancel."""

    def with_captions(places: np.ndarray) -> np.ndarray:
        return dots(rough.images[places], read(pairs.text[places]))

    def with_both(places: np.ndarray) -> np.ndarray:
        return dots(see(pairs.anchor[places]), read(pairs.text[places]))

    scores = dots(*rough)
    bounds, bounds_of_images, sampled = _bounds(pairs, scores, rough.texts, with_captions, with_both)
    found = scores.copy()
    near = pairs.near_ties(scores, bounds)
    found[near] = with_captions(np.flatnonzero(near))
    open_ = near & pairs.near_ties(found, bounds_of_images)
    found[open_] = with_both(np.flatnonzero(open_))
    sides = zip(pairs.differences(scores), pairs.differences(found), strict=True)
    turned = sum(int((np.sign(one) != np.sign(other)).sum()) for one, other in sides)
    values = (float(bounds.max()), float(bounds_of_images.max()), int(near.sum()), int(open_.sum()), sampled, turned)
    return found, dict(zip(_FACTS, values, strict=True))


def _bounds(
    pairs: Pairs, scores: np.ndarray, texts: np.ndarray, with_captions: Rows, with_both: Rows
) -> tuple[np.ndarray, np.ndarray, int]:
    """Of each example (e,) the bounds of what is open, and of what still is when captions are in float32; and a count.

    Args:
        pairs: of examples of one shape.
        scores: (p,), in mixed precision.
        texts: (p, d), in mixed precision.
        with_captions, with_both: scores of the pairs at some places, with captions, and images too, in float32.

    Returns:
        Both bounds, and the number of examples by which they were measured.
    """

    def errors(examples: np.ndarray, one: Rows, other: Rows) -> list[np.ndarray]:
        places, sample = pairs.of_examples(examples), _part(pairs, examples)
        return [a - b for a, b in zip(*(sample.differences(each(places)) for each in (one, other)), strict=True)]

    count, (rows, columns) = len(pairs.shapes), pairs.shapes[0]
    distances = _distances(pairs, texts)
    gaps = np.hstack([np.abs(each).reshape(count, -1) for each in pairs.differences(scores)]).min(axis=1)
    if columns > 1:
        gaps[distances.max(axis=1) == 0] = np.inf  # texts that are the same show no error
    closest = np.argsort(gaps, kind="stable")[: _size(count, *CLOSEST)]
    others = np.unique(np.linspace(0, count - 1, _size(count, *OTHERS)).astype(np.int64))
    of_captions = max(
        _rms(each) for examples in (closest, others) for each in errors(examples, scores.__getitem__, with_captions)
    )
    few = closest[: _size(count, *WITH_IMAGES)]
    of_images = errors(few, with_captions, with_both)
    limits = [np.full(count, _rms(each)) for each in of_images]
    if columns > 1:  # the first differences are those of texts
        across = np.repeat(distances[few, None], rows, axis=1).ravel()
        apart = across > 0
        limits[0] = _rms(of_images[0][apart] / across[apart]) * distances.max(axis=1)
    bounds_of_images = BOUND * np.max(limits, axis=0)
    return np.hypot(BOUND * of_captions, bounds_of_images), bounds_of_images, len(np.union1d(closest, others))


def _part(pairs: Pairs, examples: np.ndarray) -> Pairs:
    """The pairs of these examples alone."""
    places = pairs.of_examples(examples)
    return Pairs(pairs.texts, pairs.anchor[places], pairs.text[places], pairs.shapes[examples], [])


def _size(count: int, least: int, most: int, part: int) -> int:
    return min(count, max(least, min(most, count // part)))


def _rms(values: np.ndarray) -> float:
    """The root mean square, and the standard error of it, as few values may be small by chance."""
    return float(np.sqrt(np.mean(values**2)) * (1 + 1 / np.sqrt(2 * values.size))) if values.size else 0.0


def _distances(pairs: Pairs, texts: np.ndarray) -> np.ndarray:
    """Of examples of one shape the distances (e, k) of every two texts, by the embeddings (p, d) of each pair's."""
    rows, columns = pairs.shapes[0]
    own = texts.reshape(len(pairs.shapes), rows, columns, -1)[:, 0]
    found = [np.linalg.norm(own[:, one] - own[:, other], axis=1) for one, other in combinations(range(columns), 2)]
    return np.stack(found, axis=1) if found else np.empty((len(own), 0))


def _remembering(rows: Rows) -> Rows:
    """`rows` that computes those of each number once."""
    known: dict[int, np.ndarray] = {}

    def look_up(numbers: np.ndarray) -> np.ndarray:
        new = np.setdiff1d(numbers, np.fromiter(known, np.int64, len(known)))
        if len(new):
            known.update(zip(new.tolist(), rows(new), strict=True))
        return np.stack([known[number] for number in numbers.tolist()]) if len(numbers) else np.empty((0, 0))

    return look_up


def describe(facts: Mapping[str, Any], scores: int) -> str:
    """What `decide` did, in a sentence."""
    captions, images = (100 * facts[f"scores_with_float32_{what}"] / max(scores, 1) for what in ("captions", "images"))
    return (
        f"bfloat16 decides differences above {facts['bfloat16_bound']:.2g}; of the scores {captions:.1f} % have their "
        f"captions in float32, {images:.1f} % their images too. It alone would turn "
        f"{facts['margins_that_bfloat16_turns']} differences"
    )


def dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The dot product of each two rows, in float64."""
    return np.einsum("nd,nd->n", a.astype(np.float64), b.astype(np.float64)) if len(a) else np.empty(0)
