"""float32's decisions at nearly the speed of bfloat16: ``--dtype auto``, for dual encoders and matching tasks.

Everything is computed in bfloat16. The difference of two scores that decides an example is off by the difference of two
rounding errors; `BOUND` times its root mean square is the bound below which a decision is open. It is measured, for
examples with as many images and captions, on those that are closest to a tie, which are computed again anyhow: how far
bfloat16 is off does not depend on how close an example is. Open ones are computed again in two stages: first the
captions in float32, after which only the images' rounding is left, whose bound is lower; then the images of those that
are still open. What lies within rounding of float32 itself is re-checked in float64, as always.
"""

from __future__ import annotations

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
SAMPLE = 32, 256  # the least and the most examples, of which it is a sixteenth; a quarter of it for the images

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
        see, read: embeddings (n, d) in float32 of images and texts with these numbers, ascending.
    """
    see, read = _remembering(see), _remembering(read)
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
    count = len(pairs.shapes)
    gaps = np.hstack([np.abs(each).reshape(count, -1) for each in pairs.differences(scores)]).min(axis=1)
    closest = np.argsort(gaps, kind="stable")[: np.clip(count // 16, *SAMPLE)]

    def rms_errors(examples: np.ndarray, rough: Rows, better: Rows) -> np.ndarray:
        places = pairs.of_examples(examples)
        sample = Pairs(pairs.texts, pairs.anchor[places], pairs.text[places], pairs.shapes[examples], [])
        differences = (sample.differences(each(places)) for each in (rough, better))
        return np.array([np.sqrt(np.mean((one - other) ** 2)) for one, other in zip(*differences, strict=True)])

    def with_captions(places: np.ndarray) -> np.ndarray:
        return dots(images[places], read(pairs.text[places]))

    def with_both(places: np.ndarray) -> np.ndarray:
        return dots(see(pairs.anchor[places]), read(pairs.text[places]))

    of_captions = rms_errors(closest, scores.__getitem__, with_captions)
    of_images = rms_errors(closest[: max(SAMPLE[0], len(closest) // 4)], with_captions, with_both)
    bound, bound_of_images = (BOUND * float(each.max()) for each in (np.hypot(of_captions, of_images), of_images))

    found = scores.copy()
    near = pairs.near_ties(scores, bound)
    found[near] = with_captions(np.flatnonzero(near))
    open_ = near & pairs.near_ties(found, bound_of_images)
    found[open_] = with_both(np.flatnonzero(open_))
    turned = sum(
        int((np.sign(one) != np.sign(other)).sum())
        for one, other in zip(pairs.differences(scores), pairs.differences(found), strict=True)
    )
    values = (bound, bound_of_images, int(near.sum()), int(open_.sum()), len(closest), turned)
    return found, dict(zip(_FACTS, values, strict=True))


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
