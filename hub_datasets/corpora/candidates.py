"""Make hard negatives and hard positives of a training set's captions by rule, as `vl-assay generate --rules` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from .shards import Row, Step

# Rules prefer words that occur among the captions that they are given.
_CAPTIONS_AT_ONCE = 4096


def candidate_step(kinds: Sequence[str], caption: str, *, each: int = 1, seed: int = 0) -> Step:
    """Return the step that makes at most `each` candidates of each of ``RULE_KINDS`` for each caption."""
    import pyarrow as pa

    texts = [(name, pa.string()) for name in ("caption", "candidate", "kind")]
    schema = pa.schema([("row", pa.int64()), *texts, ("is_positive", pa.bool_())])
    options = {"kinds": [*kinds], "each": each, "seed": seed}
    return Step(partial(_make, **options), schema, options, caption)


def _make(
    rows: Iterator[Row], counts: Counter[str], *, kinds: Sequence[str], each: int, seed: int
) -> Iterator[dict[str, Any]]:
    from ..authoring.generate.checks import POSITIVE_KINDS
    from ..authoring.generate.rejected import Rejected
    from ..authoring.generate.rules import make_by_rule

    numbered = enumerate(rows)
    while part := list(islice(numbered, _CAPTIONS_AT_ONCE)):
        captions = {index: caption for index, (caption, _) in part if caption and caption.strip()}
        counts["captions"] += len(captions)
        counts["without a caption"] += len(part) - len(captions)
        for kind in kinds if captions else ():
            made = make_by_rule(kind, [*captions.values()], seed, most=each)
            for (index, caption), results in zip(captions.items(), made, strict=True):
                texts = dict.fromkeys(result[0] for result in results if not isinstance(result, Rejected))
                counts[f"candidates, {kind}"] += len(texts)
                counts[f"captions with one, {kind}"] += bool(texts)
                about = {"row": index, "caption": caption, "kind": kind, "is_positive": kind in POSITIVE_KINDS}
                yield from ({**about, "candidate": text} for text in texts)
