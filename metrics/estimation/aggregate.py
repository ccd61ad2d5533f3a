"""Aggregation of per-example scores: averages, categories, macro averages, intervals, and spread over subsets.

A mean is resampled through the sums of its clusters, any other score through its `Estimator`.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, cast, get_args, get_type_hints

import numpy as np

from .bootstrap import (
    Indices,
    Interval,
    check_options,
    check_whole,
    cluster_bootstrap,
    mean_interval,
    percentile_interval,
    resampled_totals,
    resampled_weights,
)
from .checks import Labels, check_unmasked
from .estimators import Estimator, Floats, OfTotals
from .spec import Examples, MetricFunction

RESAMPLES = 10_000
_SUBSAMPLE_SHARE = 0.9


class SummaryOptions(TypedDict, total=False):
    """The aggregation options that all metrics share.

    Keys:
        categories: one label per example, compared as text; or a list of labels per example, which then counts in each
            of these categories, in no category if its list is empty. Without categories macro averages equal micro
            averages.
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
_Options = tuple[float, int, int]
# Bounds by category, under "" over all, and by score.
_Bounds = dict[str, dict[str, list[float] | None]]


def metric_function(
    *, resamples: int = RESAMPLES, subsamples: int = 0
) -> Callable[[Callable[..., Examples]], MetricFunction]:
    """Decorate a function that returns `Examples`; the decorated function aggregates them.

    Args:
        resamples, subsamples: the defaults of these options.

    The metric has the options of the function and of `aggregate`; ``metric.per_example`` is the function itself.
    """

    def decorate(per_example: Callable[..., Examples]) -> MetricFunction:
        defaults = {"confidence": None, "resamples": resamples, "seed": 0, "subsamples": subsamples}

        @functools.wraps(per_example)
        def metric(*columns: Any, **options: Any) -> dict[str, Any]:
            settings = {name: options.pop(name, default) for name, default in defaults.items()}
            check_options(settings["confidence"], settings["resamples"], settings["seed"])
            check_whole(subsamples=(settings["subsamples"], 0))
            check_unmasked([*columns, *options.values()], "inputs")
            return aggregate(per_example(*columns, **options), **settings)

        annotations = SummaryOptions.__annotations__
        parameters = _parameters(per_example)
        parameters += [_option(name, annotations[name], default) for name, default in defaults.items()]
        metric.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        metric.__annotations__["return"] = dict[str, Any]
        metric.__dict__["__signature__"] = inspect.Signature(parameters, return_annotation=dict[str, Any])
        made = cast(MetricFunction, metric)
        made.per_example = per_example
        return made

    return decorate


def option_names(function: Callable[..., Any]) -> list[str]:
    """Return the keyword options of a metric's function, including the keys of an unpacked mapping."""
    return [parameter.name for parameter in _parameters(function) if parameter.kind is parameter.KEYWORD_ONLY]


def label_names(function: Callable[..., Any]) -> list[str]:
    """Return the options of a metric's function that have one entry for each example, such as "categories"."""
    annotations = {parameter.name: str(parameter.annotation) for parameter in _parameters(function)}
    return [
        name for name in option_names(function) if {"Labels", "ArrayLike"} & set(re.findall(r"\w+", annotations[name]))
    ]


def flatten(result: Mapping[str, Any]) -> dict[str, float]:
    """Flatten the result of a metric to a single level of numbers, as trainers and experiment trackers log them.

    Args:
        result: a metric's result.

    Returns:
        Scores and counts by name; scores of a category as ``score/category``, of other groups as
        ``score/group/label``; the bounds of an interval as ``score_interval_low`` and ``score_interval_high``. An
        undefined score is NaN. Texts and lists are left out.

    >>> flatten({"accuracy": 0.5, "macro_accuracy": None, "per_category": {"swap": {"accuracy": 0.0, "n": 2}}})
    {'accuracy': 0.5, 'macro_accuracy': nan, 'accuracy/swap': 0.0, 'n/swap': 2}
    """
    flat: dict[str, float] = {}
    for name, value in result.items():
        if isinstance(value, Mapping):
            group = "" if name == "per_category" else f"{name.removeprefix('per_')}/"
            for label, inner in value.items():
                scores = inner if isinstance(inner, Mapping) else {name: inner}
                flat |= {f"{score}/{group}{label}": number for score, number in flatten(scores).items()}
        elif name.endswith("_interval"):
            bounds = value or (None, None)
            flat |= flatten({f"{name}_low": bounds[0], f"{name}_high": bounds[1]})
        elif value is None or isinstance(value, int | float):
            flat[name] = math.nan if value is None else value
    return flat


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, with the keys of an unpacked mapping one by one."""
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            [options] = get_args(get_type_hints(function)[parameter.name])
            parameters += [_option(name, annotation, None) for name, annotation in options.__annotations__.items()]
        else:
            parameters.append(parameter)
    return parameters


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
    """Average examples over all (micro), within categories, and over categories (macro), with intervals.

    Args:
        examples: the result of a metric's `per_example`.
        confidence, resamples, seed, subsamples: see `SummaryOptions`.

    Returns:
        Plain Python numbers, so that ``json.dumps`` accepts them:

        - each score by its name, over all examples; None where it is undefined;
        - ``macro_<score>`` for the means, the unweighted mean over categories, the same as the mean over examples
          without categories; None if no category counts;
        - ``tie_rate``, the share of examples that a tie decides, and ``n``, their number;
        - ``per_category``: for each category, in the order of first appearance, its scores, ``tie_rate`` and ``n``;
        - the tables, parts and counts of the metric;
        - with ``confidence``: ``confidence``, and for each score ``<score>_interval`` as [low, high], also by category
          (see ``bootstrap.cluster_bootstrap``); None where resamples do not spread and no exact interval is known;
        - with ``subsamples``: ``<score>_subsample_std``, the standard deviation of the score over these subsets, which
          TRICD's authors use as the smallest gap that separates two models; None below 5 examples, since 90 % of them
          are all of them, and if fewer than two subsets define the score.

    Raises:
        ScoresError: an option outside its range.

    Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), Table 6, for the macro average; TRICD
    (Kamath, Price et al., 2023), section 5.3, for the subsets.

    >>> from vl_assay.metrics.estimation.spec import make_examples
    >>> examples = make_examples({"accuracy": [1, 1, 0]}, [False, False, True], categories=["add", "add", "swap"])
    >>> result = aggregate(examples)
    >>> result["macro_accuracy"], result["per_category"]["swap"]
    (0.5, {'accuracy': 0.0, 'tie_rate': 1.0, 'n': 1})
    """
    check_options(confidence, resamples, seed)
    result = averages(examples)
    per_category = {name: averages(examples, indices) for name, indices in examples.categories.items()}
    if examples.with_macro:
        for score in examples.values:
            means = (
                [per_category[name][score] for name in examples.macro_categories] if per_category else [result[score]]
            )
            result[f"macro_{score}"] = _mean_of_means(means)
    result["per_category"] = per_category
    for name, groups in examples.parts.items():
        result[name] = {label: _group_averages(examples, members, per_category) for label, members in groups.items()}
    if confidence is not None:
        result["confidence"] = float(confidence)
        _add_intervals(result, examples, (float(confidence), resamples, seed))
    if subsamples:
        result |= _subsample_deviations(examples, subsamples, seed)
    return result | examples.facts(None)


def averages(examples: Examples, indices: Indices | None = None) -> dict[str, Any]:
    """Return scores, tables, tie rate, number and counts of all examples, or of those with these indices."""
    rows = slice(None) if indices is None else indices
    result: dict[str, Any] = {name: _mean(values[rows]) for name, values in examples.values.items()}
    for estimator in examples.estimators:
        scores = (estimator if indices is None else estimator.select(indices))().tolist()
        result |= {
            name: None if math.isnan(value) else value for name, value in zip(estimator.names, scores, strict=True)
        }
    for name, table in examples.tables.items():
        result[name] = {label: _scaled_mean(values[rows]) for label, values in table.items()}
    if examples.with_tie_rate:
        result["tie_rate"] = float(examples.tied[rows].mean())
    result["n"] = len(examples) if indices is None else len(indices)
    return result if indices is None else result | examples.facts(indices)


def _group_averages(
    examples: Examples, members: Sequence[str], per_category: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Average the examples of a group of categories, and its categories."""
    indices = np.sort(np.concatenate([examples.categories[name] for name in members]))
    result: dict[str, Any] = {score: _mean(values[indices]) for score, values in examples.values.items()}
    for score in examples.values:
        result[f"macro_{score}"] = _mean_of_means([per_category[name][score] for name in members])
    return result | {"tie_rate": float(examples.tied[indices].mean()), "n": len(indices)}


def _mean_of_means(means: Sequence[float | None]) -> float | None:
    defined = [mean for mean in means if mean is not None]
    return math.fsum(defined) / len(defined) if defined else None


def _mean(values: Floats) -> float | None:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else None


def _scaled_mean(values: Floats) -> float:
    """Return a mean without overflow: values are divided by a power of two, which rounds nothing."""
    _, exponent = np.frexp(np.abs(values).max())
    return float(np.ldexp(np.ldexp(values, -exponent).mean(), exponent))


def _add_intervals(result: dict[str, Any], examples: Examples, options: _Options) -> None:
    results = {"": result, **result["per_category"]}
    for score in examples.values:
        _add_mean_intervals(result, examples.of_score(score), score, options)
    for estimator in examples.estimators:
        if estimator.with_interval:
            is_sum = isinstance(estimator, OfTotals)
            intervals = (
                _of_totals(estimator, examples, options) if is_sum else _of_weights(estimator, examples, options)
            )
            for category, by_score in intervals.items():
                results[category] |= {f"{name}_interval": interval for name, interval in by_score.items()}
    for name, table in examples.tables.items():
        is_share = all(np.isin(values, (0, 1)).all() for values in table.values())
        for category, indices in examples.places.items():
            clusters, bounds = examples.clusters[indices], {}
            for label, values in table.items():
                if is_share:
                    interval: Interval | None = cluster_bootstrap(values[indices], clusters, None, *options).micro
                else:
                    interval = mean_interval(values[indices], clusters, *options)
                bounds[label] = interval and list(interval)
            results[category][f"{name}_interval"] = bounds


def _add_mean_intervals(result: dict[str, Any], examples: Examples, score: str, options: _Options) -> None:
    """Add the intervals of a mean, from the examples that have this score."""
    if not len(examples):
        return
    values, clusters = examples.values[score], examples.clusters
    groups = {
        (name, label): members
        for name, named_members in examples.parts.items()
        for label, members in named_members.items()
    }
    indices, labels = examples.membership or (np.arange(len(examples)), None)
    by_category = cluster_bootstrap(values[indices], clusters[indices], labels, *options, groups)
    # An example with several labels counts once in each, but only once in the mean over all.
    is_partition = np.array_equal(indices, np.arange(len(examples)))
    micro = by_category.micro if is_partition else cluster_bootstrap(values, clusters, None, *options).micro
    result[f"{score}_interval"] = list(micro)
    if examples.with_macro:
        macro: tuple[float, float] | None = by_category.macro
        if examples.rare and examples.categories:
            indices, labels = examples.macro_membership
            macro = cluster_bootstrap(values[indices], clusters[indices], labels, *options).macro if labels else None
        result[f"macro_{score}_interval"] = macro and list(macro)
    for category, interval in by_category.categories.items():
        result["per_category"][category][f"{score}_interval"] = list(interval)
    for (name, label), (micro, macro) in by_category.groups.items():
        result[name][label] |= {f"{score}_interval": list(micro), f"macro_{score}_interval": list(macro)}


def _of_totals(estimator: OfTotals, examples: Examples, options: _Options) -> _Bounds:
    """Return intervals by category, and under "" over all, each from its own resamples."""
    confidence, resamples, seed = options
    intervals: _Bounds = {}
    for category, indices in examples.places.items():
        selected, clusters = estimator.select(indices), examples.clusters[indices]
        if edge := selected.edge(selected.values, clusters, confidence):
            intervals[category] = {estimator.names[0]: list(edge)}
        else:
            values = selected.function(resampled_totals(selected.values, clusters, resamples, seed))
            bounds = (list(percentile_interval(column, confidence, clusters)) for column in values.T)
            intervals[category] = dict(zip(estimator.names, bounds, strict=True))
    return intervals


def _of_weights(estimator: Estimator, examples: Examples, options: _Options) -> _Bounds:
    """Return intervals by category, and under "" over all, from the same resamples; None if they do not spread."""
    confidence, resamples, seed = options
    categories = examples.places
    estimators = {name: estimator.select(indices) if name else estimator for name, indices in categories.items()}
    resampled: dict[str, list[Floats]] = {name: [] for name in categories}
    for weights in resampled_weights(examples.clusters, resamples, seed):
        for name, indices in categories.items():
            resampled[name].append(estimators[name](weights[indices]))
    intervals: _Bounds = {name: {} for name in categories}
    for category, values in resampled.items():
        clusters = examples.clusters[categories[category]]
        for name, column in zip(estimator.names, np.array(values).T, strict=True):
            low, high = percentile_interval(column, confidence, clusters) if np.isfinite(column).any() else (0.0, 0.0)
            intervals[category][name] = [low, high] if low < high else None
    return intervals


def _subsample_deviations(examples: Examples, subsamples: int, seed: int) -> dict[str, float | None]:
    """Return the standard deviation of every score over random 90 % subsets, by its key in the results."""
    generator = np.random.default_rng(seed)
    n = len(examples)
    size = round(_SUBSAMPLE_SHARE * n)
    values: dict[str, list[float]] = {score: [] for score in examples.scores}
    for _ in range(subsamples if size < n else 0):
        rows = generator.choice(n, size, replace=False)
        weights = np.zeros(n)
        weights[rows] = 1
        for name, column in examples.values.items():
            values[name].append(math.nan if np.isnan(column[rows]).all() else float(np.nanmean(column[rows])))
        for estimator in examples.estimators:
            for name, value in zip(estimator.names, estimator(weights).tolist(), strict=True):
                values[name].append(value)
    defined = {name: [value for value in drawn if not math.isnan(value)] for name, drawn in values.items()}
    return {
        f"{name}_subsample_std": statistics.stdev(drawn) if len(drawn) > 1 else None for name, drawn in defined.items()
    }
