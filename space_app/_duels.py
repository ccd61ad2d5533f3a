"""Models side by side: the entries that figures are drawn of, the paired differences, and where two models disagree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..hub_datasets import compare
from ..metrics.errors import SheetError
from ..metrics.sheet_rows import AnswerRow, MatchingRow
from ._entries import RECOMPUTED, Entry
from ._html import cell, line, note, table, texts_cell
from ._pictures import NOT_SHOWN, may_show, pictures_html
from ._ties import credits, is_mean
from ._uploads import expected

if TYPE_CHECKING:
    from ._board import Board, Column
    from ._catalogue import Catalogue

# Of pairs of models fewer draws than a paper's table would take: a page has to answer.
_DRAWS = 1000
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
    sheets = _sheets(catalogue.board, column, chosen)
    if len(sheets) < 2 or not is_mean(column.metric, column.score) or column.score.startswith("macro_"):
        return note(
            "Paired differences need two recomputed models and a score that is a mean over examples: no macro average, "
            "no average precision, nothing that a paper prints."
        )
    lines = [_difference_line(catalogue, column, *pair, sheets) for pair in combinations(sheets, 2)]
    heads = ("models", "difference, points", "95 % interval", "p", "wins", "losses", "agreement, %")
    return table(heads, lines) + note(
        "First less second, over all examples; intervals by bootstrap over images, p by exchanging the models on whole "
        f"images, {_DRAWS:,} draws each, not corrected for the number of pairs."
    )


def disagreements_html(catalogue: Catalogue, column: Column, chosen: Sequence[tuple[str, str]]) -> str:
    """Examples that one of the first two recomputed models gets right and the other wrong: captions, scores, images.

    Images are shown where their licence allows; see ``_pictures``.
    """
    sheets = _sheets(catalogue.board, column, chosen)
    names, score = [*sheets][:2], column.score.removeprefix("macro_")
    if len(names) < 2 or not is_mean(column.metric, score):
        return ""
    first, second = (catalogue.sheet(sheets[name]) for name in names)
    one, two = (credits(sheet, column.metric, score) for sheet in (first, second))
    differ = [name for name, credit in one.items() if name in two and two[name] != credit]
    if not differ:
        return note("They agree on every example.")
    try:
        data = expected(first.metadata)
    except SheetError as error:
        return note(str(error))
    examples = {example.id: example for example in data.examples}
    rows = [{row.id: row for row in sheet.rows} for sheet in (first, second)]
    is_shown = may_show(column.benchmark)
    lines = []
    for name in (name for name in differ[:_MOST_EXAMPLES] if name in examples):
        image = [f"<td>{pictures_html(data, examples[name])}</td>"] if is_shown else []
        said = [f"<td>{_said(each[name])}</td>" for each in rows]
        lines.append(line(name, [*image, texts_cell(examples[name].captions), *said]))
    heads = ["example", *(["image"] if is_shown else []), _TEXTS, *names]
    return (
        f"<h4>{len(differ):,} of {len(one):,} examples on which they disagree"
        f"{f', the first {_MOST_EXAMPLES}' if len(differ) > _MOST_EXAMPLES else ''}</h4>"
        + table(heads, lines, wide=_TEXTS)
        + ("" if is_shown else note(NOT_SHOWN))
    )


def _sheets(board: Board, column: Column, chosen: Sequence[tuple[str, str]]) -> dict[str, str]:
    """SHA-256 of the sheets of the chosen models that were recomputed, references too, by model."""
    found = ((model, board.entry(column, model, origin)) for model, origin in chosen if origin == RECOMPUTED)
    return {model: entry.sheet for model, entry in found if entry and entry.sheet}


def _difference_line(catalogue: Catalogue, column: Column, one: str, two: str, sheets: dict[str, str]) -> str:
    try:
        result = _difference(catalogue, column, sheets[one], sheets[two])
    except SheetError as error:
        return line(f"{one} − {two}", [f"<td colspan='6' class='wide'>{escape(str(error))}</td>"])
    low, high = result["difference_interval"]
    cells = (
        f"{100 * result['difference']:+.1f}",
        f"{100 * low:+.1f} – {100 * high:+.1f}",
        f"{result['permutation_p_value']:.3g}",
        f"{result['wins']:,}",
        f"{result['losses']:,}",
        f"{100 * result['agreement']:.1f}",
    )
    return line(f"{one} − {two}", map(cell, cells))


def _difference(catalogue: Catalogue, column: Column, one: str, two: str) -> dict[str, Any]:
    with TemporaryDirectory(prefix="vl-assay-compare-") as folder:
        paths = [Path(folder) / f"{number}.parquet" for number in (1, 2)]
        for path, sheet in zip(paths, (one, two), strict=True):
            path.write_bytes(catalogue.content(sheet))
        found = compare(*paths, resamples=_DRAWS, permutations=_DRAWS)
    return next(each.result for each in found.differences if (each.metric, each.score) == (column.metric, column.score))


def _said(row: Any) -> str:
    if isinstance(row, AnswerRow):
        return "" if row.score is None else f"{row.score:.4g}"
    if isinstance(row, MatchingRow) and row.scores is not None:
        return "<br>".join(_numbers(row.scores))
    return ""


def _numbers(scores: Sequence[Sequence[float]]) -> Iterator[str]:
    for row in scores:
        yield ", ".join(f"{score:.4g}" for score in row)
