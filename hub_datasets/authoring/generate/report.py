"""What the command `generate` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ....metrics.common.documents import Part, print_tables, simple_table
from ...chat.calls import read_answers
from .asking import JOURNAL_FILE, parse_answer
from .generate import Estimate, Report
from .rejected import REASONS


def print_plan(estimate: Estimate, captions: int, out: Path) -> None:
    """Print a table of the calls and tokens of a run, and how many answers the journal in its folder has."""
    columns = (estimate.calls, estimate.prompt_tokens, estimate.completion_tokens)
    headings = ("kind", "calls", "tokens read", "tokens written")
    counts = {kind: [column[kind] for column in columns] for kind in estimate.calls}
    table = _counts_table(f"Requests for {captions:,} captions", headings, counts)
    journal = out / JOURNAL_FILE
    answers = len(read_answers(journal, parse_answer)[1]) if journal.exists() else 0
    note = (
        f"At most {estimate.most_calls:,} calls, if each new concept is asked for as often as allowed; fewer where "
        "captions offer nothing to change. Tokens are estimated at four characters each. "
        f"The journal has {answers:,} answers, which are not asked for again. Nothing was asked."
    )
    print_tables([table, note])


def print_report(report: Report) -> None:
    """Print a table of made and rejected candidates, and the requests."""
    reasons = [reason for reason in REASONS if any(own[reason] for own in report.rejected.values())]
    counts = {
        kind: [report.made[kind], *(report.rejected[kind][reason] for reason in reasons)] for kind in report.kinds
    }
    title = f"Candidates of {report.captions:,} captions by {report.source}"
    parts: list[Part] = [_counts_table(title, ("kind", "made", *reasons), counts)]
    if usage := report.usage:
        parts.append(
            f"{usage.calls:,} calls of {usage.prompt_tokens:,} tokens read and {usage.completion_tokens:,} written; "
            f"{usage.reused:,} answers were there already"
        )
    print_tables(parts)


def _counts_table(title: str, headings: Sequence[str], counts: Mapping[str, Sequence[int]]) -> Part:
    """A table of the numbers of each kind, and of their sums."""
    rows = [*counts.items(), ("all", [sum(column) for column in zip(*counts.values(), strict=True)])]
    cells = [[name, *(f"{number:,}" for number in numbers)] for name, numbers in rows]
    return simple_table(headings, [*cells[:-1], None, cells[-1]], title=title, numbers=True)
