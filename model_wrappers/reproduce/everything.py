"""`reproduce --all`: a page for each paper, with all its tables and figures, and what can be made of them here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ...hub_datasets.core.listing import without_network
from ...hub_datasets.published.inventory import STATES, Item, inventory_table, paper_names, read_inventory, summarise
from ...hub_datasets.published.tables import Table, all_tables
from ...metrics.common.documents import Markdown, Part, bullets, in_a_line, simple_table, to_markdown
from ...metrics.common.errors import ModelError, UnknownNameError, VLAssayError
from ...metrics.common.storage import write_text
from ...metrics.evaluation import check_options
from ...metrics.records.results import code_version
from .analyses import ANALYSES, Material
from .plans import FoundPredictions, plan, rows_named, scan_predictions
from .report import Reproduction, parts_of, summarise_reproduction
from .reproduce import reproduce, run_rows

INDEX, INVENTORY, DOCUMENT = "index.md", "inventory.md", "papers.json"
SCHEMA, VERSION = "vl-assay/papers", 1


class Outcome(NamedTuple):
    """A table or figure; whether something of it was computed here; the finding or reason; its section in the page."""

    item: Item
    is_made: bool
    text: str
    parts: Sequence[Part] = ()


def reproduce_all(
    out: str | Path,
    *,
    use: Mapping[str, str] | None = None,
    predictions: str | Path | None = None,
    data_dir: str | Path | None = None,
    weights: str | Path = ".",
    offline: bool = False,
    options: Mapping[str, Any] | None = None,
    ties: str | None = None,
    confidence: float = 0.95,
) -> list[Outcome]:
    """Make all tables and figures that need no model: writes ``index.md``, a page for each paper and ``papers.json``.

    Statistics and figures of data are made if the data are here, values of models if there are predictions or released
    answers. Models run only if `use` names them. An item that is not made says why, and stops nothing else.

    Args:
        out: folder of the pages; the comparison of a table is in a folder of its name.
        use: models to run instead of those of the rows, by label, in all tables that have it:
            ``{"GPT-4V": "precomputed:gpt-4v-results"}``.
        predictions: a folder of predictions, which are compared with all tables that have their models.
        data_dir: the user's own copies of the sources, a folder for each benchmark.
        weights: the folder with released answers, such as ``gpt-4v-results``.
        offline: whether nothing is downloaded.
        options: fields of the builders' configurations.
        ties, confidence: as for `report`.

    Returns:
        An outcome for each item of the inventory.

    Raises:
        VLAssayError: a label that no table has, predictions that cannot be read, an unknown option, a full disk.
    """
    check_options(ties=ties, confidence=confidence)
    use, options, published = use or {}, options or {}, all_tables().values()
    for label in use:
        if not any(rows_named(table, label) for table in published):
            known = dict.fromkeys(row.name for table in published for row in table.rows if row.run.is_model)
            raise UnknownNameError("row of the papers' tables", label, list(known))
    data = None if data_dir is None else Path(data_dir).expanduser()
    if data is not None and not data.is_dir():
        raise ModelError(f"there is no folder {data} to take the sources from")
    folder = Path(out).expanduser()
    scanned = scan_predictions(predictions) if predictions is not None else []
    arguments = {"weights": weights, "data_dir": data, "options": options, "ties": ties, "confidence": confidence}
    with without_network() if offline else nullcontext():
        tables = {table.name: _compare(table, folder, use, scanned, arguments) for table in published}
        compared = {name: made for name, made in tables.items() if isinstance(made, Reproduction)}
        material = Material(folder, scanned, compared, data, options)
        outcomes = [_outcome(item, tables, material) for item in read_inventory()]
    _write(outcomes, folder)
    return outcomes


def _compare(
    table: Table, folder: Path, use: Mapping[str, str], scanned: Sequence[FoundPredictions], arguments: dict[str, Any]
) -> Reproduction | str:
    """Return the comparison of a table with its data or with predictions, or why there is none.

    Rows run if `use` names them or their released answers are here. `arguments` are those of `reproduce`.
    """
    if reason := table.why_not():
        return f"as printed alone: {reason}"
    own = {label: model for label, model in use.items() if rows_named(table, label)}
    try:
        made = [] if table.is_statistics else _run(table, folder / "predictions" / table.name, own, arguments)
        with suppress(ModelError):  # nothing to compare with
            predictions = [*scanned, *made]
            if result := reproduce(table.name, use=own, predictions=predictions, out=folder / table.name, **arguments):
                return result
    except VLAssayError as error:
        return f"not in this run: {error}"
    return "not in this run: neither predictions nor released answers of its models are given"


def _run(table: Table, folder: Path, use: Mapping[str, str], arguments: dict[str, Any]) -> list[FoundPredictions]:
    """Predict for the rows that `use` names, and for those whose released answers are here, into a folder."""
    named = {row.name for label in use for row in rows_named(table, label)}
    plans = {
        name: each
        for name, each in plan(table, use=use, weights=arguments["weights"]).items()
        if name in named or (each.model.startswith("precomputed:") and not each.why)
    }
    if not plans:
        return []
    scoring = {"data_dir": arguments["data_dir"], "options": arguments["options"], "progress": False}
    _, failed = run_rows(table, plans, folder, (), scoring)
    for name, why in failed.items():
        raise ModelError(f"{name}: {why}")
    return scan_predictions(folder)


def _outcome(item: Item, tables: Mapping[str, Reproduction | str], material: Material) -> Outcome:
    texts, parts, is_made = [], [], False
    number, _, row = item.item.removeprefix("Table ").partition(", ")
    name = f"{item.paper}-{number}"
    if name in tables:
        is_made, text, parts = _of_table(all_tables()[name], tables[name], row)
        texts.append(text)
    if analyse := ANALYSES.get((item.paper, item.item)):
        try:
            parts, is_made = [*parts, *analyse(material)], True
            texts.append("What follows from its values is below." if texts else "Computed below.")
        except VLAssayError as error:
            texts.append(f"not in this run: {error}")
    return Outcome(item, is_made, " ".join(texts), parts)


def _of_table(table: Table, made: Reproduction | str, row: str) -> tuple[bool, str, Sequence[Part]]:
    """Return whether a table, or a row of it, was compared, the finding or reason, and the parts of its section."""
    if isinstance(made, str):
        headings, rows = ("", *(column.name for column in table.columns)), [(r.name, *r.printed) for r in table.rows]
        printed = [simple_table(headings, rows, title="As printed")] if table.why_not() else []
        return False, f"{made}.".replace("..", "."), printed
    if row:
        names = {each.name for each in rows_named(table, row)}
        cells = [one for one in made.comparisons if one.row.name in names and one.ours is not None]
        if not cells:
            return False, "not in this run: there are no predictions of it.", []
        equal = sum(bool(one.equal) for one in cells)
        remarks = [remark for remark in made.remarks if remark.split(": ")[0] in names]
        text = f"{equal} of {len(cells)} values equal ours to the last printed digit."
        return True, " ".join([text, *remarks]), remarks
    text = summarise_reproduction(made)
    link = Markdown(f"[{table.name}]({table.name}/{table.name}.md): {in_a_line(text)}")
    return True, text, parts_of(made, level=3) if table.is_statistics else [link]


def inventory_page() -> str:
    """Return all tables and figures of the papers with their states, as Markdown."""
    states = bullets([f"{state}: {meaning}" for state, meaning in STATES.items()])
    parts = [f"All tables and figures: {summarise(read_inventory())}.", *states, *map(inventory_table, paper_names())]
    return to_markdown(parts, "The papers' tables and figures", level=2)


def _write(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Write the pages of all papers, the index, the inventory, and everything as JSON."""
    rows = []
    for paper, name in paper_names().items():
        own = [outcome for outcome in outcomes if outcome.item.paper == paper]
        write_text(folder / f"{paper}.md", _page(name, own))
        rows.append((name, str(sum(outcome.is_made for outcome in own)), str(len(own))))
    index = simple_table(("paper", "in this run", "tables and figures"), rows, numbers=True)
    links = [f"- [{name}]({paper}.md)" for paper, name in paper_names().items()]
    links.append(f"- [Every table and figure with its state]({INVENTORY}): {summarise(read_inventory())}")
    write_text(folder / INDEX, to_markdown([index, Markdown("\n".join(links))], "The papers, reproduced", level=2))
    write_text(folder / INVENTORY, inventory_page())
    entries = [{**each.item._asdict(), "is_made": each.is_made, "text": each.text} for each in outcomes]
    content = {"schema": SCHEMA, "version": VERSION, "code": code_version(), "items": entries}
    write_text(folder / DOCUMENT, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _page(name: str, outcomes: Sequence[Outcome]) -> str:
    """Return the page of a paper: a line for each item, then a section for each item that has parts."""
    rows = [(item.item, item.what, item.state, text.rstrip("."), item.how) for item, _, text, _ in outcomes]
    headings = ("", "shows", "state", "in this run", "how, or why not")
    sections = [to_markdown(parts, f"{item.item}: {item.what}", level=3) for item, _, _, parts in outcomes if parts]
    return "\n".join([to_markdown([simple_table(headings, rows)], name, level=2), *sections])
