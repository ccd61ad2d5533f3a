"""Summarise errors in sentences and tables: their number, categories and words, and the agreement of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...common.documents import INTERVAL, Cell, Column, Table, TableRow
from ...common.formatting import MISSING, interval, p_value, percent, words
from ...estimation.bootstrap import cluster_bootstrap, percentile_interval, resampled_totals, wilson_interval
from .features import CATEGORY, LEAST_CLUSTERS, Association, Feature, find_associations
from .outcomes import TaskErrors

_MOST_FEATURES = 15
_MOST_NAMED = 3
_MOST_PRINTED = 8


@dataclass(frozen=True)
class ErrorAgreement:
    """The agreement of two models' errors.

    Args:
        models: their labels.
        n: the examples that both have predictions of.
        counts: both right, only the first errs, only the second errs, both err.
        share: of examples on which both are right or both err; with its interval.
        kappa: Cohen's kappa of the errors: 0 if the models agree as often as expected by chance from their error rates,
            1 if they err on the same examples; NaN if it is undefined. With its interval, None if resamples do not
            spread.
    """

    models: tuple[str, str]
    n: int
    counts: tuple[int, int, int, int]
    share: float
    share_interval: tuple[float, float]
    kappa: float
    kappa_interval: tuple[float, float] | None


@dataclass(frozen=True)
class Summary:
    """The error rates of a task's models, the features associated with their errors, and the models' agreement.

    Args:
        task: the errors.
        rates: the share of errors and its interval, for each model.
        found: the association of the model's errors with every feature that can be tested, for each model.
        agreements: one for each pair of models with common examples.
        confidence: the level of the intervals.
    """

    task: TaskErrors
    rates: list[tuple[float, tuple[float, float]]]
    found: list[dict[Feature, Association]]
    agreements: list[ErrorAgreement]
    confidence: float

    def is_significant(self, each: Association) -> bool:
        """Return whether an association is significant at level 1 - `confidence`, corrected for all features."""
        return each.p_value_holm <= 1 - self.confidence

    @property
    def sentences(self) -> list[str]:
        """The verdict: each model's error rate and associated features, then the agreement of the models."""
        return [*map(self._rate_sentence, range(len(self.rates))), *map(_agreement_sentence, self.agreements)]

    @property
    def tables(self) -> list[Table]:
        """The tables of errors by category, associated features, and agreement."""
        tables = (self._category_table(), self._feature_table(), _agreement_table(self.agreements))
        return [table for table in tables if table.rows]

    def _rate_sentence(self, number: int) -> str:
        model, (rate, bounds) = self.task.models[number], self.rates[number]
        n = int((~np.isnan(model.losses)).sum())
        ties = sum(model.outcome(index) == "tie" for index in np.flatnonzero(model.errs).tolist())
        text = (
            f"{model.label} errs on {percent(rate)} % of {n:,} examples of {self.task.where} "
            f"({100 * self.confidence:g} % interval {interval(bounds)}){f', {ties:,} of them ties' if ties else ''}"
        )
        tests = self.found[number].values()
        worse = [each for each in tests if self.is_significant(each) and each.rate > each.expected]
        if not worse:
            tested = f" among {len(tests):,} features" if tests else ""
            return f"{text}; nothing{tested} goes with its errors beyond chance."
        worse.sort(key=lambda each: -each.weight)
        categories = [each for each in worse if each.feature.kind == CATEGORY]
        categories = sorted(categories, key=lambda each: -each.rate)[:_MOST_NAMED]
        details = [each for each in worse if each.feature.kind != CATEGORY][:_MOST_NAMED]
        if categories:
            named = ", ".join(f"{each.feature.name} ({percent(each.rate)} %)" for each in categories)
            text += f"; significantly more often on {named}"
        if details:
            named = "; ".join(
                f"{each.feature} ({percent(each.rate)} %, expected {percent(each.expected)} %)" for each in details
            )
            text += f". Within categories significantly more often with {named}"
        return f"{text}."

    def _category_table(self) -> Table:
        rows = []
        for name in self.task.category_names:
            has = np.array([name in names for names in self.task.categories])
            cells = [Cell(f"{has.sum():,}")]
            for model in self.task.models:
                indices = np.flatnonzero(has & ~np.isnan(model.losses))
                cells.append(self._rate_cell(model.errs[indices], self.task.clusters[indices]))
            rows.append(TableRow(name, tuple(cells)))
        every = [Cell(f"{len(self.task):,}")]
        every += [Cell(f"{percent(rate)} %", (interval(bounds),)) for rate, bounds in self.rates]
        rows.append(TableRow("all", tuple(every), is_average=True))
        columns = (Column("n"), *(Column(label, (INTERVAL,)) for label in self.task.labels))
        note = (
            f"An error: {words(self.task.score)} ({self.task.metric}) is not the best possible. Intervals "
            f"{100 * self.confidence:g} %: of all examples by bootstrap over images, of a category Wilson's, counting "
            "images."
        )
        left_out = "".join(f" {count:,} examples are not counted: {why}." for why, count in self.task.left_out.items())
        note = f"{note}{left_out} {self.task.partial}".strip()
        return Table(f"Errors on {self.task.where}", columns, tuple(rows), note, corner="category")

    def _rate_cell(self, errs: NDArray[np.bool_], clusters: NDArray[np.intp]) -> Cell:
        if not len(errs):
            return Cell(MISSING, (MISSING,))
        rate, images = np.array([errs.mean()]), np.array([len(np.unique(clusters))])
        [low], [high] = wilson_interval(rate, images, self.confidence)
        return Cell(f"{percent(float(rate[0]))} %", (interval((float(low), float(high))),))

    def _feature_table(self) -> Table:
        weights: dict[Feature, float] = {}
        for tests in self.found:
            significant = [
                association
                for association in tests.values()
                if self.is_significant(association) and association.feature.kind != CATEGORY
            ]
            for association in sorted(significant, key=lambda association: -association.weight)[:_MOST_FEATURES]:
                weights[association.feature] = max(association.weight, weights.get(association.feature, 0))
        rows = []
        for feature in sorted(weights, key=lambda feature: -weights[feature]):
            cells = [Cell(f"{max(tests[feature].n for tests in self.found if feature in tests):,}")]
            rows.append(TableRow(str(feature), (*cells, *(_feature_cell(tests.get(feature)) for tests in self.found))))
        details = (INTERVAL, "expected", "p (Holm)")
        columns = (Column("n"), *(Column(f"{label}: errors", details) for label in self.task.labels))
        tested = max((len(tests) for tests in self.found), default=0)
        note = (
            f"Of {tested:,} features that at least {LEAST_CLUSTERS} images have and as many lack, those that go with "
            "errors beyond the category: the share of errors with the feature, and what is expected from the means of "
            "the categories. Exact test within categories on one example of each image, p corrected for all features "
            "of a model (Holm). An association is no cause: features come together."
        )
        table = Table("What goes with errors", columns, tuple(rows), note, is_part=True, corner="feature")
        return replace(table, compact=replace(table, rows=table.rows[:_MOST_PRINTED]))


def summarize(task: TaskErrors, confidence: float, resamples: int, seed: int) -> Summary:
    """Compute the rates, associations and agreements of a task; see `Summary`."""
    rates = []
    for model in task.models:
        scored = np.flatnonzero(~np.isnan(model.losses))
        errs = model.errs[scored]
        bounds = cluster_bootstrap(errs, task.clusters[scored], None, confidence, resamples, seed).micro
        rates.append((float(errs.mean()), bounds))
    agreements = [
        agreement
        for pair in combinations(range(len(task.models)), 2)
        if (agreement := _agreement(task, pair, confidence, resamples, seed)) is not None
    ]
    return Summary(task, rates, find_associations(task, confidence), agreements, confidence)


def _agreement(
    task: TaskErrors, pair: tuple[int, int], confidence: float, resamples: int, seed: int
) -> ErrorAgreement | None:
    """Compute the agreement of two models' errors.

    Source: error consistency, Geirhos, Meding and Wichmann, NeurIPS 2020; Cohen, 1960.
    """
    model_a, two = (task.models[number] for number in pair)
    shared = np.flatnonzero(~np.isnan(model_a.losses) & ~np.isnan(two.losses))
    if not len(shared):
        return None
    first, second, clusters = model_a.errs[shared], two.errs[shared], task.clusters[shared]
    cells = np.stack([~first & ~second, first & ~second, ~first & second, first & second], axis=1)
    counts = cells.sum(axis=0)
    kappas = _kappa(resampled_totals(cells, clusters, resamples, seed))
    kappas = kappas[np.isfinite(kappas)]
    spread = len(kappas) > 1 and np.ptp(kappas) > 0
    return ErrorAgreement(
        models=(model_a.label, two.label),
        n=len(shared),
        counts=tuple(counts.tolist()),
        share=float((first == second).mean()),
        share_interval=cluster_bootstrap(first == second, clusters, None, confidence, resamples, seed).micro,
        kappa=float(_kappa(counts[np.newaxis])[0]),
        kappa_interval=percentile_interval(kappas, confidence, clusters) if spread else None,
    )


def _kappa(counts: NDArray[np.generic]) -> NDArray[np.float64]:
    """Compute Cohen's kappa from rows of counts as in `ErrorAgreement`; NaN if both models never, or always, err."""
    right, first, second, wrong = (counts / counts.sum(axis=1, keepdims=True)).T
    expected = (first + wrong) * (second + wrong) + (right + second) * (right + first)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.isclose(expected, 1), np.nan, (right + wrong - expected) / (1 - expected))


def _number(value: float) -> str:
    return MISSING if np.isnan(value) else f"{value:.2f}"


def _agreement_sentence(each: ErrorAgreement) -> str:
    right, first, second, both = (percent(count / each.n) for count in each.counts)
    kappa = "" if np.isnan(each.kappa) else f"; kappa {_number(each.kappa)}"
    return (
        f"{each.models[0]} and {each.models[1]} agree on {percent(each.share)} % of {each.n:,} examples (both right "
        f"{right} %, both err {both} %{kappa}); only the first errs on {first} %, only the second on {second} %."
    )


def _agreement_table(agreements: Sequence[ErrorAgreement]) -> Table:
    rows = []
    for each in agreements:
        bounds = MISSING if each.kappa_interval is None else " – ".join(map(_number, each.kappa_interval))
        share = Cell(f"{percent(each.share)} %", (interval(each.share_interval),))
        counts = (Cell(f"{count:,}") for count in each.counts)
        rows.append(TableRow(" and ".join(each.models), (*counts, share, Cell(_number(each.kappa), (bounds,)))))
    heads = ("both right", "only first errs", "only second errs", "both err")
    columns = (*map(Column, heads), Column("agreement", (INTERVAL,)), Column("kappa", (INTERVAL,)))
    note = (
        "Kappa: 0 for as many common errors as two models of these error rates have by chance, 1 for the same errors."
    )
    return Table("Agreement", columns, tuple(rows), note, is_part=True, corner="models")


def _feature_cell(each: Association | None) -> Cell:
    if each is None:
        return Cell(MISSING, (MISSING, MISSING, ""))
    details = (interval((each.low, each.high)), f"{percent(each.expected)} %", p_value(each.p_value_holm))
    return Cell(f"{percent(each.rate)} %", details)
