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
    counts = {kind: [column[kind] for column in columns] for kind in estimate.calls}
    headings = ("kind", "calls", "tokens read", "tokens written")
    journal = out / JOURNAL_FILE
    answers = len(read_answers(journal, parse_answer)[1]) if journal.exists() else 0
    note = (
        f"At most {estimate.most_calls:,} calls, if each new concept is asked for as often as allowed; fewer where "
        "captions offer nothing to change. Tokens are estimated at four characters each. "
        f"The journal has {answers:,} answers, which are not asked for again. Nothing was asked."
    )
    print_tables([_counts_table(f"Requests for {captions:,} captions", headings, counts), note])


def print_report(report: Report) -> None:
    """Print a table of made and rejected candidates, and the requests."""
    reasons = [reason for reason in REASONS if any(own[reason] for own in report.rejected.values())]
    counts = {kind: [report.made[kind], *map(report.rejected[kind].__getitem__, reasons)] for kind in report.kinds}
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
    sums = [sum(column) for column in zip(*counts.values(), strict=True)]
    rows = [[name, *map("{:,}".format, numbers)] for name, numbers in (*counts.items(), ("all", sums))]
    return simple_table(headings, [*rows[:-1], None, rows[-1]], title=title, numbers=True)
