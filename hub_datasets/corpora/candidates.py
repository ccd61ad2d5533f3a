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


def candidate_step(kinds: Sequence[str], caption: str) -> Step:
    """Return the step that makes at most one candidate of each of ``RULE_KINDS`` for each caption."""
    import pyarrow as pa

    texts = [(name, pa.string()) for name in ("caption", "candidate", "kind")]
    schema = pa.schema([("row", pa.int64()), *texts, ("is_positive", pa.bool_())])
    return Step(partial(_make, kinds), schema, {"kinds": kinds}, caption)


def _make(kinds: Sequence[str], rows: Iterator[Row], counts: Counter[str]) -> Iterator[dict[str, Any]]:
    from ..authoring.generate.checks import POSITIVE_KINDS
    from ..authoring.generate.rejected import Rejected
    from ..authoring.generate.rules import make_by_rule

    numbered = enumerate(rows)
    while batch := list(islice(numbered, _CAPTIONS_AT_ONCE)):
        captions = {index: caption for index, (caption, _) in batch if caption and caption.strip()}
        counts["captions"] += len(captions)
        counts["without a caption"] += len(batch) - len(captions)
        for kind in kinds if captions else ():
            counts[f"candidates, {kind}"] += 0
            outcomes = make_by_rule(kind, [*captions.values()])
            for (index, caption), [result] in zip(captions.items(), outcomes, strict=True):
                if isinstance(result, Rejected):
                    continue
                counts[f"candidates, {kind}"] += 1
                about = {"row": index, "caption": caption, "kind": kind, "is_positive": kind in POSITIVE_KINDS}
                yield {**about, "candidate": result[0]}
