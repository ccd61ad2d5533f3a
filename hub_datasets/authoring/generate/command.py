"""The command `generate`: its options, and what it prints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.documents import Part, print_tables, simple_table
from ....metrics.common.errors import ModelError, VLAssayError
from ..data.candidates import CANDIDATES_FILE
from ..data.sources import read_captions
from .asking import JOURNAL_FILE, read_answers
from .checks import REASONS
from .endpoint import open_model
from .generate import KINDS, REPORT_FILE, Estimate, Report, generate, generate_by_rule, plan


def make_candidates(
    source: str,
    out: Path,
    kinds: Sequence[str] | None,
    *,
    reading: Mapping[str, Any],
    with_images: bool,
    rules: str | None,
    model: str | None,
    endpoint: Mapping[str, Any],
    only_plan: bool,
    options: Mapping[str, Any],
    asking: Mapping[str, Any],
) -> None:
    """Read captions, make candidates of them or only estimate the cost, and print the result.

    Args:
        source, reading, with_images: arguments of `read_captions`; images are copied to ``out/images``.
        out, kinds, options: arguments of `generate` and `generate_by_rule`; None means all kinds.
        rules: the lexicon for candidates made by rule; None for a model.
        model, endpoint: arguments of `open_model`.
        only_plan: ask nothing, and print the estimate.
        asking: further arguments of `generate`.
    """
    if rules is not None and (model or only_plan):
        raise VLAssayError("--rules makes no requests; leave out --model and --plan")
    if rules is None and model is None and not only_plan:
        raise VLAssayError("give --model (and --base-url), or --rules for candidates made by rule")
    # First, so that a wrong address is reported before anything is read.
    opened = None if model is None or only_plan else open_model(model, **endpoint)
    captions = read_captions(source, **reading, images=out / "images" if with_images and not only_plan else None)
    chosen = list(kinds or KINDS)
    if only_plan:
        print_plan(plan(captions, chosen, each=options["each"], tries=asking["tries"]), len(captions), out)
        return
    if opened is None:
        report = generate_by_rule(captions, out, chosen, **options, lexicon=rules or "builtin")
    else:
        report = generate(captions, opened, out, chosen, **options, **asking)
    print_report(report)
    made = report.made.total()
    review = f"; review them with `vl-assay review {shlex.quote(str(out))}`" if made else ""
    print(f"written to {out}: {CANDIDATES_FILE}, {REPORT_FILE}{review}")
    if made and not with_images and any(item.image for item in captions):
        print("the same command with --images copies the images there, so that the review shows them")
    unanswered = sum(own["no answer"] for own in report.rejected.values())
    if unanswered:
        message = (
            f"{unanswered:,} without an answer, see the errors in {out / JOURNAL_FILE}; the same command asks again"
        )
        if not made:
            raise ModelError(f"nothing was made, {message}")
        print(message)


def print_plan(estimate: Estimate, captions: int, out: Path) -> None:
    """Print a table of the calls and tokens of a run, and how many answers the journal in its folder has."""
    columns = (estimate.calls, estimate.prompt_tokens, estimate.completion_tokens)
    headings = ("kind", "calls", "tokens read", "tokens written")
    counts = {kind: [column[kind] for column in columns] for kind in estimate.calls}
    table = _counts_table(f"Requests for {captions:,} captions", headings, counts)
    journal = out / JOURNAL_FILE
    answers = len(read_answers(journal)[1]) if journal.exists() else 0
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
