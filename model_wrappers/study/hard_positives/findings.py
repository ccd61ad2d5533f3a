"""Statistics of a study: the papers' tables for toy_scenes, and whether their findings are replicated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....hub_datasets.toy_scenes.language import parse
from ....metrics.contract.aggregate import aggregate
from ....metrics.contract.spec import make_examples as make_metric_examples
from ....metrics.functional.hard_positives import augmented_accuracy, brittleness
from ....metrics.records.results import code_version
from ....metrics.statistics.bootstrap import cluster_bootstrap
from .examples import ARTEFACTS, Example
from .variants import BASE, Size, Variant

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCHEMA = "vl-assay/study"
VERSION = 1
# REPLACE averages over all examples, as in the paper; here it has as many of attributes as of relations.
KINDS = {"replace": ("replace_att", "replace_rel"), "swap": ("swap",)}
# Rows of the paper's tables by variant, None for a line between groups.
TABLES = {
    "1": (BASE, "plain", None, "negclip-swap", "negclip-replace", None, "hn", "hp+hn", None, "swap-only",
          "replace-only"),
    "3": (BASE, None, "hn-weight-0", "hn-weight-0.25", "hn-weight-0.5", "hn-weight-0.75", None, "hn", "hp+hn"),
}  # fmt: skip
_ARTEFACT_ROWS = (BASE, "plain", "hn", "hn-article", "hn-stop")
ARTEFACT_LABELS = {"debiased": "debiased negatives", "article": "with a wrong article", "stop": "with a final stop"}
MEASURES = ("original_accuracy", "augmented_accuracy", "brittleness")
_RESAMPLES = 2000
# The index of the caption that the first one must outscore.
_NEGATIVES = {"original_accuracy": 2, "debiased": 1, "artefact": 2}


@dataclass(frozen=True)
class Study:
    """The scores of a study.

    Args:
        size: how large it was.
        examples: the m test examples.
        scores: by variant and for `BASE`, cosines of shape (seeds, m, 3); the base has a single row.
        variants: those that were trained.
    """

    size: Size
    examples: Sequence[Example]
    scores: Mapping[str, NDArray[np.float64]]
    variants: Sequence[Variant]

    def label(self, name: str) -> str:
        """The label of a variant; the base is its own."""
        return next((variant.label for variant in self.variants if variant.name == name), name)

    def rows(self, kind: str) -> list[int]:
        """The indices of the examples of one of `KINDS` or `ARTEFACTS`."""
        task, categories = ("hard_positives", KINDS[kind]) if kind in KINDS else (kind, ())
        return [
            row
            for row, example in enumerate(self.examples)
            if example.task == task and (not categories or example.category in categories)
        ]

    def clusters(self, kind: str) -> list[int]:
        """The scenes of these examples."""
        return [self.examples[row].scene for row in self.rows(kind)]

    def per_example(self, variant: str, measure: str, kind: str) -> NDArray[np.float64]:
        """The score of each example of a kind by a measure, 0 or 1: float64 of shape (seeds, n), ties as in metrics."""
        scores = self.scores[variant][:, self.rows(kind)]
        if measure in _NEGATIVES:
            return (scores[..., 0] > scores[..., _NEGATIVES[measure]]).astype(np.float64)
        original, positive = scores[..., 0] > scores[..., 2], scores[..., 1] > scores[..., 2]
        if measure == "augmented_accuracy":
            return (original & positive).astype(np.float64)
        tied = (scores[..., :2] == scores[..., 2:]).any(axis=-1)
        return ((original != positive) & ~tied).astype(np.float64)


class Term(NamedTuple):
    """A variant's mean score in a weighted sum; `kind` is one of `KINDS` or `ARTEFACTS`."""

    weight: float
    variant: str
    measure: str
    kind: str


class Claim(NamedTuple):
    """A finding of a paper, and the sum that tests it here.

    Attributes:
        text: the finding.
        against: what is compared.
        terms: the sum.
        expected: its sign; 0 for "not above 0".
        given: a sum that must be above 0 for the claim to apply.
    """

    text: str
    against: str
    terms: tuple[Term, ...]
    expected: int
    given: tuple[Term, ...] = ()


def claims() -> Iterator[Claim]:
    """The papers' findings that the study tests."""
    for text, measure, name, bases, expected in (
        ("HN raises original accuracy", "original_accuracy", "hn", (BASE, "plain"), 1),
        ("HN raises brittleness", "brittleness", "hn", (BASE, "plain"), 1),
        ("HP+HN lowers brittleness against HN", "brittleness", "hp+hn", ("hn",), -1),
        ("HP+HN raises augmented accuracy against HN", "augmented_accuracy", "hp+hn", ("hn",), 1),
    ):
        for base, kind in itertools.product(bases, KINDS):
            yield _difference(text, measure, kind, name, base, expected)
    for kind in KINDS:
        measure, weights = "original_accuracy", {"hp+hn": 1.0, "hn": -0.5, BASE: -0.5}
        terms = tuple(Term(weight, name, measure, kind) for name, weight in weights.items())
        against = f"{kind.upper()}, original accuracy: hp+hn − ({BASE} + hn) / 2"
        gain = _difference("", measure, kind, "hn", BASE, 1).terms
        yield Claim("HP+HN keeps more than half of HN's gain", against, terms, 1, gain)
    for name, kind in (("swap-only", "replace"), ("replace-only", "swap")):
        for base in (BASE, "plain"):
            yield _difference(f"{name} does not help {kind.upper()}", "original_accuracy", kind, name, base, 0)
    for artefact in ARTEFACTS:
        label = ARTEFACT_LABELS[artefact]
        for name, text, expected in (
            (f"hn-{artefact}", f"Trained on negatives {label}, HN gains more on such than on debiased ones", 1),
            ("hn", "Trained on negatives without an artefact, HN does not", 0),
        ):
            for base in (BASE, "plain"):
                terms = tuple(
                    Term(sign * weight, variant, measure, artefact)
                    for variant, sign in ((name, 1.0), (base, -1.0))
                    for measure, weight in (("artefact", 1.0), ("debiased", -1.0))
                )
                yield Claim(text, f"{name}, gain over {base}: {label} − debiased", terms, expected)


def _difference(text: str, measure: str, kind: str, name: str, base: str, expected: int) -> Claim:
    terms = (Term(1.0, name, measure, kind), Term(-1.0, base, measure, kind))
    return Claim(text, f"{kind.upper()}, {measure.replace('_', ' ')}: {name} − {base}", terms, expected)


def findings(study: Study) -> list[dict[str, Any]]:
    """Each claim with its sum, the 95 % interval over scenes, the sum for each seed, and the verdict."""
    found = []
    for claim in claims():
        if all(term.variant in study.scores for term in claim.terms):
            total = _total(study, claim.terms)
            result = verdict(claim.expected, total["interval"], total["by_seed"])
            if claim.given:
                given = _total(study, claim.given)
                if verdict(1, given["interval"], given["by_seed"]) != "shown":
                    result = "no gain to keep"
            found.append({"claim": claim.text, "compared": claim.against, **total, "verdict": result})
    return found


def _total(study: Study, terms: Sequence[Term]) -> dict[str, Any]:
    """The sum of terms, its interval, and the sum for each seed."""
    values: NDArray[np.float64] = np.zeros((1, 1))
    for weight, *term in terms:
        values = values + weight * study.per_example(*term)
    # The bootstrap takes values in [0, 1]; these are in [-2, 2].
    clusters = study.clusters(terms[0].kind)
    low, high = cluster_bootstrap((values.mean(axis=0) + 2) / 4, clusters, resamples=_RESAMPLES).micro
    by_seed = np.broadcast_to(values, (study.size.seeds, values.shape[1])).mean(axis=1)
    return {
        "difference": float(values.mean()),
        "interval": [4 * low - 2, 4 * high - 2],
        "by_seed": by_seed.tolist(),
    }


def verdict(expected: int, interval: Sequence[float], by_seed: Sequence[float]) -> str:
    """Whether a claim about the sign of a sum is shown: by its interval and by the value of each seed."""
    sign = 0
    if interval[0] > 0 and min(by_seed) > 0:
        sign = 1
    elif interval[1] < 0 and max(by_seed) < 0:
        sign = -1
    if expected == 0:
        return "the opposite" if sign > 0 else "no gain seen"
    return "shown" if sign == expected else "the opposite" if sign else "not shown"


def document(study: Study) -> dict[str, Any]:
    """All numbers of a study, as in ``study.json``; scores are fractions in [0, 1]."""
    names = dict.fromkeys(name for table in TABLES.values() for name in table if name in study.scores)
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "code": code_version(),
        "size": asdict(study.size),
        "confidence": 0.95,
        "rows": {str(name): _row(study, str(name)) for name in names},
        "artefact": {name: _artefact_row(study, name) for name in _ARTEFACT_ROWS if name in study.scores},
        "form_alone": _form_alone(study),
        "findings": findings(study),
    }


def _row(study: Study, name: str) -> dict[str, Any]:
    """The row of a variant in the tables of *The Hard Positive Truth*, over the examples of all seeds."""
    row: dict[str, Any] = {"label": study.label(name)}
    for kind in KINDS:
        indices = study.rows(kind)
        scores = study.scores[name][:, indices]
        options: dict[str, Any] = {
            "categories": [study.examples[index].category for index in indices] * len(scores),
            "clusters": study.clusters(kind) * len(scores),
            "confidence": 0.95,
            "resamples": _RESAMPLES,
        }
        accuracy = augmented_accuracy(scores.reshape(-1, 3), **options)
        brittle = brittleness(scores.reshape(-1, 3), **options)
        sources = dict.fromkeys(("original_accuracy", "augmented_accuracy", "gap"), accuracy) | {"brittleness": brittle}
        row[kind] = {
            "scores": {key: source[f"macro_{key}"] for key, source in sources.items()},
            "intervals": {key: source[f"macro_{key}_interval"] for key, source in sources.items()},
            "by_seed": {key: study.per_example(name, key, kind).mean(axis=1).tolist() for key in MEASURES},
            "by_category": {
                category: {key: source["per_category"][category][key] for key, source in sources.items()}
                for category in KINDS[kind]
            },
            "tie_rate": brittle["tie_rate"],
        }
    return row


def _artefact_row(study: Study, name: str) -> dict[str, Any]:
    """Accuracy on the same pairs without and with each artefact in the negative."""
    values = {"debiased": study.per_example(name, "debiased", "article")}
    values |= {artefact: study.per_example(name, "artefact", artefact) for artefact in ARTEFACTS}
    clusters = study.clusters("article")
    means = {key: each.mean(axis=0) for key, each in values.items()}
    examples = make_metric_examples(means, np.zeros(len(clusters)), clusters=clusters)
    result = aggregate(examples, confidence=0.95, resamples=_RESAMPLES)
    return {
        "label": study.label(name),
        "scores": {key: result[key] for key in values},
        "intervals": {key: result[f"{key}_interval"] for key in values},
        "by_seed": {key: each.mean(axis=1).tolist() for key, each in values.items()},
    }


def _form_alone(study: Study) -> dict[str, float]:
    """The accuracy of the grammar of toy_scenes alone, which prefers the caption that it can parse."""
    found: dict[str, float] = {}
    for artefact in ARTEFACTS:
        texts = np.array([study.examples[row].captions for row in study.rows(artefact)])
        parsed = np.vectorize(lambda text: parse(text) is not None)(texts).astype(float)
        found["debiased"], found[artefact] = (0.5 + (parsed[:, :1] - parsed[:, 1:]) / 2).mean(axis=0).tolist()
    return found
