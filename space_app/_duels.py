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
from ._ties import credits, is_mean
from ._uploads import expected

if TYPE_CHECKING:
    from ._board import Board, Column
    from ._catalogue import Catalogue

# Of pairs of models fewer draws than a paper's table would take: a page has to answer.
_DRAWS = 1000
_MOST_EXAMPLES = 20


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
    sheets = catalogue.board.recomputed(column)
    names = [model for model, origin in chosen if origin == RECOMPUTED and model in sheets]
    if len(names) < 2 or not is_mean(column.metric, column.score) or column.score.startswith("macro_"):
        return _note(
            "Paired differences need two recomputed models and a score that is a mean over examples: no macro average, "
            "no average precision, nothing that a paper prints."
        )
    lines = "".join(_difference_line(catalogue, column, *pair, sheets) for pair in combinations(names, 2))
    heads = ("models", "difference, points", "95 % interval", "p", "wins", "losses", "agreement, %")
    head = "".join(f"<th scope='col'>{text}</th>" for text in heads)
    return (
        f"<div class='assay-board'><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
        + _note(
            "First less second, over all examples; intervals by bootstrap over images, p by exchanging the models on "
            f"whole images, {_DRAWS:,} draws each, not corrected for the number of pairs."
        )
    )


def disagreements_html(catalogue: Catalogue, column: Column, chosen: Sequence[tuple[str, str]]) -> str:
    """Examples that one of the first two recomputed models gets right and the other wrong, with captions and scores."""
    sheets = catalogue.board.recomputed(column)
    names = [model for model, origin in chosen if origin == RECOMPUTED and model in sheets][:2]
    score = column.score.removeprefix("macro_")
    if len(names) < 2 or not is_mean(column.metric, score):
        return ""
    first, second = (catalogue.sheet(sheets[name]) for name in names)
    one, two = (credits(sheet, column.metric, score) for sheet in (first, second))
    differ = [name for name, credit in one.items() if name in two and two[name] != credit]
    if not differ:
        return _note("They agree on every example.")
    texts = {example.id: example.captions for example in expected(first.metadata).examples}
    rows = [{row.id: row for row in sheet.rows} for sheet in (first, second)]
    lines = []
    for name in differ[:_MOST_EXAMPLES]:
        said = "".join(f"<td>{_said(each[name])}</td>" for each in rows)
        captions = "<br>".join(map(escape, texts.get(name, ())))
        lines.append(f"<tr><th scope='row'>{escape(name)}</th><td class='wide'>{captions}</td>{said}</tr>")
    said_by = "".join(f"<th scope='col'>{escape(name)}</th>" for name in names)
    head = f"<th scope='col'>example</th><th scope='col' class='wide'>captions or question</th>{said_by}"
    return (
        f"<h4>{len(differ):,} of {len(one):,} examples on which they disagree"
        f"{f', the first {_MOST_EXAMPLES}' if len(differ) > _MOST_EXAMPLES else ''}</h4>"
        f"<div class='assay-board'><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _difference_line(catalogue: Catalogue, column: Column, one: str, two: str, sheets: dict[str, str]) -> str:
    label = f"<th scope='row'>{escape(one)} − {escape(two)}</th>"
    try:
        result = _difference(catalogue, column, sheets[one], sheets[two])
    except SheetError as error:
        return f"<tr>{label}<td colspan='6' class='wide'>{escape(str(error))}</td></tr>"
    low, high = result["difference_interval"]
    cells = (
        f"{100 * result['difference']:+.1f}",
        f"{100 * low:+.1f} – {100 * high:+.1f}",
        f"{result['permutation_p_value']:.3g}",
        f"{result['wins']:,}",
        f"{result['losses']:,}",
        f"{100 * result['agreement']:.1f}",
    )
    return f"<tr>{label}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


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
    for line in scores:
        yield ", ".join(f"{score:.4g}" for score in line)


def _note(text: str) -> str:
    return f"<p class='assay-legend'>{escape(text)}</p>"
