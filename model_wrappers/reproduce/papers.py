"""`reproduce --all`: a page for each paper, with all tables and figures and the values that can be computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...hub_datasets.core.build import existing_folder
from ...hub_datasets.published.inventory import Item, paper_names, read_inventory
from ...hub_datasets.published.tables import PublishedTable, all_tables
from ...metrics.common.documents import Markdown, Part, in_a_line, simple_table, to_markdown
from ...metrics.common.errors import UnknownNameError, VLAssayError
from ...metrics.common.storage import with_home, write_text
from ...metrics.results.compute import check_options
from .analyses import ANALYSES, AnalysisInput, derived
from .comparison import Reproduction
from .reproduce import NothingToCompareError, reproduce, rows_named, scan_predictions

INDEX = "index.md"


class ItemResult(NamedTuple):
    """A table or figure; True if values of it were computed; the finding or reason; its section in the page."""

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
    options: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    ties: str | None = None,
    confidence: float = 0.95,
) -> list[ItemResult]:
    """Make all tables and figures that need no model: writes ``index.md`` and a page for each paper.

    Statistics of data are made if the data are here, values of models if there are predictions or released
    answers. Models run only if `use` names them. An item that is not made has the reason, and stops nothing else.

    Args:
        out: folder of the pages; the comparison of a table and its new predictions are in a folder of its name.
        use: models to run instead of the rows' models, by label, in all tables that have it:
            ``{"GPT-4V": "precomputed:gpt-4v-results"}``.
        predictions: a folder of predictions, which are compared with all tables that have their models.
        data_dir: the user's own copies of the sources, a folder for each benchmark.
        weights: the folder with released answers, such as ``gpt-4v-results``.
        options: fields of the builders' configurations.
        dtype: as for `predict`, of the models of `use`.
        ties, confidence: as for `report`.

    Returns:
        A result for each item of the inventory.

    Raises:
        VLAssayError: a label that no table has, predictions that cannot be read, an unknown option, a full disk.
    """
    check_options(ties=ties, confidence=confidence)
    use, options, tables = use or {}, options or {}, all_tables()
    for label in use:
        if not any(rows_named(table, label) for table in tables.values()):
            known = dict.fromkeys(row.name for table in tables.values() for row in table.rows if row.run.is_model)
            raise UnknownNameError("row of the papers' tables", label, list(known))
    data = None if data_dir is None else existing_folder(data_dir)
    folder, scanned = with_home(out), [] if predictions is None else scan_predictions(predictions)
    arguments = {"predictions": scanned, "data_dir": data, "weights": weights, "options": options, "progress": False}
    arguments |= {"dtype": dtype, "ties": ties, "confidence": confidence}
    made = {name: _compare(table, folder / name, use, arguments) for name, table in tables.items()}
    compared = {name: result for name, result in made.items() if isinstance(result, Reproduction)}
    source = AnalysisInput(scanned, compared, data, options)
    results = [_make(item, made, source) for item in read_inventory()]
    _write(results, folder)
    return results


def _compare(
    table: PublishedTable, out: Path, use: Mapping[str, str], arguments: Mapping[str, Any]
) -> Reproduction | str:
    """Return the comparison of a table, or the reason for its absence; `arguments` go to `reproduce`."""
    if reason := table.why_not():
        return f"as printed alone: {reason}"
    use = {label: model for label, model in use.items() if rows_named(table, label)}
    try:
        if result := reproduce(table.name, use=use, out=out, **arguments):
            return result
    except NothingToCompareError:
        pass
    except VLAssayError as error:
        return f"not in this run: {error}"
    return "not in this run: neither predictions nor released answers of its models are given"


def _make(item: Item, made: Mapping[str, Reproduction | str], source: AnalysisInput) -> ItemResult:
    """Return the section of an item: the comparison of its table, or of a row of it, then the analysis of the item."""
    texts, parts, is_made = [], [], False
    number, _, row = item.item.removeprefix("Table ").partition(", ")
    if (name := f"{item.paper}-{number}") in made:
        is_made, text, parts = _section(all_tables()[name], made[name], row)
        texts.append(text)
    key = f"{item.paper}, {item.item}"
    if key in ANALYSES or key in derived():
        try:
            analysed = ANALYSES[key](source) if key in ANALYSES else []
            parts, is_made = [*parts, *derived().get(key, ()), *analysed], True
            texts.append("What follows from its values is below." if texts else "Computed below.")
        except VLAssayError as error:
            texts.append(f"not in this run: {error}")
    return ItemResult(item, is_made, " ".join(texts), parts)


def _section(table: PublishedTable, result: Reproduction | str, label: str) -> tuple[bool, str, Sequence[Part]]:
    """Return whether a table was compared, the finding or reason, and the parts of its section.

    A `label`, if not empty, restricts the section to the rows with this label.
    """
    if isinstance(result, str):
        headings, rows = ("", *(column.name for column in table.columns)), [(r.name, *r.printed) for r in table.rows]
        printed = [simple_table(headings, rows, title="As printed")] if table.why_not() else []
        return False, f"{result}.".replace("..", "."), printed
    if not label:
        link = Markdown(f"[{table.name}]({table.name}/{table.name}.md): {in_a_line(result.summary())}")
        return True, result.summary(), result.parts() if table.is_statistics else [link]
    names = {row.name for row in rows_named(table, label)}
    cells = [value for value in result.comparisons if value.row.name in names and value.ours is not None]
    if not cells:
        return False, "not in this run: there are no predictions of it.", []
    equal = sum(bool(value.equal) for value in cells)
    remarks = [remark for remark in result.remarks if remark.split(": ")[0] in names]
    text = f"{equal} of {len(cells)} values equal ours to the last printed digit."
    return True, " ".join([text, *remarks]), remarks


def _write(results: Sequence[ItemResult], folder: Path) -> None:
    """Write the pages of all papers, and the index."""
    rows, links = [], []
    for paper, name in paper_names().items():
        of_paper = [result for result in results if result.item.paper == paper]
        write_text(folder / f"{paper}.md", _page(name, of_paper))
        rows.append((name, str(sum(result.is_made for result in of_paper)), str(len(of_paper))))
        links.append(f"- [{name}]({paper}.md)")
    index = simple_table(("paper", "in this run", "tables and figures"), rows, numbers=True)
    write_text(folder / INDEX, to_markdown([index, Markdown("\n".join(links))], "The papers, reproduced", level=2))


def _page(name: str, results: Sequence[ItemResult]) -> str:
    """Return the page of a paper: a line for each item, then a section for each item that has parts."""
    rows = [(item.item, item.what, item.state, text.rstrip("."), item.how) for item, _, text, _ in results]
    headings = ("", "shows", "state", "in this run", "how, or why not")
    sections = [to_markdown(parts, f"{item.item}: {item.what}", level=3) for item, _, _, parts in results if parts]
    return "\n".join([to_markdown([simple_table(headings, rows)], name, level=2), *sections])
