"""Statistics of a study: the papers' tables for toy_scenes, and whether their findings are replicated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from ....metrics.functional.hard_positives import augmented_accuracy, brittleness
from ....metrics.records.results import code_version
from ....metrics.statistics.bootstrap import cluster_bootstrap
from .examples import CAPTION, NEGATIVE, POSITIVE, STOPPED, Example
from .variants import BASE, GROUPS, Group, Size, Variant

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCHEMA = "vl-assay/study"
VERSION = 2
# REPLACE averages over attributes and relations, as in the paper.
KINDS = {"replace": ("replace_att", "replace_rel"), "swap": ("swap",)}
CATEGORIES = {"attributes": "replace_att", "objects": "replace_obj", "relations": "replace_rel", "swap": "swap"}
# What single words tell, and what only their composition tells.
_SIDES = {"words": ("replace_att", "replace_obj"), "composition": ("replace_rel", "swap")}
_ALL_KINDS = {**KINDS, **_SIDES, **{name: (category,) for name, category in CATEGORIES.items()}}
# Rows of the paper's tables by variant, None for a line between groups.
TABLES = {
    "1": (BASE, "plain", None, "hn", "hp+hn", None, "swap-only", "replace-only"),
    "3": (BASE, None, "hn-weight-0", "hn-weight-0.25", "hn-weight-0.5", "hp+hn", None, "hn"),
}
BY_CATEGORY = (BASE, "plain", "hn", "hp+hn")
STOP_ROWS = (BASE, "plain", "hn", "hn-stop")
MEASURES = ("original_accuracy", "augmented_accuracy", "brittleness")
_RESAMPLES = 2000
# The column that the caption must outscore.
_NEGATIVES = {"original_accuracy": NEGATIVE, "stop_accuracy": STOPPED}


@dataclass(frozen=True)
class Study:
    """The scores of a study.

    Args:
        size: how large it was.
        examples: the m test examples, as many of each category for each scene.
        scores: by variant, by group, and for `BASE`: cosines of shape (seeds, m, 4); the base has a single row.
        variants: those that were fine-tuned.
        groups: those of the curve.
    """

    size: Size
    examples: Sequence[Example]
    scores: Mapping[str, NDArray[np.float64]]
    variants: Sequence[Variant]
    groups: Sequence[Group] = GROUPS

    def label(self, name: str) -> str:
        """The label of a model; the base is its own."""
        return next((each.label for each in (*self.variants, *self.groups) if each.name == name), name)

    def rows(self, kind: str) -> list[int]:
        """The indices of the examples of one of `KINDS`, `CATEGORIES`, ``"words"`` or ``"composition"``."""
        categories = _ALL_KINDS[kind]
        return [row for row, example in enumerate(self.examples) if example.category in categories]

    def per_scene(self, name: str, measure: str, kind: str) -> NDArray[np.float64]:
        """A model's mean score of each scene by a measure, in [0, 1]: (seeds, scenes), ties as in metrics."""
        scores = self.scores[name][:, self.rows(kind)]
        original, positive = (scores[..., each] > scores[..., NEGATIVE] for each in (CAPTION, POSITIVE))
        if measure in _NEGATIVES:
            found = scores[..., CAPTION] > scores[..., _NEGATIVES[measure]]
        elif measure == "augmented_accuracy":
            found = original & positive
        elif measure == "gap":
            found = original & ~positive
        else:
            tied = (scores[..., :NEGATIVE] == scores[..., [NEGATIVE]]).any(axis=-1)
            found = (original != positive) & ~tied
        return found.reshape(len(found), self.size.scenes, -1).mean(axis=-1)


class Term(NamedTuple):
    """A model's mean score in a weighted sum."""

    weight: float
    name: str
    measure: str
    kind: str


class Claim(NamedTuple):
    """A finding of a paper, and the sum that is above 0 if it holds here."""

    text: str
    against: str
    terms: tuple[Term, ...]


def claims() -> Iterator[Claim]:
    """The papers' findings that the study tests."""
    controls = (BASE, "plain")
    original, augmented, brittle = MEASURES
    yield from _claims("HN raises original accuracy", original, "hn", controls)
    yield from _claims("HN raises original accuracy more than augmented", "gap", "hn", controls)
    yield from _claims("HN raises brittleness", brittle, "hn", controls)
    yield from _claims("HP+HN raises original accuracy", original, "hp+hn", controls)
    yield from _claims("HP+HN raises augmented accuracy", augmented, "hp+hn", (*controls, "hn"))
    yield from _claims("HP+HN is less brittle than HN", brittle, "hn", ("hp+hn",))
    for name, kind in (("swap-only", "replace"), ("replace-only", "swap")):
        text = f"{name.capitalize()} does not do for {kind.upper()} what both do"
        yield _difference(text, augmented, "hp+hn", name, kind)
        yield _difference(text, brittle, name, "hp+hn", kind)
    for measure in (original, augmented):
        text = f"A higher weight of HN raises {measure.replace('_', ' ')}"
        yield from _claims(text, measure, "hp+hn", ("hn-weight-0",))
    yield _difference("A higher weight of HN raises brittleness on REPLACE", brittle, "hp+hn", "hn-weight-0", "replace")
    yield from _claims("HN alone has a higher original accuracy than HP+HN", original, "hn", ("hp+hn",))
    for base in controls:
        yield _gain_from_stop(base)
    few, many = GROUPS[0].name, GROUPS[-1].name
    text = "Few in-batch negatives teach words, not composition"
    sides = (Term(1.0, few, original, "words"), Term(-1.0, few, original, "composition"))
    yield Claim(text, f"{few}, original accuracy: words − composition", sides)
    yield _difference("More in-batch negatives teach composition", original, many, few, "composition")
    for kind in ("relations", "swap"):
        yield _difference("More in-batch negatives teach composition", original, many, few, kind)


def _claims(text: str, measure: str, name: str, bases: Sequence[str]) -> Iterator[Claim]:
    for base, kind in itertools.product(bases, KINDS):
        yield _difference(text, measure, name, base, kind)


def _difference(text: str, measure: str, name: str, base: str, kind: str) -> Claim:
    terms = (Term(1.0, name, measure, kind), Term(-1.0, base, measure, kind))
    title = "original − augmented" if measure == "gap" else measure.replace("_", " ")
    return Claim(text, f"{kind.upper()}, {title}: {name} − {base}", terms)


def _gain_from_stop(base: str) -> Claim:
    """SugarCrepe's point (section 5.2): what an artefact of the negatives gains is gained where tests have it."""
    terms = tuple(
        Term(sign * weight, name, measure, kind)
        for name, sign in (("hn-stop", 0.5), (base, -0.5))
        for measure, weight in (("stop_accuracy", 1.0), ("original_accuracy", -1.0))
        for kind in _SIDES
    )
    text = "Trained on negatives with a final period, HN gains more on such than on others"
    return Claim(text, f"all, gain over {base}: with a period − without", terms)


def findings(study: Study) -> list[dict[str, Any]]:
    """Each claim with its sum, the 95 % intervals over scenes and over seeds, the sum by seed, and the verdict."""
    return [
        {"claim": claim.text, "compared": claim.against, **_total(study, claim.terms)}
        for claim in claims()
        if all(term.name in study.scores for term in claim.terms)
    ]


def _total(study: Study, terms: Sequence[Term]) -> dict[str, Any]:
    """The sum of terms, its intervals, the sum for each seed, and the verdict."""
    values: NDArray[np.float64] = np.zeros((1, 1))
    for weight, *term in terms:
        values = values + weight * study.per_scene(*term)
    # The bootstrap takes values in [0, 1]; these are in [-2, 2].
    low, high = cluster_bootstrap((values.mean(axis=0) + 2) / 4, range(study.size.scenes), resamples=_RESAMPLES).micro
    interval, by_seed = [4 * low - 2, 4 * high - 2], values.mean(axis=1).tolist()
    over_seeds = seed_interval(by_seed)
    return {
        "difference": float(values.mean()),
        "interval": interval,
        "by_seed": by_seed,
        "seed_interval": over_seeds,
        "verdict": verdict(interval, over_seeds),
    }


def seed_interval(by_seed: Sequence[float]) -> list[float] | None:
    """Student's 95 % interval of the mean over seeds, for any seed; None for a single one."""
    n = len(by_seed)
    if n < 2:
        return None
    half = float(student.ppf(0.975, n - 1) * np.std(by_seed, ddof=1) / np.sqrt(n))
    return [float(np.mean(by_seed)) - half, float(np.mean(by_seed)) + half]


def verdict(interval: Sequence[float], over_seeds: Sequence[float] | None) -> str:
    """Whether a sum is above 0 (shown), below 0 (refuted), or neither by both of its intervals (not shown).

    With a single seed the interval over scenes decides alone.
    """
    both = [interval, *([over_seeds] if over_seeds else [])]
    if all(low > 0 for low, _ in both):
        return "shown"
    return "refuted" if all(high < 0 for _, high in both) else "not shown"


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
        "stop": {name: _stop_row(study, name) for name in STOP_ROWS if name in study.scores},
        "curve": {group.name: _row(study, group.name) for group in study.groups if group.name in study.scores},
        "findings": findings(study),
    }


def _row(study: Study, name: str) -> dict[str, Any]:
    """The row of a model in the tables of *The Hard Positive Truth*, over the examples of all seeds."""
    return {"label": study.label(name), **{kind: _scores(study, name, kind) for kind in (*KINDS, *CATEGORIES)}}


def _scores(study: Study, name: str, kind: str) -> dict[str, Any]:
    indices = study.rows(kind)
    scores = study.scores[name][:, indices, :STOPPED]
    options: dict[str, Any] = {
        "categories": [study.examples[index].category for index in indices] * len(scores),
        "clusters": [study.examples[index].scene for index in indices] * len(scores),
        "confidence": 0.95,
        "resamples": _RESAMPLES,
    }
    accuracy = augmented_accuracy(scores.reshape(-1, STOPPED), **options)
    brittle = brittleness(scores.reshape(-1, STOPPED), **options)
    sources = {"original_accuracy": accuracy, "augmented_accuracy": accuracy, "brittleness": brittle}
    return {
        "scores": {key: source[f"macro_{key}"] for key, source in sources.items()},
        "intervals": {key: source[f"macro_{key}_interval"] for key, source in sources.items()},
        "by_seed": {key: study.per_scene(name, key, kind).mean(axis=1).tolist() for key in MEASURES},
        "tie_rate": brittle["tie_rate"],
    }


def _stop_row(study: Study, name: str) -> dict[str, Any]:
    """Accuracy on the same pairs without and with a final period in the negative."""
    scores = {}
    for measure in _NEGATIVES:
        found = np.mean([study.per_scene(name, measure, kind) for kind in _SIDES], axis=0)
        interval = cluster_bootstrap(found.mean(axis=0), range(study.size.scenes), resamples=_RESAMPLES).micro
        scores[measure] = {"score": float(found.mean()), "interval": list(interval)}
    return {"label": study.label(name), "scores": scores}
