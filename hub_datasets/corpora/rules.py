"""What rules do on a corpus: make hard negatives and hard positives, and tell positive captions from negatives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...metrics.common.documents import Part, Verdict, simple_table
from ...metrics.common.formatting import percent
from ...metrics.common.formatting import words as in_words
from ...metrics.common.wording import words
from .running import ShardOutcome, Step, total_counts
from .shards import Batch

_RIGHT, _TIED, _WRONG = "right", "tied", "wrong"


@dataclass(frozen=True)
class RuleCandidates(Step):
    """The step that makes candidates by rule, as `vl-assay generate --rules` does; each batch of captions by itself.

    Args:
        kinds: some of ``RULE_KINDS``.
        caption: the shard's column.
        each, seed: see `rules.make_by_rule`.
    """

    kinds: tuple[str, ...]
    caption: str = "caption"
    each: int = 1
    seed: int = 0

    @property
    def columns(self) -> dict[str, str]:
        """The captions."""
        return {"caption": self.caption}

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments."""
        return {"kinds": self.kinds, "each": self.each, "seed": self.seed}

    def schema(self) -> Any:
        """A candidate, with the number of its caption's row in the shard."""
        import pyarrow as pa

        texts = [(name, pa.string()) for name in ("caption", "candidate", "kind")]
        return pa.schema([("row", pa.int64()), *texts, ("is_positive", pa.bool_())])

    def run(self, batches: Iterator[Batch], counts: Counter[str]) -> Iterator[Mapping[str, Any]]:
        """See `Step`."""
        from ..authoring.generate.checks import POSITIVE_KINDS
        from ..authoring.generate.rejected import Rejected
        from ..authoring.generate.rules import make_by_rule

        for batch in batches:
            texts = enumerate(batch.texts["caption"], batch.first)
            there = [(row, text) for row, text in texts if text is not None and text.strip()]
            captions = [text for _, text in there]
            counts["captions"] += len(there)
            counts["without a caption"] += len(batch.texts["caption"]) - len(there)
            for kind in self.kinds if captions else ():
                found: list[tuple[int, str, str]] = []
                made = make_by_rule(kind, captions, self.seed, most=self.each)
                for (row, caption), outcomes in zip(there, made, strict=True):
                    kept = dict.fromkeys(each[0] for each in outcomes if not isinstance(each, Rejected))
                    counts[f"covered {kind}"] += bool(kept)
                    counts[f"made {kind}"] += len(kept)
                    found += [(row, caption, text) for text in kept]
                columns = zip(*found, strict=True) if found else ((), (), ())
                rows = dict(zip(("row", "caption", "candidate"), columns, strict=True))
                yield {**rows, "kind": [kind] * len(found), "is_positive": [kind in POSITIVE_KINDS] * len(found)}


def candidate_parts(record: Mapping[str, Any]) -> list[Part]:
    """How many candidates rules made, as a document, its verdict first."""
    rows = [
        (kind, f"{own['made']:,}", f"{own['covered']:,}", percent(own["covered"] / max(record["captions"], 1)))
        for kind, own in record["kinds"].items()
    ]
    made = sum(own["made"] for own in record["kinds"].values())
    return [
        Verdict(f"{made:,} candidates of {record['captions']:,} captions."),
        simple_table(
            ["kind", "candidates", "captions that have one", "%"],
            rows,
            numbers=True,
            note=f"{record['without']:,} rows without a caption.",
        ),
    ]


def merge_candidates(outcomes: Sequence[ShardOutcome]) -> dict[str, Any]:
    """`captions`, rows `without` one, and by kind the candidates `made` and the captions `covered`."""
    counts = total_counts(outcomes)
    kinds = [name.removeprefix("covered ") for name in counts if name.startswith("covered ")]
    by_kind = {kind: {"made": counts[f"made {kind}"], "covered": counts[f"covered {kind}"]} for kind in kinds}
    return {"captions": counts["captions"], "without": counts["without a caption"], "kinds": by_kind}


@dataclass(frozen=True)
class BlindRules(Step):
    """The step that applies the rules of `vl-assay audit` to pairs.

    Args:
        positive, negative, category: the shard's columns; those that `RuleCandidates` writes by default.
    """

    positive: str = "caption"
    negative: str = "candidate"
    category: str = "kind"

    @property
    def columns(self) -> dict[str, str]:
        """Both captions, and what pairs are told apart by."""
        return {"positive": self.positive, "negative": self.negative, "category": self.category}

    def schema(self) -> Any:
        """For each pair and rule, 1 where it is right, 0 where it ties, -1 where it is wrong."""
        import pyarrow as pa

        from ..authoring.audit.audit import RULES

        return pa.schema([("row", pa.int64()), *((name, pa.int8()) for name in RULES)])

    def run(self, batches: Iterator[Batch], counts: Counter[str]) -> Iterator[Mapping[str, Any]]:
        """See `Step`."""
        from ..authoring.audit.audit import RULES
        from ..authoring.text.normalising import normalise

        for batch in batches:
            outcomes: dict[str, list[int]] = defaultdict(list)
            for at, (positive, negative, category) in enumerate(zip(*batch.texts.values(), strict=True)):
                if not (positive and negative):
                    counts["without a pair"] += 1
                    continue
                kind = category or "–"
                counts[f"pairs\t{kind}"] += 1
                outcomes["row"].append(batch.first + at)
                for name, (_, rule) in RULES.items():
                    ours, theirs = rule(positive), rule(negative)
                    outcomes[name].append((ours > theirs) - (ours < theirs))
                    result = (_TIED, _RIGHT, _WRONG)[outcomes[name][-1]]
                    counts[f"{name} {result}\t{kind}"] += 1
                counts[f"identical_normalised\t{kind}"] += normalise(positive) == normalise(negative)
                counts[f"same_bag_of_words\t{kind}"] += sorted(words(positive)) == sorted(words(negative))
            yield outcomes or {name: [] for name in ("row", *RULES)}


def merge_audit(outcomes: Sequence[ShardOutcome]) -> dict[str, Any]:
    """Rows `without` a pair and, by category, the numbers of pairs, of what each rule gets right, and of defects."""
    counts = total_counts(outcomes)
    categories: dict[str, dict[str, int]] = defaultdict(dict)
    for name, count in counts.items():
        what, has_category, category = name.partition("\t")
        if has_category:
            categories[category][what] = count
    return {"without": counts["without a pair"], "categories": dict(sorted(categories.items()))}


def audit_parts(record: Mapping[str, Any]) -> list[Part]:
    """The audit as a document, its verdict first."""
    from ..authoring.audit.audit import MEANINGS, RULES

    rows, most = [], ("", "", -1.0)
    for category, own in record["categories"].items():
        pairs, cells = own["pairs"], []
        for rule in RULES:
            share = (own.get(f"{rule} {_RIGHT}", 0) + own.get(f"{rule} {_TIED}", 0) / 2) / pairs
            most = max(most, (rule, category, share), key=lambda each: each[2])
            cells += [percent(share), percent(own.get(f"{rule} {_TIED}", 0) / pairs)]
        defects = (own[kind] for kind in ("identical_normalised", "same_bag_of_words"))
        rows.append((category, f"{pairs:,}", *cells, *(percent(number / pairs) for number in defects)))
    headings = [text for rule in RULES for text in (f"{in_words(rule)} %", "ties %")]
    defects = ["same after normalisation %", "same words %"]
    rule, category, share = most
    verdict = f"The {in_words(rule)} prefers the caption in {percent(share)} % of {category}; 50 % is chance."
    notes = [f"{in_words(name)}: {text}." for name, (text, _) in RULES.items()]
    return [
        Verdict(verdict if rows else "No pairs.", is_warning=share > 0.55),
        simple_table(
            ["category", "pairs", *headings, *defects],
            rows,
            numbers=True,
            note=f"A tie counts half. {' '.join(notes)} Same words: {MEANINGS['same_bag_of_words']}. "
            f"{record['without']:,} rows lack one of the two texts.",
        ),
    ]
