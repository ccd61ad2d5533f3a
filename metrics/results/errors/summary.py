"""Summarise errors in sentences and tables: their number, categories and words, and the agreement of models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...common.documents import INTERVAL, Cell, Column, Table, TableRow
from ...common.formatting import MISSING, interval, p_value, percent, words
from ...estimation.association import Association
from ...estimation.bootstrap import cluster_bootstrap, wilson_interval
from .features import CATEGORY, LEAST_CLUSTERS, Feature, find_associations
from .outcomes import Outcomes, TaskErrors

_MOST_FEATURES = 15
_MOST_NAMED = 3
_MOST_PRINTED = 8


class ErrorAgreement(NamedTuple):
    """The agreement of two models' errors.

    Attributes:
        models: their labels.
        counts: of the examples that both have predictions of: both right, only the first errs, only the second errs,
            both err.
        kappa: Cohen's kappa of the errors: 0 if the models agree as often as expected by chance from their error rates,
            1 if they err on the same examples; NaN if both never, or always, err.
    """

    models: tuple[str, str]
    counts: tuple[int, int, int, int]
    kappa: float

    def __str__(self) -> str:
        n = sum(self.counts)
        right, first, second, both = (percent(count / n) for count in self.counts)
        share = percent((self.counts[0] + self.counts[3]) / n)
        kappa = "" if np.isnan(self.kappa) else f"; kappa {self.kappa:.2f}"
        return (
            f"{self.models[0]} and {self.models[1]} agree on {share} % of {n:,} examples (both right {right} %, both "
            f"err {both} %{kappa}); only the first errs on {first} %, only the second on {second} %."
        )


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
        return [*map(self._rate_sentence, range(len(self.rates))), *map(str, self.agreements)]

    @property
    def tables(self) -> list[Table]:
        """The tables of errors by category and of associated features."""
        tables = (self._category_table(), self._feature_table())
        return [table for table in tables if table.rows]

    def _rate_sentence(self, number: int) -> str:
        model, (rate, bounds) = self.task.models[number], self.rates[number]
        n = int((~np.isnan(model.losses)).sum())
        ties = sum(model.outcome(index) == "tie" for index in np.flatnonzero(model.errs).tolist())
        text = (
            f"{model.label} errs on {percent(rate)} % of {n:,} examples of {self.task.where} "
            f"({100 * self.confidence:g} % interval {interval(bounds)}){f', {ties:,} of them ties' if ties else ''}"
        )
        tests = self.found[number].items()
        worse = [(name, test) for name, test in tests if self.is_significant(test) and test.rate > test.expected]
        if not worse:
            tested = f" among {len(tests):,} features" if tests else ""
            return f"{text}; nothing{tested} goes with its errors beyond chance."
        worse.sort(key=lambda entry: -entry[1].weight)
        categories = [entry for entry in worse if entry[0].kind == CATEGORY]
        categories = sorted(categories, key=lambda entry: -entry[1].rate)[:_MOST_NAMED]
        details = [entry for entry in worse if entry[0].kind != CATEGORY][:_MOST_NAMED]
        if categories:
            listed = ", ".join(f"{feature.name} ({percent(test.rate)} %)" for feature, test in categories)
            text += f"; significantly more often on {listed}"
        if details:
            listed = "; ".join(
                f"{feature} ({percent(test.rate)} %, expected {percent(test.expected)} %)" for feature, test in details
            )
            text += f". Within categories significantly more often with {listed}"
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
            significant = {
                feature: test.weight
                for feature, test in tests.items()
                if self.is_significant(test) and feature.kind != CATEGORY
            }
            for feature in sorted(significant, key=lambda feature: -significant[feature])[:_MOST_FEATURES]:
                weights[feature] = max(significant[feature], weights.get(feature, 0))
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
    pairs = combinations(task.models, 2)
    agreements = [agreement for one, two in pairs if (agreement := _agreement(one, two)) is not None]
    return Summary(task, rates, find_associations(task, confidence), agreements, confidence)


def _agreement(one: Outcomes, two: Outcomes) -> ErrorAgreement | None:
    """Compute the agreement of two models' errors; None without common examples.

    Source: error consistency, Geirhos, Meding and Wichmann, NeurIPS 2020; Cohen, 1960.
    """
    shared = ~np.isnan(one.losses) & ~np.isnan(two.losses)
    first, second = one.errs[shared], two.errs[shared]
    if not len(first):
        return None
    cells = (~first & ~second, first & ~second, ~first & second, first & second)
    same = float((first == second).mean())
    expected = float(first.mean() * second.mean() + (1 - first.mean()) * (1 - second.mean()))
    kappa = np.nan if np.isclose(expected, 1) else (same - expected) / (1 - expected)
    right, only_first, only_second, both = (int(cell.sum()) for cell in cells)
    return ErrorAgreement((one.label, two.label), (right, only_first, only_second, both), kappa)


def _feature_cell(each: Association | None) -> Cell:
    if each is None:
        return Cell(MISSING, (MISSING, MISSING, ""))
    details = (interval((each.low, each.high)), f"{percent(each.expected)} %", p_value(each.p_value_holm))
    return Cell(f"{percent(each.rate)} %", details)
