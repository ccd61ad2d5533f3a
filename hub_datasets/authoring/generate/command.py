"""The command `generate`: what it does with its options, and what it prints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.errors import ModelError, VLAssayError
from ..data.candidates import CANDIDATES_FILE
from ..data.sources import read_captions
from .asking import JOURNAL_FILE, count_answers
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
    """Read captions, make candidates of them or only plan it, and print what came of it.

    Args:
        source, reading, with_images: what `read_captions` is called with; images go to ``out/images``.
        out, kinds, options: for `generate` and `generate_by_rule`; kinds None stands for all.
        rules: the lexicon where candidates are made by rule, else None.
        model, endpoint: what `open_model` is called with.
        only_plan: ask nothing, and say what would be asked.
        asking: further arguments of `generate`.
    """
    if rules is not None and (model or only_plan):
        raise VLAssayError("--rules makes candidates without a model and takes no calls; leave out --model and --plan")
    if rules is None and model is None and not only_plan:
        raise VLAssayError("no model came; give --model (and --base-url), or --rules for candidates made by rule")
    # Before anything is read, so that a wrong address is told at once.
    opened = None if model is None or only_plan else open_model(model, **endpoint)
    captions = read_captions(source, **reading, images=out / "images" if with_images and not only_plan else None)
    chosen = list(kinds or KINDS)
    if only_plan:
        estimate = plan(captions, chosen, each=options["each"], tries=asking["tries"])
        print_plan(estimate, len(captions), count_answers(out / JOURNAL_FILE))
        return
    if opened is None:
        report = generate_by_rule(captions, out, chosen, **options, lexicon=rules or "builtin")
    else:
        report = generate(captions, opened, out, chosen, **options, **asking)
    print_report(report)
    made = report.made.total()
    review = f"; judge them with `vl-assay review {shlex.quote(str(out))}`" if made else ""
    print(f"written to {out}: {CANDIDATES_FILE}, {REPORT_FILE}{review}")
    if made and not with_images and any(item.image for item in captions):
        print("the same command with --images copies the images there, so that the review shows them")
    unanswered = sum(own["no answer"] for own in report.rejected.values())
    if unanswered:
        told = f"{unanswered:,} without an answer, for the reasons in {out / JOURNAL_FILE}; the same command asks again"
        if not made:
            raise ModelError(f"nothing was made, {told}")
        print(told)


def print_plan(estimate: Estimate, captions: int, answered: int) -> None:
    """A table of the calls and tokens that a run takes."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"What {captions:,} captions take", title_justify="left")
    for column in ("kind", "calls", "tokens read", "tokens written"):
        table.add_column(column, justify="left" if column == "kind" else "right")
    columns = (estimate.calls, estimate.prompt_tokens, estimate.completion_tokens)
    for kind in estimate.calls:
        table.add_row(kind, *(f"{column[kind]:,}" for column in columns))
    table.add_section()
    table.add_row("all", *(f"{sum(column.values()):,}" for column in columns))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"At most {estimate.most_calls:,} calls, if each new concept is asked for as often as it may be. Captions that "
        "offer nothing to change take fewer. Tokens are estimated at four characters each. "
        f"The journal has {answered:,} answers, which are not asked for again. Nothing was asked."
    )


def print_report(report: Report) -> None:
    """A table of what was made and what was left out for which reason, and what it took."""
    from rich.console import Console
    from rich.table import Table

    totals = {reason: sum(own[reason] for own in report.rejected.values()) for reason in REASONS}
    reasons = [reason for reason in REASONS if totals[reason]]
    table = Table(title=f"Candidates of {report.captions:,} captions by {report.source}", title_justify="left")
    for column in ("kind", "made", *reasons):
        table.add_column(column, justify="left" if column == "kind" else "right")
    for kind in report.kinds:
        own = report.rejected.get(kind, {})
        table.add_row(kind, f"{report.made[kind]:,}", *(f"{own.get(reason, 0):,}" for reason in reasons))
    table.add_section()
    table.add_row("all", f"{report.made.total():,}", *(f"{totals[reason]:,}" for reason in reasons))
    console = Console(highlight=False)
    console.print(table)
    if report.usage is not None:
        usage = report.usage
        console.print(
            f"{usage.calls:,} calls of {usage.prompt_tokens:,} tokens read and {usage.completion_tokens:,} written; "
            f"{usage.reused:,} answers were there already"
        )
