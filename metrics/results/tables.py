"""The tables of a report: for each result its scores by category, and the tables that its metric declares.

The note below the scores explains how they were computed, what to compare them with, and what they leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..common import documents
from ..common.documents import INTERVAL, Cell, Column, Table, TableRow
from ..common.formatting import MISSING, interval, percent, words
from ..records.results import Result
from .scores import (
    ALL,
    CATEGORIES,
    ScoreRow,
    by_category,
    by_result,
    interval_cell,
    long_table,
    macro_count,
    overall,
    partial_sentence,
    percent_cell,
    tie_sentence,
    title,
)

_FEW_NAMES = 3


def report_tables(rows: Sequence[ScoreRow]) -> list[Table]:
    """Return the tables of the results in a long table."""
    tables = []
    for result_rows in by_result(rows):
        result = result_rows[0].result
        tables.append(_score_table(result_rows))
        specs = [spec for spec in result.spec.tables if result.scores.get(spec.name)]
        tables += [
            _label_table(result, spec.name, spec.kind == "shares") for spec in specs if spec.kind in ("shares", "means")
        ]
        tables += [_group_table(result, spec.name) for spec in specs if spec.kind == "groups"]
        tables += [*_further_scores(result), *_rate_table(result)]
    return tables


def to_markdown(results: Sequence[Result]) -> str:
    """Return the tables of some results as Markdown."""
    return documents.to_markdown(report_tables(long_table(results)))


def summary_line(rows: Sequence[ScoreRow]) -> str:
    """Return a result in one line: its title, and the main score with interval, n, chance and blind level."""
    row = overall(rows)[rows[0].result.main_score]
    bounds = f" [{interval(row.interval)}]" if row.interval else ""
    text = (
        f"{title(row.result, row.label)}: {words(row.score)} {percent_cell(row.value) or MISSING}{bounds}, n {row.n:,}"
    )
    levels = {"chance": row.chance, "blind": row.blind}
    return text + "".join(f", {name} {percent_cell(level)}" for name, level in levels.items() if level is not None)


def score_cell(value: float | None, bounds: Sequence[float] | None) -> Cell:
    """Return a fraction in per cent with its interval."""
    return Cell(percent_cell(value), (interval_cell(bounds),))


def _score_table(rows: Sequence[ScoreRow]) -> Table:
    """Tabulate each score with its interval and blind level, ties, n, and the number of cut captions, if any."""
    result = rows[0].result
    cut = result.run.get("truncated_captions", 0)
    with_blind = {row.score for row in rows if row.blind is not None}
    table_rows = []
    for category, by_score in by_category(rows).items():
        cells = []
        for score, row in by_score.items():
            blind = [row.blind_text] * (score in with_blind)
            cells.append(Cell(percent_cell(row.value), (interval_cell(row.interval), *blind)))
        first = next(iter(by_score.values()))
        cells += [Cell(percent_cell(first.tie_rate)), Cell(f"{first.n:,}")]
        cells += [Cell(f"{cut:,}" if by_score == overall(rows) else "")] if cut else []
        table_rows.append(TableRow(category, tuple(cells), first.is_average))
    details = {score: (INTERVAL, *(["blind"] if score in with_blind else [])) for score in result.table_scores}
    columns = [Column(words(score), names) for score, names in details.items()]
    columns += [Column("ties", repeated=True), Column("n", repeated=True)]
    columns += [Column("captions cut", repeated=True)] if cut else []
    note = " ".join(filter(None, _sentences(result, rows)))
    return Table(title(result, rows[0].label), tuple(columns), tuple(table_rows), note)


def _sentences(result: Result, rows: Sequence[ScoreRow]) -> Iterator[str]:
    """Yield the sentences of the note below the scores; some may be empty."""
    several = len(result.table_scores) > 1
    yield partial_sentence([result.benchmark])
    yield tie_sentence(result)
    if confidence := result.options.get("confidence"):
        yield f"Intervals: {100 * confidence:g} %, bootstrap over images."
    yield from result.notes
    if chance := {score: percent_cell(result.chance[score]) for score in result.table_scores if score in result.chance}:
        levels = (f"{words(score)} {level}" if several else level for score, level in chance.items())
        yield f"Chance: {', '.join(levels)}."
    if any(row.blind is not None for row in rows):
        which = f", of scorers that with the best {words(result.main_score)}" if several else ""
        yield f"Blind: the best score of a rule, probe or model that sees only the text{which}."
        if result.blind.get("kind") not in ("probe", "exact"):
            yield "≥: no probes were trained, which `vl-assay audit` does."
    yield _macro_sentence(result)
    deviations = {score: result.scores.get(f"{score}_subsample_std") for score in result.table_scores}
    if known := [f"{words(score)} ± {percent(value)}" for score, value in deviations.items() if value is not None]:
        yield f"Standard deviation over 90 % subsets, in points: {', '.join(known)}."
    if bound := result.run.get("bfloat16_bound"):
        yield f"Computed in bfloat16; what that may turn, up to {bound:.2g} apart, is decided in float32 (dtype auto)."
    for reason, count in result.left_out.items():
        yield f"{count:,} examples are in no score: {reason}."
    if result.missing:
        yield f"{result.missing:,} of {result.benchmark['rows']:,} examples lack their image and are in no score."


def _macro_sentence(result: Result) -> str:
    """Return which categories the macro average leaves out, and why; empty if it averages all."""
    if not result.rare:
        return ""
    by_reason: dict[str, list[str]] = {}
    for name, reason in result.rare.items():
        by_reason.setdefault(reason, []).append(name)
    left_out = "; ".join(
        f"{', '.join(names) if len(names) <= _FEW_NAMES else f'{len(names):,} categories'} ({reason})"
        for reason, names in by_reason.items()
    )
    count = sum(name not in result.rare for name in result.scores.get(CATEGORIES, {}))
    return (
        f"The macro average is over {count:,} of {count + len(result.rare):,} categories, "
        f"{macro_count(result):,} of {result.scores['n']:,} examples; not in it: {left_out}."
    )


def _label_table(result: Result, name: str, is_share: bool) -> Table:
    """Tabulate a number for each label: shares of the examples, or means on any scale."""

    def cells(scores: Mapping[str, Any]) -> list[Cell]:
        bounds = scores.get(f"{name}_interval", {})
        return [_number_cell(scores[name].get(label), bounds.get(label), is_share) for label in result.scores[name]]

    return _table_by_category(result, words(name), list(result.scores[name]), cells)


def _further_scores(result: Result) -> list[Table]:
    """Tabulate the scores that the main table leaves out; scores without intervals, such as ranks, are no fractions."""
    scores = result.scores
    names = [
        name
        for name, value in scores.items()
        if (value is None or (isinstance(value, int | float) and not isinstance(value, bool)))
        and not (name in result.table_scores or name.startswith("macro_") or result.spec.score(name) is None)
    ]

    def cells(of: Mapping[str, Any]) -> list[Cell]:
        return [_number_cell(of.get(name), of.get(f"{name}_interval"), f"{name}_interval" in scores) for name in names]

    return [_table_by_category(result, "further scores", list(map(words, names)), cells)] if names else []


def _table_by_category(
    result: Result, heading: str, headers: Sequence[str], cells: Callable[[Mapping[str, Any]], list[Cell]]
) -> Table:
    """Return a table with a row for each category and one for all examples."""
    scores_of = {**result.scores.get(CATEGORIES, {}), ALL: result.scores}
    if len(scores_of) == 2:
        del scores_of[ALL]
    several = len(scores_of) > 1
    rows = (TableRow(name, tuple(cells(scores)), several and name == ALL) for name, scores in scores_of.items())
    return Table(heading, tuple(Column(header, (INTERVAL,)) for header in headers), tuple(rows), is_part=True)


def _number_cell(value: float | None, bounds: Sequence[float] | None, as_percent: bool) -> Cell:
    """Format a fraction in per cent, or a number on another scale, such as a rank, with four digits."""
    if as_percent:
        return score_cell(value, bounds)
    low_and_high = "" if bounds is None else " – ".join(map(_digits, bounds))
    return Cell("" if value is None else _digits(value), (low_and_high,))


def _digits(value: float) -> str:
    return f"{value:#.4g}".rstrip(".")


def _group_table(result: Result, name: str) -> Table:
    """Return a row for each group of categories, with the table scores and their macro averages."""
    groups = result.scores[name]
    candidates = [key for score in result.table_scores for key in (score, f"macro_{score}")]
    keys = [key for key in candidates if any(key in scores for scores in groups.values())]
    rows = []
    for label, scores in groups.items():
        cells = [score_cell(scores.get(key), scores.get(f"{key}_interval")) for key in keys]
        cells += [Cell(percent_cell(scores.get("tie_rate"))), Cell(f"{scores['n']:,}")]
        rows.append(TableRow(label, tuple(cells)))
    columns = [*(Column(words(key), (INTERVAL,)) for key in keys), Column("ties", repeated=True)]
    return Table(words(name), (*columns, Column("n", repeated=True)), tuple(rows), is_part=True)


def _rate_table(result: Result) -> list[Table]:
    """Tabulate fractions by category that are not scores, such as shares of all errors; return no table without any."""
    categories = result.scores.get(CATEGORIES, {})
    names = [spec.name for spec in result.spec.tables if spec.kind == "rates"]
    known = [name for name in names if any(scores.get(name) is not None for scores in categories.values())]
    rows = [
        TableRow(category, tuple(Cell(percent_cell(scores.get(name))) for name in known))
        for category, scores in categories.items()
    ]
    return [Table("by category", tuple(Column(words(name)) for name in known), tuple(rows), is_part=True)] * bool(known)
