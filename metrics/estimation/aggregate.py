"""Aggregation of per-example scores: averages, categories, macro averages, intervals, spread over subsets.

A mean is resampled through the sums of its clusters, any other score through its `Estimator`.
"""

from __future__ import annotations

import functools
import inspect
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, cast, get_args, get_type_hints

import numpy as np

from .bootstrap import (
    check_options,
    check_whole,
    cluster_bootstrap,
    mean_intervals,
    percentile_interval,
    resampled_totals,
    resampled_weights,
)
from .checks import Labels, check_unmasked
from .estimators import Estimator, Floats, Numbers, OfTotals
from .spec import Examples, MetricFunction

RESAMPLES = 10_000
_SUBSAMPLE_SHARE = 0.9


class SummaryOptions(TypedDict, total=False):
    """The options of aggregation that all metrics have.

    Keys:
        categories: one label per example, compared as text; or a list of labels for each, which then counts in every
            one of them, and in none where it is empty. Without them macro averages equal micro averages.
        clusters: one label per example, its image. Without them each example is its own cluster, and the intervals
            are too narrow where several examples share an image. Unused without ``confidence``.
        confidence: coverage of the intervals, strictly between 0 and 1, such as 0.95; no intervals by default.
        resamples: number of bootstrap resamples, at least 100.
        seed: seed of the resampling, a whole number from 0; 0 by default.
        subsamples: number of random 90 % subsets of the examples whose scores are computed for their standard
            deviation; 0 for none.
    """

    categories: Labels | None
    clusters: Labels | None
    confidence: float | None
    resamples: int
    seed: int
    subsamples: int


# Confidence, resamples and seed, in this order.
_How = tuple[float, int, int]


def metric_function(
    *, resamples: int = RESAMPLES, subsamples: int = 0
) -> Callable[[Callable[..., Examples]], MetricFunction]:
    """Decorate a function that returns `Examples`, so that a call aggregates them.

    Args:
        resamples, subsamples: the defaults of these options.

    The options of `aggregate` come on top of the function's own; ``metric.per_example`` is the function itself.
    """

    def decorate(per_example: Callable[..., Examples]) -> MetricFunction:
        own = {"confidence": None, "resamples": resamples, "seed": 0, "subsamples": subsamples}

        @functools.wraps(per_example)
        def metric(*columns: Any, **options: Any) -> dict[str, Any]:
            how = {name: options.pop(name, default) for name, default in own.items()}
            check_options(how["confidence"], how["resamples"], how["seed"])
            check_whole(subsamples=(how["subsamples"], 0))
            check_unmasked([*columns, *options.values()], "inputs")
            return aggregate(per_example(*columns, **options), **how)

        parameters = _parameters(per_example)
        parameters += [_option(name, SummaryOptions.__annotations__[name], default) for name, default in own.items()]
        metric.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": dict[str, Any]}
        metric.__dict__["__signature__"] = inspect.Signature(parameters, return_annotation=dict[str, Any])
        found = cast(MetricFunction, metric)
        found.per_example = per_example
        return found

    return decorate


def with_examples(per_example: Callable[..., Examples]) -> Callable[[Callable[..., Any]], MetricFunction]:
    """Decorate a function that aggregates in another way with the one that returns its `Examples`."""

    def decorate(function: Callable[..., Any]) -> MetricFunction:
        found = cast(MetricFunction, function)
        found.per_example = per_example
        return found

    return decorate


def option_names(function: Callable[..., Any]) -> list[str]:
    """The keyword options of a metric's function, those of an unpacked mapping included."""
    return [each.name for each in _parameters(function) if each.kind is each.KEYWORD_ONLY]


def label_names(function: Callable[..., Any]) -> list[str]:
    """Return the options of a metric's function that have one entry for each example, such as "categories"."""
    annotations = {each.name: str(each.annotation) for each in _parameters(function)}
    rows = ("Labels", "ArrayLike")
    return [name for name in option_names(function) if any(kind in annotations[name] for kind in rows)]


def flatten(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the result of a metric as numbers on one level, as trainers and trackers log them.

    Args:
        result: what a metric returned.

    Returns:
        Scores and counts under their names; those of a category as ``score/category``, of other groups as
        ``score/group/label``; the bounds of an interval as ``score_interval_low`` and ``score_interval_high``. An
        undefined score is NaN. Texts and lists are left out.

    >>> flatten({"accuracy": 0.5, "macro_accuracy": None, "per_category": {"swap": {"accuracy": 0.0, "n": 2}}})
    {'accuracy': 0.5, 'macro_accuracy': nan, 'accuracy/swap': 0.0, 'n/swap': 2}
    """
    flat: dict[str, float] = {}
    for name, value in result.items():
        if isinstance(value, Mapping):
            group = "" if name in ("per_category", "per_condition") else f"{name.removeprefix('per_')}/"
            for label, inner in value.items():
                numbers = inner if isinstance(inner, Mapping) else {name: inner}
                flat |= {f"{score}/{group}{label}": number for score, number in flatten(numbers).items()}
        elif name.endswith("_interval"):
            bounds = value or (None, None)
            flat |= flatten({f"{name}_low": bounds[0], f"{name}_high": bounds[1]})
        elif value is None or isinstance(value, int | float):
            flat[name] = math.nan if value is None else value
    return flat


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function, those of an unpacked mapping one by one."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            [options] = get_args(get_type_hints(function)[parameter.name])
            found += [_option(name, annotation, None) for name, annotation in options.__annotations__.items()]
        else:
            found.append(parameter)
    return found


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def aggregate(
    examples: Examples,
    *,
    confidence: float | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    subsamples: int = 0,
) -> dict[str, Any]:
    """Average examples: over all (micro), by category, and over the categories (macro), with intervals.

    Args:
        examples: what a metric's `per_example` returned.
        confidence, resamples, seed, subsamples: see `SummaryOptions`.

    Returns:
        Plain Python numbers, so that ``json.dumps`` accepts them:

        - each score by its name, over all examples; None where it is undefined;
        - ``macro_<score>`` for the means, the unweighted mean over categories, the same as the mean over examples where
          there are none; None where no category counts;
        - ``tie_rate``, the share of examples that a tie decides, and ``n``, their number;
        - ``per_category``: for each category, in the order of first appearance, its scores, ``tie_rate`` and ``n``;
        - the tables, parts and counts of the metric;
        - with ``confidence``: ``confidence``, and with each score ``<score>_interval`` as [low, high], in the
          categories too (see ``bootstrap.cluster_bootstrap``); None where resamples do not spread and no exact
          interval is known;
        - with ``subsamples``: ``<score>_subsample_std``, the standard deviation of the score over these subsets, which
          TRICD's authors take for the smallest gap that separates two models; None below 5 examples, whose 90 % are all
          of them, and where fewer than two subsets define the score.

    Raises:
        ScoresError: an option outside its range.

    Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), Table 6, for the macro average; TRICD
    (Kamath, Price et al., 2023), section 5.3, for the subsets.

    >>> from vl_assay.metrics.estimation.spec import make_examples
    >>> found = make_examples({"accuracy": [1, 1, 0]}, [False, False, True], categories=["add", "add", "swap"])
    >>> result = aggregate(found)
    >>> result["macro_accuracy"], result["per_category"]["swap"]
    (0.5, {'accuracy': 0.0, 'tie_rate': 1.0, 'n': 1})
    """
    check_options(confidence, resamples, seed)
    result = averages(examples)
    per_category = {name: averages(examples, numbers) for name, numbers in examples.categories.items()}
    if examples.with_macro:
        for score in examples.values:
            found = [per_category[name][score] for name in examples.macro_categories]
            means = [value for value in found if value is not None]
            if not per_category:
                means = [result[score]]
            result[f"macro_{score}"] = math.fsum(means) / len(means) if means else None
    result[examples.category_key] = per_category
    for name, parts in examples.parts.items():
        result[name] = {label: _part_averages(examples, members, per_category) for label, members in parts.items()}
    if confidence is not None:
        result["confidence"] = float(confidence)
        _add_intervals(result, examples, (float(confidence), resamples, seed))
    if subsamples:
        result |= _subsample_deviations(examples, subsamples, seed)
    return result | examples.facts(None)


def _part_averages(
    examples: Examples, members: Sequence[str], per_category: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """The scores of a group of categories, over its examples and over its categories."""
    numbers = np.sort(np.concatenate([examples.categories[name] for name in members]))
    found: dict[str, Any] = {score: _mean(values[numbers]) for score, values in examples.values.items()}
    for score in examples.values:
        means = [per_category[name][score] for name in members]
        found[f"macro_{score}"] = math.fsum(means) / len(means)
    return found | {"tie_rate": float(examples.tied[numbers].mean()), "n": len(numbers)}


def averages(examples: Examples, numbers: Numbers | None = None) -> dict[str, Any]:
    """The scores of all examples, or of those with these numbers, with their tables, tie rate, number and counts."""
    chosen = slice(None) if numbers is None else numbers
    found: dict[str, Any] = {name: _mean(values[chosen]) for name, values in examples.values.items()}
    for estimator in examples.estimators:
        part = estimator if numbers is None else estimator.select(numbers)
        found |= {
            name: None if math.isnan(value) else value
            for name, value in zip(estimator.names, part().tolist(), strict=True)
        }
    for name, table in examples.tables.items():
        found[name] = {label: _scaled_mean(values[chosen]) for label, values in table.items()}
    if examples.with_tie_rate:
        found["tie_rate"] = float(examples.tied[chosen].mean())
    found["n"] = len(examples) if numbers is None else len(numbers)
    return found if numbers is None else found | examples.facts(numbers)


def _mean(values: Floats) -> float | None:
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if len(kept) else None


def _scaled_mean(values: Floats) -> float:
    """A mean that does not overflow: values divided by a power of two, which rounds nothing."""
    _, exponent = np.frexp(np.abs(values).max())
    return float(np.ldexp(np.ldexp(values, -exponent).mean(), exponent))


def _add_intervals(result: dict[str, Any], examples: Examples, how: _How) -> None:
    places = {"": result, **result[examples.category_key]}
    for score in examples.values:
        _add_mean_intervals(result, examples.of_score(score), score, how)
    for estimator in examples.estimators:
        if estimator.with_interval:
            is_sum = isinstance(estimator, OfTotals)
            intervals = _of_totals(estimator, examples, how) if is_sum else _of_weights(estimator, examples, how)
            for place, found in intervals.items():
                places[place] |= {f"{name}_interval": interval for name, interval in found.items()}
    for name, table in examples.tables.items():
        are_shares = all(np.isin(each, (0, 1)).all() for each in table.values())
        for place, numbers in examples.places.items():
            clusters = examples.clusters[numbers]
            columns = [values[numbers] for values in table.values()]
            found = _table_intervals(columns, clusters, how, are_shares)
            places[place][f"{name}_interval"] = {
                label: None if bounds is None else list(bounds) for label, bounds in zip(table, found, strict=True)
            }


def _add_mean_intervals(result: dict[str, Any], examples: Examples, score: str, how: _How) -> None:
    """The intervals of a mean, from the examples that are of it."""
    if not len(examples):
        return
    values = examples.values[score]
    groups = {(name, label): members for name, part in examples.parts.items() for label, members in part.items()}
    if examples.membership is None:
        whole = parts = cluster_bootstrap(values, examples.clusters, None, *how, groups)
    elif np.array_equal(examples.membership[0], np.arange(len(examples))):
        whole = parts = cluster_bootstrap(values, examples.clusters, examples.membership[1], *how, groups)
    else:
        # An example with several labels counts once in each, but only once in the mean over all.
        numbers, labels = examples.membership
        whole = cluster_bootstrap(values, examples.clusters, None, *how)
        parts = cluster_bootstrap(values[numbers], examples.clusters[numbers], labels, *how, groups)
    result[f"{score}_interval"] = list(whole.micro)
    if examples.with_macro:
        macro: tuple[float, float] | None = parts.macro
        if examples.rare and examples.categories:
            numbers, labels = examples.macro_membership
            clusters = examples.clusters[numbers]
            macro = cluster_bootstrap(values[numbers], clusters, labels, *how).macro if len(numbers) else None
        result[f"macro_{score}_interval"] = None if macro is None else list(macro)
    for category, interval in parts.categories.items():
        result[examples.category_key][category][f"{score}_interval"] = list(interval)
    for (name, label), (micro, macro) in parts.groups.items():
        result[name][label] |= {f"{score}_interval": list(micro), f"macro_{score}_interval": list(macro)}


def _of_totals(estimator: OfTotals, examples: Examples, how: _How) -> dict[str, dict[str, list[float] | None]]:
    """Intervals by category, and under "" over all; each part by itself."""
    confidence, resamples, seed = how
    found = {}
    for place, numbers in examples.places.items():
        part, clusters = estimator.select(numbers), examples.clusters[numbers]
        edge = part.edge(part.values, clusters, confidence)
        if edge:
            found[place] = {estimator.names[0]: list(edge)}
        else:
            values = part.function(resampled_totals(part.values, clusters, resamples, seed))
            intervals = (list(percentile_interval(column, confidence, clusters)) for column in values.T)
            found[place] = dict(zip(estimator.names, intervals, strict=True))
    return found


def _of_weights(estimator: Estimator, examples: Examples, how: _How) -> dict[str, dict[str, list[float] | None]]:
    """Intervals by category, and under "" over all, from the same resamples; None where they do not spread."""
    confidence, resamples, seed = how
    places = examples.places
    parts = {place: estimator.select(numbers) if place else estimator for place, numbers in places.items()}
    drawn: dict[str, list[Floats]] = {place: [] for place in parts}
    for weights in resampled_weights(examples.clusters, resamples, seed):
        for place, numbers in places.items():
            drawn[place].append(parts[place](weights[numbers]))
    found: dict[str, dict[str, list[float] | None]] = {place: {} for place in parts}
    for place, values in drawn.items():
        for name, column in zip(estimator.names, np.array(values).T, strict=True):
            clusters = examples.clusters[places[place]]
            low, high = percentile_interval(column, confidence, clusters) if np.isfinite(column).any() else (0.0, 0.0)
            found[place][name] = [low, high] if low < high else None
    return found


def _table_intervals(
    columns: Sequence[Floats], clusters: Numbers, how: _How, are_shares: bool
) -> list[tuple[float, float] | None]:
    if not are_shares:
        return mean_intervals(columns, clusters, *how)
    return [cluster_bootstrap(values, clusters, None, *how).micro for values in columns]


def _subsample_deviations(examples: Examples, subsamples: int, seed: int) -> dict[str, float | None]:
    """The standard deviation of every score over random 90 % subsets, by its key in the results."""
    generator = np.random.default_rng(seed)
    n = len(examples)
    size = round(_SUBSAMPLE_SHARE * n)
    values: dict[str, list[float]] = {score: [] for score in examples.scores}
    for _ in range(subsamples if size < n else 0):
        chosen = generator.choice(n, size, replace=False)
        weights = np.zeros(n)
        weights[chosen] = 1
        for name, each in examples.values.items():
            values[name].append(math.nan if np.isnan(each[chosen]).all() else float(np.nanmean(each[chosen])))
        for estimator in examples.estimators:
            for name, value in zip(estimator.names, estimator(weights).tolist(), strict=True):
                values[name].append(value)
    defined = {name: [value for value in each if not math.isnan(value)] for name, each in values.items()}
    return {
        f"{name}_subsample_std": statistics.stdev(each) if len(each) > 1 else None for name, each in defined.items()
    }
