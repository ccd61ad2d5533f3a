"""float32's decisions at nearly the speed of bfloat16: ``--dtype auto``, for dual encoders and matching tasks.

Everything is computed in mixed precision, whose matrix products are in bfloat16. The score difference that decides an
example has two errors: the error of the caption embeddings, and the error of the image embedding, whose effect is
proportional to the distance between the two caption embeddings. Both are measured on samples that are computed again in
float32, separately for examples of each number of images and captions. A decision is open if its difference is below
`BOUND` times the root mean square error. Open decisions are computed again in two stages: first with captions in
float32, which leaves the image's error; then, if they are still open, with images in float32 too. Differences within
the rounding error of float32 itself are re-checked in float64, as always.
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
# Errors are nearly normal. A wrong decision goes unnoticed only if the error exceeds four standard deviations and the
# score difference: if a tenth of the differences are below four deviations, this is one decision in some five million.
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
    """A dual encoder in mixed precision, and the same model in float32 to recompute close scores."""

    def __init__(self, fast: DualEncoder, precise: DualEncoder) -> None:
        self.fast, self.precise = fast, precise
        self.info = replace(fast.info, dtype=AUTO)
        self.max_tokens = fast.max_tokens

    @property
    def device(self) -> Any:
        """The device of both models."""
        return getattr(self.fast, "device", "cpu")

    def prepare_image(self, image: Image.Image) -> Any:
        """Prepare as the model in mixed precision does."""
        return self.fast.prepare_image(image)

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """Prepare as the model in mixed precision does."""
        return self.fast.prepare_captions(captions)

    def encode_images(self, images: Sequence[Any], *, exact: bool = False) -> np.ndarray:
        """Return embeddings (n, d) in mixed precision; with `exact` in float64."""
        return self.precise.encode_images(images, exact=True) if exact else self.fast.encode_images(images)

    def encode_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Return embeddings (n, d) in mixed precision; with `exact` in float64."""
        return self.precise.encode_captions(captions, exact=True) if exact else self.fast.encode_captions(captions)


def load_in_two(load: Callable[[str, LoadOptions], Any], name: str, options: LoadOptions) -> TwoPrecisions:
    """Load a model in mixed precision and in float32, by `load`.

    Raises:
        ModelError: it is no dual encoder of torch; or as `load_model`.
    """
    fast = load(name, options)
    mix = getattr(fast, "use_mixed_precision", None)
    if mix is None or not isinstance(fast, DualEncoder):
        raise ModelError(
            "dtype auto re-computes what bfloat16 cannot decide, from embeddings in two precisions, which "
            f"{fast.info.name} does not give; take float32, bfloat16 or float16"
        )
    mix()
    fast.info = replace(fast.info, dtype="mixed")
    return TwoPrecisions(fast, load(name, options))


class EmbeddingLookups(NamedTuple):
    """Look-ups of embeddings (n, d) of images and of texts by their numbers (n,)."""

    images: Rows
    texts: Rows

    def score(self, pairs: Pairs, which: Any = slice(None)) -> np.ndarray:
        """Return the scores of the pairs that a mask or indices select; of all by default."""
        return dots(self.images(pairs.anchor[which]), self.texts(pairs.text[which]))


class Decided(NamedTuple):
    """Scores of pairs (p,), float64, that decide as float32 does, and counts for the metadata."""

    scores: np.ndarray
    facts: dict[str, Any]


def decide(pairs: Pairs, scores: np.ndarray, mixed: EmbeddingLookups, precise: EmbeddingLookups) -> Decided:
    """Return scores in mixed precision, recomputed in float32 where mixed precision cannot decide.

    Args:
        pairs: with examples only, without retrieval sets.
        scores: (p,), in mixed precision.
        mixed, precise: embeddings in mixed precision and in float32; each float32 embedding is computed once.
    """
    precise = EmbeddingLookups(_remembering(precise.images), _remembering(precise.texts))
    decided = scores.copy()
    facts: dict[str, Any] = dict.fromkeys(_FACTS, 0)
    for shape in np.unique(pairs.shapes, axis=0):
        if shape.prod() < 2:
            continue
        of_shape = np.flatnonzero((pairs.shapes == shape).all(axis=1))
        pair_indices = pairs.of_examples(of_shape)
        decided[pair_indices], counts = _decide_alike(_part(pairs, of_shape), scores[pair_indices], mixed, precise)
        for name, value in counts.items():
            facts[name] = max(facts[name], value) if "bound" in name else facts[name] + value
    return Decided(decided, facts)


def _decide_alike(
    pairs: Pairs, scores: np.ndarray, mixed: EmbeddingLookups, precise: EmbeddingLookups
) -> tuple[np.ndarray, dict[str, Any]]:
    """Decide examples of one shape; if images are also compared, their rounding errors do not cancel."""
    captions_only = EmbeddingLookups(mixed.images, precise.texts)
    bounds, bounds_of_images, sampled = _bounds(pairs, scores, mixed, precise)
    decided = scores.copy()
    near = pairs.near_ties(scores, bounds)
    decided[near] = captions_only.score(pairs, near)
    open_ = near & pairs.near_ties(decided, bounds_of_images)
    decided[open_] = precise.score(pairs, open_)
    sides = zip(pairs.differences(scores), pairs.differences(decided), strict=True)
    turned = sum(int((np.sign(before) != np.sign(after)).sum()) for before, after in sides)
    values = (float(bounds.max()), float(bounds_of_images.max()), int(near.sum()), int(open_.sum()), sampled, turned)
    return decided, dict(zip(_FACTS, values, strict=True))


def _bounds(
    pairs: Pairs, scores: np.ndarray, mixed: EmbeddingLookups, precise: EmbeddingLookups
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return for each example (e,) the bounds below which a decision is open, first and with captions in float32.

    The arguments are as for `decide`, for examples of one shape. The third result is the number of sampled examples.
    """

    def errors(examples: np.ndarray, coarse: EmbeddingLookups, fine: EmbeddingLookups) -> list[np.ndarray]:
        indices, sample = pairs.of_examples(examples), _part(pairs, examples)
        sides = (sample.differences(embeddings.score(pairs, indices)) for embeddings in (coarse, fine))
        return [coarse_difference - fine_difference for coarse_difference, fine_difference in zip(*sides, strict=True)]

    captions_only = EmbeddingLookups(mixed.images, precise.texts)
    count, (rows, columns) = len(pairs.shapes), pairs.shapes[0]
    distances = _distances(pairs, mixed.texts)
    gaps = np.hstack([np.abs(values).reshape(count, -1) for values in pairs.differences(scores)]).min(axis=1)
    if columns > 1:
        gaps[distances.max(axis=1) == 0] = np.inf  # texts that are the same show no error
    closest = np.argsort(gaps, kind="stable")[: _sample_size(count, *CLOSEST)]
    spread = np.unique(np.linspace(0, count - 1, _sample_size(count, *OTHERS)).astype(np.int64))
    of_captions = max(
        _deviation(values) for examples in (closest, spread) for values in errors(examples, mixed, captions_only)
    )
    few = closest[: _sample_size(count, *WITH_IMAGES)]
    of_images = errors(few, captions_only, precise)
    limits = [np.full(count, _deviation(values)) for values in of_images]
    if columns > 1:  # the differences of texts come first
        across = np.repeat(distances[few, None], rows, axis=1).ravel()
        apart = across > 0
        limits[0] = _deviation(of_images[0][apart] / across[apart]) * distances.max(axis=1)
    bounds_of_images = BOUND * np.max(limits, axis=0)
    return np.hypot(BOUND * of_captions, bounds_of_images), bounds_of_images, len(np.union1d(closest, spread))


def _part(pairs: Pairs, examples: np.ndarray) -> Pairs:
    """Return the pairs of some examples."""
    indices = pairs.of_examples(examples)
    return Pairs(pairs.texts, pairs.anchor[indices], pairs.text[indices], pairs.shapes[examples], [])


def _sample_size(count: int, least: int, most: int, divisor: int) -> int:
    return min(count, max(least, min(most, count // divisor)))


def _deviation(values: np.ndarray) -> float:
    """Return the root mean square plus its standard error, as few values may be small by chance."""
    return float(np.sqrt(np.mean(values**2)) * (1 + 1 / np.sqrt(2 * values.size))) if values.size else 0.0


def _distances(pairs: Pairs, texts: Rows) -> np.ndarray:
    """Return the distances (e, k) between every two text embeddings of each example; all examples have one shape."""
    rows, columns = pairs.shapes[0]
    columns_of_texts = [texts(column) for column in pairs.text.reshape(-1, rows, columns)[:, 0].T]
    distances = [np.linalg.norm(first - second, axis=1) for first, second in combinations(columns_of_texts, 2)]
    return np.stack(distances, axis=1) if distances else np.empty((len(pairs.shapes), 0))


def _remembering(rows: Rows) -> Rows:
    """Return a version of `rows` that computes the row of each number once."""
    known: dict[int, np.ndarray] = {}

    def look_up(indices: np.ndarray) -> np.ndarray:
        new = np.setdiff1d(indices, np.fromiter(known, np.int64, len(known)))
        if len(new):
            known.update(zip(new.tolist(), rows(new), strict=True))
        return np.stack([known[number] for number in indices.tolist()]) if len(indices) else np.empty((0, 0))

    return look_up


def describe(facts: Mapping[str, Any], scores: int) -> str:
    """Describe the result of `decide` in a sentence."""
    captions, images = (100 * facts[f"scores_with_float32_{side}"] / max(scores, 1) for side in ("captions", "images"))
    return (
        f"bfloat16 decides differences above {facts['bfloat16_bound']:.2g}; of the scores {captions:.1f} % have their "
        f"captions in float32, {images:.1f} % their images too. It alone would turn "
        f"{facts['margins_that_bfloat16_turns']} differences"
    )


def dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the dot products of corresponding rows, in float64."""
    return np.einsum("nd,nd->n", a.astype(np.float64), b.astype(np.float64)) if len(a) else np.empty(0)
