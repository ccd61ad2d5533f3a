"""Reports of an audit: JSON, Markdown, the terminal, and the section of a dataset's card with its JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....metrics.common import documents
from ....metrics.common.errors import DataError
from ....metrics.common.formatting import percent
from ....metrics.common.storage import write_text
from .audit import MEANINGS
from .summaries import AUDIT_FILE, SCHEMA, VERSION, read_summary, verdict

Record = Mapping[str, Any]

# More categories than this do not fit a page's width.
_MAX_CATEGORY_COLUMNS = 8
_SHOWN = 3
_MAX_CHARACTERS = 500
_HEADING = "## Audit"


def write_audit(record: Record, folder: Path) -> list[Path]:
    """Write ``audit.json`` and ``audit.md`` into a folder; raises `StorageError`."""
    return write_report(folder / "audit", record, to_markdown(record))


def write_report(path: Path, record: Record, markdown: str) -> list[Path]:
    """Write a record and its Markdown to files of this name with the suffixes ``.json`` and ``.md``; return these."""
    texts = {path.with_suffix(".json"): as_json(record), path.with_suffix(".md"): markdown}
    for file, text in texts.items():
        write_text(file, text)
    return [*texts]


def as_json(record: Record) -> str:
    """Return the text of a record's JSON file."""
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def to_markdown(record: Record) -> str:
    """Return the audit as Markdown: each scorer's accuracy, features that give captions away, degenerate pairs."""
    level = f"{100 * record['settings']['confidence']:g}"
    by = {"image": "images", "image and captions": "images and captions"}[record["settings"]["held_out_by"]]
    return documents.to_markdown(
        [
            f"### {record['dataset']}, without the image",
            documents.Verdict(*verdict(record)),
            "How often a scorer that sees only the captions prefers the positive caption of "
            f"{record['pairs']:,} pairs, in percent; chance is 50, a tie counts half. Rules learn nothing; probes are "
            f"linear models that were trained on other {by} ({record['settings']['folds']} folds). Intervals ({level} "
            "%) are from resampling images.",
            _accuracy_table(record),
            "The features that separate captions from negatives, the strongest first, with pairs of positive caption / "
            "negative:",
            *filter(None, ["\n".join(_feature_lines(record))]),
            "Degenerate pairs, which do not measure composition:",
            _degenerate_table(record),
        ]
    )


def print_audit(record: Record) -> None:
    """Print the accuracies, the strongest feature of each probe, and the degenerate pairs; files have the rest."""
    table = _accuracy_table(record, title=f"{record['dataset']}: right without the image, %")
    lines = [line.replace("`", "").replace("**", "") for line in _feature_lines(record, shown=1, examples=False)]
    lines += [
        f"- {kind.replace('_', ' ')}: {degenerate['pairs']:,} pairs ({MEANINGS[kind]})"
        for kind, degenerate in record["degenerate"].items()
        if degenerate["pairs"]
    ]
    documents.print_tables([documents.Verdict(*verdict(record)), table, *lines])


def to_summary(record: Record) -> dict[str, Any]:
    """Return the small record that is kept next to a card; its layout is in `summaries.read_audit`."""
    return {
        "pairs": record["pairs"],
        "categories": record["categories"],
        "confidence": record["settings"]["confidence"],
        "degenerate": {kind: degenerate["pairs"] for kind, degenerate in record["degenerate"].items()},
        "scorers": {
            name: {"kind": scorer["kind"], **_rounded(scorer)}
            | {"per_category": {name: _rounded(figures) for name, figures in scorer["per_category"].items()}}
            for name, scorer in record["scorers"].items()
        },
    }


def write_card(card: Path, record: Record) -> list[Path]:
    """Put the audit into a dataset's card, and its figures into ``audit.json`` in the same folder.

    The section lies between the comments ``<!-- audit NAME -->`` and ``<!-- /audit NAME -->`` and replaces what was
    there. The first such section comes under a heading "Audit" before the section on the licence, or at the end. The
    other text of the card is not changed, and writing the same audit again changes nothing.

    Returns:
        The files that changed.

    Raises:
        DataError: the card cannot be read, or has only one of the two comments.
    """
    try:
        before = card.read_bytes().decode()
    except (OSError, ValueError) as error:
        raise DataError(f"the card {card} cannot be read: {error}") from error
    name, path = record["dataset"], card.with_name(AUDIT_FILE)
    after = _with_section(before, name, to_markdown(record), card)
    audits = {**(read_summary(path) or {}), name: to_summary(record)}
    content = {"schema": SCHEMA, "version": VERSION, "audits": dict(sorted(audits.items()))}
    texts = {path: as_json(content), card: after}
    changed = [file for file, text in texts.items() if not file.exists() or file.read_bytes() != text.encode()]
    for file in changed:
        write_text(file, texts[file])
    return changed


def _with_section(card: str, name: str, section: str, path: Path) -> str:
    start, end = f"<!-- audit {name} -->", f"<!-- /audit {name} -->"
    block = f"{start}\n{section}{end}"
    head, marker, rest = card.partition(start)
    if card.count(start) != card.count(end) or card.count(start) > 1 or (marker and end not in rest):
        raise DataError(
            f"{path} must have {start} and {end} once each, in this order, or neither; correct or remove them"
        )
    if marker:
        return head + block + rest.partition(end)[2]
    if "<!-- /audit " in card:
        head, last, rest = card.rpartition("<!-- /audit ")
        ending, close, rest = rest.partition("-->")
        return f"{head}{last}{ending}{close}\n\n{block}{rest}"
    head, heading, rest = card.partition(f"\n{_HEADING}\n")
    if heading:
        return f"{head}{heading}\n{block}\n{rest}"
    head, licence, rest = card.partition("\n## Licence")
    return f"{head.rstrip()}\n\n{_HEADING}\n\n{block}\n{licence}{rest}"


def _accuracy_table(record: Record, title: str = "") -> documents.Table:
    """Return the accuracies over all pairs with the interval, and by category."""
    categories = list(record["categories"])
    many = len(categories) > _MAX_CATEGORY_COLUMNS
    names = [] if len(categories) == 1 else ["highest category"] if many else categories
    rows = []
    for name, scorer in record["scorers"].items():
        of_category = {category: figures["accuracy"] for category, figures in scorer["per_category"].items()}
        highest = max(of_category, key=of_category.__getitem__)
        cells = (
            [f"{highest} {percent(of_category[highest])}"] if many else [percent(of_category[name]) for name in names]
        )
        rows.append([_label(name, scorer), accuracy(scorer), percent(scorer["tie_rate"]), *cells])
    return documents.simple_table(["scorer", "all", "ties", *names], rows, title=title)


def _degenerate_table(record: Record) -> documents.Table:
    rows = []
    for kind, degenerate in record["degenerate"].items():
        ids = ", ".join(f"`{id}`" for id in degenerate["examples"][:_SHOWN])
        rows.append([kind.replace("_", " "), f"{degenerate['pairs']:,}", MEANINGS[kind], ids])
    return documents.simple_table(["finding", "pairs", "meaning", "such as"], rows)


def _feature_lines(record: Record, *, shown: int = _SHOWN, examples: bool = True) -> list[str]:
    """Return a line for each probe: its strongest features, and pairs that show the first of them."""
    lines = []
    for name, scorer in record["scorers"].items():
        features = scorer.get("telling", ())[:shown]
        if not features:
            continue
        texts = "; ".join(
            f"{_code(feature['feature'])} speaks for the {'positive caption' if feature['weight'] > 0 else 'negative'} "
            f"(weight {feature['weight']:+.2f}, differs in {percent(feature['differs'])} % of the pairs, is right in "
            f"{percent(feature['right'])} % of these)"
            for feature in features
        )
        pairs = "; ".join(f"{_code(pair['positive'])} / {_code(pair['negative'])}" for pair in features[0]["examples"])
        suffix = f". The first in {pairs}" if examples else ""
        lines.append(f"- **{documents.in_a_line(_label(name, scorer))}**: {texts}{suffix}")
    return lines


def _rounded(figures: Record) -> dict[str, Any]:
    low, high = figures["accuracy_interval"]
    rounded = [round(value, 4) for value in (figures["accuracy"], low, high, figures["tie_rate"])]
    return {"accuracy": rounded[0], "interval": rounded[1:3], "tie_rate": rounded[3], "n": figures["n"]}


def accuracy(part: Record) -> str:
    """Return an accuracy with its interval, in percent."""
    low, high = map(percent, part["accuracy_interval"])
    return f"{percent(part['accuracy'])} ({low}–{high})"


def _label(name: str, scorer: Record) -> str:
    plain = name if scorer["kind"] == "predictions" else name.replace("_", " ")
    return plain if scorer["kind"] == "rule" else f"{scorer['kind']}: {plain}"


def _code(text: str) -> str:
    """Return text as a code span with visible white space, escaping what would end the span, a cell or a comment."""
    cut = text if len(text) <= _MAX_CHARACTERS else text[:_MAX_CHARACTERS] + "…"
    quoted = json.dumps(cut, ensure_ascii=False)
    return "`" + quoted.replace("`", "´").replace("|", "¦").replace("<", "‹") + "`"
