"""`reproduce --all`: a page for each paper, with all its tables and figures, and the comparisons that can be made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...hub_datasets.published.inventory import STATES, inventory_table, paper_names, read_inventory, summarise
from ...hub_datasets.published.tables import all_tables
from ...metrics.common import documents
from ...metrics.common.errors import ModelError
from ...metrics.common.storage import write_text
from .report import summarise_reproduction
from .reproduce import reproduce

INDEX = "index.md"


def reproduce_all(out: str | Path, *, predictions: str | Path | None = None, **options: Any) -> str:
    """Write ``index.md``, and a page for each paper; nothing is run or downloaded.

    Args:
        out: folder of the pages; the comparison of a table is in a folder of its name.
        predictions: a folder of predictions, which are compared with all tables that have their models.
        options: ``ties``, ``confidence`` and ``weights`` of `reproduce`.

    Returns:
        The index, as Markdown.

    Raises:
        VLAssayError: predictions that cannot be read, an unknown option, a full disk.
    """
    out = Path(out).expanduser()
    for paper, name in paper_names().items():
        parts: list[documents.Part] = [inventory_table(paper)]
        if predictions is not None:
            parts += _comparisons(paper, out, predictions, options)
        write_text(out / f"{paper}.md", documents.to_markdown(parts, name, level=2))
    index = inventory_page()
    write_text(out / INDEX, index)
    return index


def inventory_page() -> str:
    """All tables and figures of the papers with their states, as Markdown."""
    parts: list[documents.Part] = [
        f"All tables and figures: {summarise(read_inventory())}.",
        "\n".join(f"- {state}: {meaning}" for state, meaning in STATES.items()),
        *map(inventory_table, paper_names()),
    ]
    return documents.to_markdown(parts, "The papers' tables and figures", level=2)


def _comparisons(paper: str, out: Path, predictions: str | Path, options: dict[str, Any]) -> Iterator[str]:
    """A sentence for each typed table of a paper."""
    for name in (name for name in all_tables() if name.rpartition("-")[0] == paper):
        try:
            found = reproduce(name, predictions=predictions, out=out / name, **options)
        except ModelError:
            yield f"{name}: no predictions of its models."
            continue
        if found is not None:
            yield f"[{name}]({name}/{name}.md): {summarise_reproduction(found)}"
