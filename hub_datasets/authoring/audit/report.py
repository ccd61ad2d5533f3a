"""An audit for people: Markdown, the terminal, and the section of a dataset's card with its small JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError
from ....metrics.common.storage import write_text
from ...core.audits import AUDIT_FILE, SCHEMA, VERSION, read_summary
from .sides import MEANINGS

Record = Mapping[str, Any]

# More categories than this do not fit a page's width.
_MOST_COLUMNS = 8
_TOLD = 3
_MOST_CHARACTERS = 500
_HEADING = "## Audit"


def to_markdown(record: Record) -> str:
    """The whole audit: accuracy of each scorer, what gives captions away, and degenerate pairs."""
    level = f"{100 * record['settings']['confidence']:g}"
    parts = [
        f"### {record['dataset']}, without the image",
        f"How often a scorer that sees captions only prefers the true one of {record['pairs']:,} pairs, in percent; "
        f"chance is 50, a tie counts half. {_method(record)} Intervals ({level} %) are from resampling images.",
        _table(*accuracy_table(record)),
    ]
    if "normalised" in record:
        parts += [
            "After normalisation of all captions (`vl_assay.hub_datasets.authoring.normalising.normalise`: white "
            "space, quotation marks, no sign at the end, a small first letter):",
            _table(*accuracy_table(record, "normalised")),
        ]
    parts += [
        "What gives captions away, the strongest first, with pairs of a true caption / its negative:",
        "\n".join(_telling(record)),
    ]
    parts += ["Pairs that cannot measure what they should:", _table(*degenerate_table(record))]
    return "\n\n".join(part for part in parts if part) + "\n"


def accuracy_table(record: Record, key: str = "scorers") -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of accuracies: over all pairs with the interval, and by category."""
    categories = list(record["categories"])
    wide = len(categories) > _MOST_COLUMNS
    named = [] if len(categories) == 1 else ["highest category"] if wide else categories
    rows = []
    for name, scorer in record[key].items():
        low, high = scorer["accuracy_interval"]
        cells = [_label(name, scorer), f"{_percent(scorer['accuracy'])} ({_percent(low)}–{_percent(high)})"]
        cells.append(_percent(scorer["tie_rate"]))
        if named and wide:
            highest, part = _highest(scorer)
            cells.append(f"{highest} {_percent(part['accuracy'])}")
        elif named:
            cells += [_percent(scorer["per_category"][category]["accuracy"]) for category in categories]
        rows.append(cells)
    return ["scorer", "all", "ties", *named], rows


def degenerate_table(record: Record) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of pairs that cannot measure what they should."""
    rows = []
    for kind, found in record["degenerate"].items():
        ids = ", ".join(f"`{id}`" for id in found["examples"][:_TOLD])
        rows.append([kind.replace("_", " "), f"{found['pairs']:,}", MEANINGS[kind], ids])
    return ["finding", "pairs", "meaning", "such as"], rows


def print_audit(record: Record) -> None:
    """Print a line for each scorer, what its strongest feature is, and the degenerate pairs; files have the rest."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table(title=escape(f"{record['dataset']}: right without the image"), title_justify="left")
    table.add_column("scorer")
    for column in ("all", "interval", "ties", *(["normalised"] if "normalised" in record else []), "highest category"):
        table.add_column(column, justify="right")
    for name, scorer in record["scorers"].items():
        low, high = scorer["accuracy_interval"]
        cells = [f"{_percent(scorer['accuracy'])} %", f"{_percent(low)} – {_percent(high)}"]
        cells.append(f"{_percent(scorer['tie_rate'])} %")
        if "normalised" in record:
            anew = record["normalised"].get(name)
            cells.append(f"{_percent(anew['accuracy'])} %" if anew else "–")
        highest, part = _highest(scorer)
        table.add_row(*map(escape, (_label(name, scorer), *cells, f"{highest}: {_percent(part['accuracy'])} %")))
    console.print(table)
    for line in _telling(record, most=1, examples=False):
        console.print(line.replace("`", "").replace("**", ""), markup=False, highlight=False)
    for kind, found in record["degenerate"].items():
        if found["pairs"]:
            line = f"- {kind.replace('_', ' ')}: {found['pairs']:,} pairs ({MEANINGS[kind]})"
            console.print(line, markup=False, highlight=False)


def to_summary(record: Record) -> dict[str, Any]:
    """The small record that is kept beside a card; its layout is in `_audits.read_audit`."""
    small = {"pairs": record["pairs"], "categories": record["categories"]}
    small["confidence"] = record["settings"]["confidence"]
    small["degenerate"] = {kind: found["pairs"] for kind, found in record["degenerate"].items()}
    for key in ("scorers", "normalised"):
        if key in record:
            small[key] = {
                name: {"kind": scorer["kind"], **_figures(scorer)}
                | {"per_category": {category: _figures(part) for category, part in scorer["per_category"].items()}}
                for name, scorer in record[key].items()
            }
    return small


def write_card(card: Path, record: Record) -> list[Path]:
    """Put the audit into a dataset's card, and its figures into ``audit.json`` beside it.

    The section lies between the comments ``<!-- audit NAME -->`` and ``<!-- /audit NAME -->`` and takes the place of
    what was there. A first one comes under a heading "Audit" before the section on the licence, or at the end. All
    else in the card stays as it is, and the same audit again changes nothing.

    Returns:
        The files that changed.

    Raises:
        DataError: the card cannot be read, or has one of the two comments only.
    """
    try:
        before = card.read_bytes().decode()
    except (OSError, ValueError) as error:
        raise DataError(f"the card {card} cannot be read: {error}") from error
    name = record["dataset"]
    after = _with_section(before, name, to_markdown(record), str(card))
    path = card.with_name(AUDIT_FILE)
    audits = {**(read_summary(path) or {}), name: to_summary(record)}
    content = {"schema": SCHEMA, "version": VERSION, "audits": dict(sorted(audits.items()))}
    changed = []
    for file, text in ((path, json.dumps(content, indent=1, ensure_ascii=False) + "\n"), (card, after)):
        if not file.exists() or file.read_bytes() != text.encode():
            write_text(file, text)
            changed.append(file)
    return changed


def _with_section(card: str, name: str, section: str, path: str) -> str:
    start, end = f"<!-- audit {name} -->", f"<!-- /audit {name} -->"
    if card.count(start) != card.count(end) or card.count(start) > 1:
        raise DataError(f"{path} must have {start} and {end} once each, in this order, or neither; mend or remove them")
    block = f"{start}\n{section}{end}"
    if start in card:
        head, _, rest = card.partition(start)
        if end not in rest:
            raise DataError(f"{path} has {end} before {start}; mend or remove them")
        return head + block + rest.partition(end)[2]
    last = card.rfind("<!-- /audit ")
    if last >= 0:
        place = card.index("-->", last) + len("-->")
        return f"{card[:place]}\n\n{block}{card[place:]}"
    if f"\n{_HEADING}\n" in card:
        head, _, rest = card.partition(f"\n{_HEADING}\n")
        return f"{head}\n{_HEADING}\n\n{block}\n{rest}"
    head, licence, rest = card.partition("\n## Licence")
    return f"{head.rstrip()}\n\n{_HEADING}\n\n{block}\n{licence}{rest}"


def _method(record: Record) -> str:
    settings = record["settings"]
    by = {"image": "images", "image and captions": "images and captions"}[settings["held_out_by"]]
    return f"Rules learn nothing; probes are linear models that were trained on other {by} ({settings['folds']} folds)."


def _highest(scorer: Record) -> tuple[str, Record]:
    """The category in which a scorer is right most often."""
    return max(scorer["per_category"].items(), key=lambda item: item[1]["accuracy"])


def _telling(record: Record, *, most: int = _TOLD, examples: bool = True) -> list[str]:
    """A line for each probe: its strongest features, and pairs that show the first of them."""
    lines = []
    for name, scorer in record["scorers"].items():
        told = scorer.get("telling", ())[:most]
        if not told:
            continue
        features = "; ".join(
            f"{_code(each['feature'])} speaks for the {'true caption' if each['weight'] > 0 else 'negative'} (weight "
            f"{each['weight']:+.2f}, differs in {_percent(each['differs'])} % of the pairs, is right in "
            f"{_percent(each['right'])} % of these)"
            for each in told
        )
        pairs = "; ".join(f"{_code(each['positive'])} / {_code(each['negative'])}" for each in told[0]["examples"])
        shown = f". The first in {pairs}" if examples else ""
        lines.append(f"- **{in_a_line(_label(name, scorer))}**: {features}{shown}")
    return lines


def _figures(part: Record) -> dict[str, Any]:
    low, high = part["accuracy_interval"]
    rounded = [round(value, 4) for value in (part["accuracy"], low, high, part["tie_rate"])]
    return {"accuracy": rounded[0], "interval": rounded[1:3], "tie_rate": rounded[3], "n": part["n"]}


def _label(name: str, scorer: Record) -> str:
    plain = name if scorer["kind"] == "predictions" else name.replace("_", " ")
    return plain if scorer["kind"] == "rule" else f"{scorer['kind']}: {plain}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def in_a_line(text: str) -> str:
    """Text for Markdown that stays within its line and cell, and is no HTML."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def _code(text: str) -> str:
    """Text as a code span, with its white space visible and nothing that would end the span, a cell or a comment."""
    return (
        "`"
        + json.dumps(shortened(text), ensure_ascii=False).replace("`", "´").replace("|", "¦").replace("<", "‹")
        + "`"
    )


def shortened(text: str) -> str:
    """A caption that an example can be."""
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    above, *lines = ["| " + " | ".join(map(in_a_line, row)) + " |" for row in [head, *rows]]
    return "\n".join([above, "|" + "---|" * len(head), *lines])
