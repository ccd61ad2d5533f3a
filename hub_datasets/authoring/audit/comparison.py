"""Comparison of two sets of hard negatives of the same captions: which set's negatives blind scorers rate higher."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....metrics.common import documents
from ....metrics.common.errors import DataError, PredictionsError
from ....metrics.common.formatting import percent
from ....metrics.estimation.bootstrap import check_share, mean_intervals
from ..data.pairs import Pair
from ..refine.ngrams import BLIND_SCORERS, blind_scores
from .audit import RULES, blind_predictions
from .probes import group_pairs
from .report import as_json, write_forms

SCHEMA = "vl-assay/set-comparison"
VERSION = 1
COMPARISON_FILE = "comparison"
_RESAMPLES = 2_000
# SugarCrepe compares NEGATE with ADD: both ask whether something is there (appendix D.2).
_SAME_KIND = {"add": "negate / add", "negate": "negate / add"}
_COLUMNS = ("positive", "first", "second")
_SHARES = ("first_higher", "second_higher", "tie")

Scores = NDArray[np.float64]


def compare(
    first: Sequence[Pair],
    second: Sequence[Pair],
    names: tuple[str, str],
    *,
    predictions: tuple[Sequence[str | Path], Sequence[str | Path]] = ((), ()),
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare two sets of negatives of the same captions, by scorers that see captions alone.

    A pair of `first` is joined with the first pair of `second` that has the same positive caption and kind of negative
    (see `kind_of`); a pair of `second` may be joined several times.

    Args:
        first, second: the pairs of the two sets.
        names: of the two sets, for the record.
        predictions: of models that see no image, for all pairs of the first set and of the second; of the same models.
        confidence: coverage of the intervals, strictly between 0 and 1.
        seed: of the resamples, a whole number from 0.

    Returns:
        A record with `schema`, `version`, `first` and `second` (names), `settings`, `left_out` (for each kind, the
        pairs of `first` without a partner and those of `second` that are nobody's) and `kinds`: for each kind `joined`,
        `images` and `scorers`. A scorer has `positive`, `first` and `second` (mean scores, higher is taken for true),
        `first_higher`, `second_higher` and `tie` (shares of the joined pairs by their negatives' scores), each with
        `mean` and `interval` (None where resamples do not differ), and `not_finite`, pairs without a finite score,
        which are in none of these figures.

    Raises:
        DataError: nothing could be joined.
        PredictionsError: see `audit.blind_predictions`, or the two sets have predictions of different models.
        ScoresError: an option outside its range.

    Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), Table 4, with Vera and a grammar model.
    """
    check_share("confidence", confidence)
    joined, left_out = joined_pairs(first, second)
    if not joined:
        raise DataError(
            f"{names[0]} and {names[1]} have no caption in common with negatives of the same kind; give two sets of "
            "negatives of the same captions, such as sugarcrepe and aro_crepe"
        )
    scores = _all_scores(first, second, names, predictions)
    clusters = group_pairs(first).codes
    kinds: dict[str, Any] = {}
    for kind, joined_rows in joined.items():
        rows, partners = np.array(joined_rows).T
        kinds[kind] = {
            "joined": len(joined_rows),
            "images": len({first[row].image or first[row].positive for row in rows}),
            "scorers": {
                name: _figures(first_scores[rows], second_scores[partners, 1], clusters[rows], confidence, seed)
                for name, (first_scores, second_scores) in scores.items()
            },
        }
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "first": names[0],
        "second": names[1],
        "settings": {"confidence": confidence, "seed": seed, "resamples": _RESAMPLES},
        "left_out": left_out,
        "kinds": kinds,
    }


def kind_of(category: str) -> str:
    """The kind of a category's negatives: ``"replace"`` of ``"replace_att"``, ``"negate / add"`` of ``"add_obj"``."""
    kind = category.rpartition("/")[2].removeprefix("unrefined_").partition("_")[0]
    return _SAME_KIND.get(kind, kind)


def joined_pairs(
    first: Sequence[Pair], second: Sequence[Pair]
) -> tuple[dict[str, list[tuple[int, int]]], dict[str, dict[str, int]]]:
    """The rows of joined pairs by kind, and how many pairs of each side have no partner; see `compare`."""
    partners: dict[tuple[str, str], int] = {}
    for row, pair in enumerate(second):
        partners.setdefault((kind_of(pair.category), pair.positive), row)
    joined: dict[str, list[tuple[int, int]]] = defaultdict(list)
    left_out: dict[str, dict[str, int]] = defaultdict(lambda: {"first": 0, "second": 0})
    used = set()
    for row, pair in enumerate(first):
        key = (kind_of(pair.category), pair.positive)
        if key in partners:
            joined[key[0]].append((row, partners[key]))
            used.add(partners[key])
        else:
            left_out[key[0]]["first"] += 1
    for row, pair in enumerate(second):
        left_out[kind_of(pair.category)]["second"] += row not in used
    return dict(joined), dict(left_out)


def _all_scores(
    first: Sequence[Pair],
    second: Sequence[Pair],
    names: tuple[str, str],
    predictions: tuple[Sequence[str | Path], Sequence[str | Path]],
) -> dict[str, tuple[Scores, Scores]]:
    """For each scorer the scores of both sets' pairs, of shape (n, 2): the positive caption and the negative."""
    # Together, so that the negatives of one caption are scored by the same language model; ids must differ.
    both = [pair._replace(id=f"{side}/{pair.id}") for side, pairs in enumerate((first, second)) for pair in pairs]
    of_both = {
        name: np.array([[rule(pair.positive), rule(pair.negative)] for pair in both])
        for name, (_, rule) in RULES.items()
    }
    of_both |= {f"language model of {name}": np.column_stack(blind_scores(both, name)) for name in BLIND_SCORERS}
    scores = {name: (values[: len(first)], values[len(first) :]) for name, values in of_both.items()}
    first_models, second_models = (
        blind_predictions(paths, pairs) for paths, pairs in zip(predictions, (first, second), strict=True)
    )
    if set(first_models) != set(second_models):
        raise PredictionsError(
            f"predictions of {names[0]} are of {', '.join(first_models) or 'no model'}, those of {names[1]} of "
            f"{', '.join(second_models) or 'no model'}; give those of the same models"
        )
    return scores | {name: (first_models[name], second_models[name]) for name in first_models}


def _figures(first: Scores, second: Scores, clusters: NDArray[np.intp], confidence: float, seed: int) -> dict[str, Any]:
    table = np.column_stack([first, second])
    finite = np.isfinite(table).all(axis=1)
    table = table[finite]
    figures: dict[str, Any] = {"not_finite": int((~finite).sum())}
    if not len(table):
        return figures
    wins, losses = table[:, 1] > table[:, 2], table[:, 1] < table[:, 2]
    columns = [*table.T, *(outcome.astype(np.float64) for outcome in (wins, losses, ~wins & ~losses))]
    intervals = mean_intervals(columns, clusters[finite], confidence, _RESAMPLES, seed)
    for name, values, bounds in zip((*_COLUMNS, *_SHARES), columns, intervals, strict=True):
        figures[name] = {"mean": float(values.mean()), "interval": bounds}
    return figures


def write_comparison(record: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write ``comparison.json``, ``comparison.md`` and ``comparison.csv`` into a folder."""
    markdown = documents.to_markdown(comparison_parts(record))
    return write_forms(folder / COMPARISON_FILE, json=as_json(record), md=markdown, csv=_to_csv(record))


def comparison_parts(record: Mapping[str, Any]) -> list[documents.Part]:
    """The parts of the report, the verdict first."""
    first, second = record["first"], record["second"]
    level = f"{100 * record['settings']['confidence']:g}"
    parts: list[documents.Part] = [
        f"### {first} against {second}, negatives without the image",
        *[_verdict(kind, comparison, first, second) for kind, comparison in record["kinds"].items()],
        f"Mean scores, and shares of joined captions in which one set's negative scores higher, in percent; {level} % "
        "intervals are from resampling images. A higher score is taken for true; scores of different scorers cannot "
        "be compared.",
    ]
    headings = ["scorer", "captions", first, second, f"{first} higher", f"{second} higher", "ties"]
    for kind, comparison in record["kinds"].items():
        rows = [
            [
                name,
                *(with_interval(figures.get(column), "{:.3f}".format) for column in _COLUMNS),
                *(with_interval(figures.get(share), percent) for share in _SHARES),
            ]
            for name, figures in comparison["scorers"].items()
        ]
        title = f"{kind}: {comparison['joined']:,} joined, {comparison['images']:,} images"
        parts.append(documents.simple_table(headings, rows, title=title, numbers=True))
    rows = [[kind, f"{figures['first']:,}", f"{figures['second']:,}"] for kind, figures in record["left_out"].items()]
    parts.append(documents.simple_table(["no partner", first, second], rows, title="Left out", numbers=True))
    odd = sum(
        figures["not_finite"] for comparison in record["kinds"].values() for figures in comparison["scorers"].values()
    )
    if odd:
        parts.append(f"{odd:,} scores of joined pairs are not finite, and in none of these figures.")
    return parts


def _verdict(kind: str, comparison: Mapping[str, Any], first: str, second: str) -> str:
    ahead = {
        name: sum(
            figures.get(share, {"interval": None})["interval"] is not None and figures[share]["interval"][0] > 0.5
            for figures in comparison["scorers"].values()
        )
        for name, share in ((first, "first_higher"), (second, "second_higher"))
    }
    said = " and ".join(f"{name}'s by {count}" for name, count in ahead.items())
    number = len(comparison["scorers"])
    return f"{kind}: of {number} scorers, the negatives that score higher for most captions are {said}."


def with_interval(figure: Mapping[str, Any] | None, form: Callable[[float], str]) -> str:
    """Format a mean with its interval, "–" for no mean."""
    if figure is None:
        return "–"
    bounds = figure["interval"]
    return form(figure["mean"]) + (f" [{', '.join(map(form, bounds))}]" if bounds else "")


def _to_csv(record: Mapping[str, Any]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["kind", "joined", "scorer", "figure", "mean", "low", "high", "not_finite"])
    for kind, comparison in record["kinds"].items():
        for name, figures in comparison["scorers"].items():
            for figure in filter(figures.get, (*_COLUMNS, *_SHARES)):
                bounds = figures[figure]["interval"] or ("", "")
                writer.writerow(
                    [kind, comparison["joined"], name, figure, figures[figure]["mean"], *bounds, figures["not_finite"]]
                )
    return buffer.getvalue()
