"""Models side by side: the entries that figures are drawn of, the paired differences, and where two models disagree."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ...metrics.common.errors import PredictionsError, VLAssayError
from ...metrics.evaluation import interval, p_value, percent, points
from ...metrics.records.schema import MatchingRow, Row, VQARow
from ..board.entries import RECOMPUTED, Entry
from ..board.paired import base_score
from ..submissions.uploads import expected
from ._html import cell, line, note, table, texts_cell
from .pictures import NOT_SHOWN, may_show, pictures_html

if TYPE_CHECKING:
    from ..board.board import Board, Column
    from ..board.catalogue import Catalogue

_MOST_EXAMPLES = 20
_TEXTS = "captions or question"


def contestants(board: Board, column: Column) -> dict[str, tuple[str, str]]:
    """The models (name, origin) that have a score, by what they are called in a list, in the board's order."""
    frame = board.table([column])
    return {
        f"{model} ({origin})": (model, origin) for model, origin in zip(frame["model"], frame["origin"], strict=True)
    }


def entries_of(board: Board, column: Column, chosen: Sequence[tuple[str, str]]) -> list[Entry]:
    """The entries of some models for a score, its categories first and the whole last."""
    columns = [*board.categories(column), column]
    found = (board.entry(each, *who) for who in chosen for each in columns)
    return [entry for entry in found if entry is not None]


def differences_html(catalogue: Catalogue, column: Column, chosen: Sequence[tuple[str, str]]) -> str:
    """A table of the paired differences of all pairs of the chosen models that were recomputed."""
    predictions = _predictions(catalogue.board, column, chosen)
    if len(predictions) < 2:
        return note("Paired differences need two recomputed models; what a paper prints has no predictions.")
    lines = [_difference_line(catalogue, column, *pair, predictions) for pair in combinations(predictions, 2)]
    heads = ("models", "difference, points", "95 % interval", "p", "wins", "losses", "agreement, %")
    return table(heads, lines) + note(
        "First less second, over all examples; intervals by bootstrap over images, p by exchanging the models on whole "
        "images, not corrected for the number of pairs. A win is an example on which the first model is better; only "
        "means over examples have wins."
    )


def disagreements_html(catalogue: Catalogue, column: Column, chosen: Sequence[tuple[str, str]]) -> str:
    """Examples on which the first two recomputed models get different values: captions, predictions, images.

    Images are shown where their licence allows; see ``_pictures``.
    """
    all_predictions = _predictions(catalogue.board, column, chosen)
    names = [*all_predictions][:2]
    if len(names) < 2:
        return ""
    try:
        pair = catalogue.paired.pair(all_predictions[names[0]], all_predictions[names[1]], column.metric)
    except VLAssayError as error:
        return note(str(error))
    examples = pair[0].examples
    score = base_score(examples, column.score)
    if score not in examples.values:
        return ""
    values = [each.examples.values[score] for each in pair]
    counted = ~np.isnan(values[0])
    differ = np.flatnonzero((values[0] != values[1]) & counted).tolist()
    if not differ:
        return note("They agree on every example.")
    first, second = (catalogue.predictions(all_predictions[name]) for name in names)
    try:
        data = expected(first.metadata)
    except PredictionsError as error:
        return note(str(error))
    known = {example.id: example for example in data.examples}
    rows = [{row.id: row for row in predictions.rows} for predictions in (first, second)]
    is_shown = may_show(column.benchmark)
    lines = []
    for number in differ[:_MOST_EXAMPLES]:
        id, part = pair[0].ids[number]
        if id in known:
            image = [f"<td>{pictures_html(data, known[id])}</td>"] if is_shown else []
            predicted = [_predicted(each[id], float(value[number])) for each, value in zip(rows, values, strict=True)]
            label = f"{id}, {part}" if part else id
            lines.append(line(label, [*image, texts_cell(known[id].captions), *predicted]))
    heads = ["example", *(["image"] if is_shown else []), _TEXTS, *names]
    return (
        f"<h4>{len(differ):,} of {counted.sum():,} examples on which they disagree"
        f"{f', the first {_MOST_EXAMPLES}' if len(differ) > _MOST_EXAMPLES else ''}</h4>"
        + table(heads, lines, wide=_TEXTS)
        + ("" if is_shown else note(NOT_SHOWN))
    )


def _predictions(board: Board, column: Column, chosen: Sequence[tuple[str, str]]) -> dict[str, str]:
    """SHA-256 of the predictions of the chosen models that were recomputed, references too, by model."""
    found = ((model, board.entry(column, model, origin)) for model, origin in chosen if origin == RECOMPUTED)
    return {model: entry.predictions for model, entry in found if entry and entry.predictions}


def _difference_line(catalogue: Catalogue, column: Column, one: str, two: str, predictions: dict[str, str]) -> str:
    try:
        found = catalogue.paired.difference(predictions[one], predictions[two], column.metric, column.score)
    except VLAssayError as error:
        return line(f"{one} − {two}", [f"<td colspan='6' class='wide'>{escape(str(error))}</td>"])
    counts = ("" if found[name] is None else f"{found[name]:,}" for name in ("wins", "losses"))
    agreement = "" if found["agreement"] is None else percent(found["agreement"])
    shown = (points(found["difference"]), interval(found["difference_interval"], signed=True))
    return line(f"{one} − {two}", map(cell, (*shown, p_value(found["permutation_p_value"]), *counts, agreement)))


def _predicted(row: Row, value: float) -> str:
    """A cell with the scores that a model gave, or the example's value where there are too many to show."""
    if isinstance(row, VQARow) and row.score is not None:
        return cell(f"{row.score:.4g}")
    if isinstance(row, MatchingRow) and row.scores is not None:
        return f"<td>{'<br>'.join(', '.join(f'{score:.4g}' for score in scores) for scores in row.scores)}</td>"
    return cell(f"{value:.4g}")
