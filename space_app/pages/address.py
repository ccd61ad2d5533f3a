"""Addresses that can be shared: the open tab and the choices of its page are in the query of the URL.

A page declares its choices once, and reads the requested choices when it opens::

    view = View("compare", score=score, models=models)  # from now on the address follows the components

    def on_open(request: gr.Request):
        asked = view.read(request)
        chosen = asked.many("models", known)

The browser writes the address by itself (``templates/address.js``): no event reaches the server, choices that are empty
or as in the component's `value` are left out, and only a change of tab adds an entry to the browser's history.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import gradio as gr

from .common import QUIET, known_once

# A longer address asks for nothing; a text in it is cut.
MOST_CHARACTERS, MOST_TEXT = 8_000, 200
SCRIPT = Path(__file__).with_name("templates").joinpath("address.js").read_text(encoding="utf-8")
Field = gr.Textbox | gr.Dropdown | gr.Radio | gr.Checkbox | gr.CheckboxGroup


class Asked:
    """The choices that an address requests; unknown names and values are ignored.

    Args:
        values: the texts of each name.
    """

    def __init__(self, values: Mapping[str, list[str]]) -> None:
        self._values = values

    def many(self, name: str, known: Collection[str], most: int = 100) -> list[str]:
        """Return the known values of a name, each once, up to a maximum number."""
        return known_once(self._values.get(name), known, most)

    def one(self, name: str, known: Collection[str]) -> str | None:
        """Return the first known value of a name, or None."""
        return next(iter(self.many(name, known)), None)

    def text(self, name: str) -> str:
        """Return the text of a name, cut to `MOST_TEXT` characters, or an empty text."""
        return next(iter(self._values.get(name, ())), "")[:MOST_TEXT]

    def flag(self, name: str) -> bool:
        """Return whether a checkbox is ticked."""
        return self.text(name) == "true"


class View:
    """The choices of one page that the address holds.

    Args:
        tab: the ``id`` of the page's ``gr.Tab``.
        fields: the components, by their names in the address.
    """

    def __init__(self, tab: str, **fields: Field) -> None:
        self._tab, self._names = tab, [*fields]
        start = [field.value if isinstance(field.value, str) else None for field in fields.values()]
        call = f"(...values) => assay.record({json.dumps(tab)}, {json.dumps(self._names)}, values, {json.dumps(start)})"
        gr.on([field.change for field in fields.values()], None, [*fields.values()], js=call, **QUIET)

    def read(self, request: gr.Request) -> Asked:
        """Return the choices in the address of a page that was just opened; empty if the address names another tab.

        Only events with ``queue=False``, such as those with `QUIET`, know addresses with several values of a name.
        """
        query = parse_query(request)
        is_asked = query.get("tab", [self._tab])[0] == self._tab
        return Asked({name: query[name] for name in self._names if is_asked and name in query})


def parse_query(request: gr.Request) -> dict[str, list[str]]:
    """Return the names and values in the query of a page's address; empty if the query is too long."""
    text = str(request.query_params)
    values: dict[str, list[str]] = {}
    for name, value in parse_qsl(text if len(text) <= MOST_CHARACTERS else ""):
        values.setdefault(name, []).append(value)
    return values


def follow_tabs(blocks: gr.Blocks, tabs: gr.Tabs, tabs_by_id: Mapping[str, gr.Tab]) -> None:
    """Open the tab that the address names, and keep the address at the tab that is open.

    `each` has every tab of `tabs` by its ``id``, in order; its ``elem_id`` is ``tab-`` and the id.
    """
    quiet: dict[str, Any] = QUIET | {"inputs": None, "outputs": None}
    for name, tab in tabs_by_id.items():
        tab.select(None, js=f"() => assay.open({json.dumps(name)})", **quiet)
    names = json.dumps([*tabs_by_id])
    blocks.load(None, None, tabs, js=f"() => assay.start({names})", **QUIET)
