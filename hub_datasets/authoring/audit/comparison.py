"""Comparison of two sets of hard negatives of the same captions, by the scores that blind scorers give them."""

from __future__ import annotations

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
from .audit import RULES, Scores, blind_predictions
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


def compare(
    first: Sequence[Pair],
    second: Sequence[Pair],
    names: tuple[str, str],
    *,
    predictions: tuple[Sequence[str | Path], Sequence[str | Path]] = ((), ()),
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare two sets of negatives of the same captions, by scorers that see only captions.

    A pair of `first` is joined with the first pair of `second` that has the same positive caption and kind of negative
    (see `kind_of`); a pair of `second` may be joined several times.

    Args:
        first, second: the pairs of the two sets.
        names: of the two sets, for the record.
        predictions: files of the same blind models, for all pairs of the first set and of the second set.
        confidence: coverage of the intervals, strictly between 0 and 1.
        seed: of the resamples, a whole number from 0.

    Returns:
        A record with `schema`, `version`, `first` and `second` (names), `settings`, `left_out` (for each kind, the
        pairs of `first` without a partner and the pairs of `second` that were not joined) and `kinds`: for each kind
        `joined`, `images` and `scorers`. A scorer has `positive`, `first` and `second` (mean scores, higher is taken
        for true), `first_higher`, `second_higher` and `tie` (shares of the joined pairs by their negatives' scores),
        each with `mean` and `interval` (None if resamples do not differ), and `not_finite`, the number of pairs without
        a finite score, which these figures exclude.

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
    first_models, second_models = map(blind_predictions, predictions, (first, second))
    if set(first_models) != set(second_models):
        raise PredictionsError(
            f"predictions of {names[0]} are of {', '.join(first_models) or 'no model'}, those of {names[1]} of "
            f"{', '.join(second_models) or 'no model'}; give those of the same models"
        )
    # Together, so that the negatives of one caption are scored by the same language model; ids must differ.
    both = [pair._replace(id=f"{side}/{pair.id}") for side, pairs in enumerate((first, second)) for pair in pairs]
    scores = {
        name: np.array([[rule(pair.positive), rule(pair.negative)] for pair in both])
        for name, (_, rule) in RULES.items()
    }
    scores |= {f"language model of {name}": np.column_stack(blind_scores(both, name)) for name in BLIND_SCORERS}
    scores |= {name: np.concatenate([values, second_models[name]]) for name, values in first_models.items()}
    clusters = group_pairs(first).codes
    kinds: dict[str, Any] = {}
    for kind, joined_rows in joined.items():
        rows, partners = np.array(joined_rows).T
        tables = {
            name: np.column_stack([values[rows], values[len(first) + partners, 1]]) for name, values in scores.items()
        }
        kinds[kind] = {
            "joined": len(joined_rows),
            "images": len({first[row].image or first[row].positive for row in rows}),
            "scorers": {name: _figures(table, clusters[rows], confidence, seed) for name, table in tables.items()},
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
    """Return the kind of a category's negatives: ``"replace"`` of ``"replace_att"``."""
    kind = category.rpartition("/")[2].removeprefix("unrefined_").partition("_")[0]
    return _SAME_KIND.get(kind, kind)


def joined_pairs(
    first: Sequence[Pair], second: Sequence[Pair]
) -> tuple[dict[str, list[tuple[int, int]]], dict[str, dict[str, int]]]:
    """Return the rows of joined pairs by kind, and how many pairs of each side have no partner; see `compare`."""
    partners: dict[tuple[str, str], int] = {}
    for row, pair in enumerate(second):
        partners.setdefault((kind_of(pair.category), pair.positive), row)
    joined: dict[str, list[tuple[int, int]]] = defaultdict(list)
    left_out: dict[str, dict[str, int]] = defaultdict(lambda: {"first": 0, "second": 0})
    for row, pair in enumerate(first):
        partner = partners.get((kind_of(pair.category), pair.positive))
        if partner is None:
            left_out[kind_of(pair.category)]["first"] += 1
        else:
            joined[kind_of(pair.category)].append((row, partner))
    used = {partner for rows in joined.values() for _, partner in rows}
    for row, pair in enumerate(second):
        left_out[kind_of(pair.category)]["second"] += row not in used
    return dict(joined), dict(left_out)


def _figures(table: Scores, clusters: NDArray[np.intp], confidence: float, seed: int) -> dict[str, Any]:
    """Return the figures of one scorer, from its scores in the order of `_COLUMNS`, shape (n, 3)."""
    finite = np.isfinite(table).all(axis=1)
    table = table[finite]
    figures: dict[str, Any] = {"not_finite": int((~finite).sum())}
    if not len(table):
        return figures
    sign = np.sign(table[:, 1] - table[:, 2])
    columns = [*table.T, *((sign == outcome).astype(np.float64) for outcome in (1, -1, 0))]
    intervals = mean_intervals(columns, clusters[finite], confidence, _RESAMPLES, seed)
    for name, values, bounds in zip((*_COLUMNS, *_SHARES), columns, intervals, strict=True):
        figures[name] = {"mean": float(values.mean()), "interval": bounds}
    return figures


def write_comparison(record: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write ``comparison.json`` and ``comparison.md`` into a folder; raises `StorageError`."""
    markdown = documents.to_markdown(comparison_parts(record))
    return write_forms(folder / COMPARISON_FILE, json=as_json(record), md=markdown)


def comparison_parts(record: Mapping[str, Any]) -> list[documents.Part]:
    """Return the parts of the report, the verdict first."""
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
    odd = 0
    for kind, comparison in record["kinds"].items():
        rows = []
        for name, figures in comparison["scorers"].items():
            means = (with_interval(figures.get(column), "{:.3f}".format) for column in _COLUMNS)
            rows.append([name, *means, *(with_interval(figures.get(share), percent) for share in _SHARES)])
            odd += figures["not_finite"]
        title = f"{kind}: {comparison['joined']:,} joined, {comparison['images']:,} images"
        parts.append(documents.simple_table(headings, rows, title=title, numbers=True))
    rows = [[kind, f"{figures['first']:,}", f"{figures['second']:,}"] for kind, figures in record["left_out"].items()]
    parts.append(documents.simple_table(["no partner", first, second], rows, title="Left out", numbers=True))
    return parts + ([f"{odd:,} scores of joined pairs are not finite, and in none of these figures."] if odd else [])


def _verdict(kind: str, comparison: Mapping[str, Any], first: str, second: str) -> str:
    counts = []
    for name, share in ((first, "first_higher"), (second, "second_higher")):
        bounds = [figures[share]["interval"] for figures in comparison["scorers"].values() if share in figures]
        counts.append(f"{name}'s by {sum(low_high is not None and low_high[0] > 0.5 for low_high in bounds)}")
    number = len(comparison["scorers"])
    return f"{kind}: of {number} scorers, the negatives that score higher for most captions are {' and '.join(counts)}."


def with_interval(figure: Mapping[str, Any] | None, form: Callable[[float], str]) -> str:
    """Format a mean with its interval, "–" for no mean."""
    if figure is None:
        return "–"
    bounds = figure["interval"]
    return form(figure["mean"]) + (f" [{', '.join(map(form, bounds))}]" if bounds else "")
