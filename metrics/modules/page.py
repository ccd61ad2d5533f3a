"""The page of a metric's Space: a table of examples in, scores out. ``page.yaml`` declares the table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ..common.errors import ScoresError, VLAssayError
from ..estimation.spec import MetricSpec
from ..functional.boxes import FORMATS
from .discovery import describe, get_spec


class InputColumn(NamedTuple):
    """A column of the table.

    Attributes:
        name: its heading.
        kind: what its cells hold. ``"number"`` and ``"text"`` must be filled in; ``"label"`` is text too, and the whole
            column may stay empty; ``"list"`` is a JSON list, where an empty cell is an empty list.
    """

    name: str
    kind: str = "number"


@dataclass(frozen=True)
class Page:
    """The page of a metric: the columns of its table, and how they become the inputs of the metric.

    Args:
        app: path of the ``app.py``, in the folder of the metric's card; the page has the title of the card.
        spec: the metric's specification; its function computes the scores.
        inputs: for each argument of the function the column in which a row's part of it stands, or a list or mapping
            of columns, nested as the metric takes it. The table has these columns, in this order.
        example: the rows that the page opens with.
        options: arguments that the page offers, with their choices; the first is the default. The tie policies, and
            for detection the box formats, are offered anyway.
        settings: further arguments, which are fixed.
    """

    app: str
    spec: MetricSpec
    inputs: Mapping[str, Any]
    example: Sequence[Sequence[Any]]
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> list[InputColumn]:
        """The columns of the table."""
        return list(dict.fromkeys(_columns(self.inputs)))

    @property
    def choices(self) -> dict[str, Sequence[str]]:
        """The options that the page offers, with their choices; the first is the default."""
        choices: dict[str, Sequence[str]] = {**self.options}
        if self.spec.task_type == "detection":
            choices["box_format"] = FORMATS
        if self.spec.ties is not None:
            choices["ties"] = tuple(dict.fromkeys([self.spec.ties, *self.spec.tie_policies]))
        return choices

    def compute(self, rows: Sequence[Sequence[Any]], *chosen: str) -> dict[str, Any]:
        """Compute the scores of a table.

        Args:
            rows: cells under `columns`, as text or numbers; empty rows are left out.
            chosen: a choice for each of `choices`, in their order.

        Returns:
            What the metric returns.

        Raises:
            ScoresError: no rows, or a cell that is not of its column's kind; the message names the row, counted from 1
                as on the page. Also the errors of the metric.
        """
        texts = [["" if cell is None else str(cell).strip() for cell in row] for row in rows]
        cells = {number: self._parse(number, row) for number, row in enumerate(texts, start=1) if any(row)}
        if not cells:
            raise ScoresError("the table is empty; fill in at least one row")
        unused = self._empty_labels(cells)
        arguments = {
            name: [_arrange(place, row) for row in cells.values()]
            for name, place in self.inputs.items()
            if place not in unused
        }
        return self.spec.function(**arguments, **self.settings, **dict(zip(self.choices, chosen, strict=True)))

    def _parse(self, number: int, row: Sequence[str]) -> dict[InputColumn, Any]:
        columns = self.columns
        if len(row) != len(columns):
            names = ", ".join(column.name for column in columns)
            raise ScoresError(f"row {number} has {len(row)} cells; the table has {len(columns)} columns: {names}")
        return {column: _cell(number, *column, text) for column, text in zip(columns, row, strict=True)}

    def _empty_labels(self, cells: dict[int, dict[InputColumn, Any]]) -> list[InputColumn]:
        empty = []
        for column in self.columns:
            if column.kind != "label":
                continue
            missing = [number for number, row in cells.items() if not row[column]]
            if len(missing) == len(cells):
                empty.append(column)
            elif missing:
                raise ScoresError(f"row {missing[0]} has no {column.name}; give every row one, or none at all")
        return empty

    def build(self) -> Any:
        """Lay out the page; ``build().launch()`` serves it."""
        import gradio as gr

        title, text = read_card(Path(self.app).parent)

        def answer(rows: list[list[Any]], *chosen: str) -> tuple[Any, dict[str, Any]]:
            try:
                result = self.compute(rows, *chosen)
            except VLAssayError as error:
                raise gr.Error(str(error), duration=None, print_exception=False) from error
            headers, lines = tabulate(result)
            return gr.Dataframe(value=lines, headers=headers), result

        with gr.Blocks(title=title) as blocks:
            table = gr.Dataframe(
                value=[list(row) for row in self.example],
                headers=[column.name for column in self.columns],
                datatype="str",
                type="array",
                column_count=len(self.columns),
                show_row_numbers=True,
                interactive=True,
                wrap=True,
                label="One row per example",
            )
            choices = [gr.Radio(list(values), value=values[0], label=name) for name, values in self.choices.items()]
            button = gr.Button("Compute", variant="primary")
            scores = gr.Dataframe(interactive=False, label="Scores")
            details = gr.JSON(label="Full result")
            button.click(answer, inputs=[table, *choices], outputs=[scores, details], api_name="score")
            gr.Markdown(text)
            gr.Markdown(f"## Arguments and results\n\n```text\n{describe(self.spec.function)}\n```")
        return blocks


def load_page(app: str, metric: str) -> Page:
    """Return the page of a metric that the ``page.yaml`` next to an ``app.py`` declares.

    The file maps ``columns`` to their kinds (see `InputColumn`), in ``inputs`` each argument of the function to a
    column or to a list or mapping of columns, and lists the rows of the ``example``. ``options`` and ``settings`` are
    those of `Page`.
    """
    declared = yaml.safe_load((Path(app).parent / "page.yaml").read_text(encoding="utf-8"))
    columns = {name: InputColumn(name, kind) for name, kind in declared.pop("columns").items()}
    return Page(app, get_spec(metric), _arrange(declared.pop("inputs"), columns), **declared)


def tabulate(result: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """Headers and lines of a result's table: its categories and other parts, then all examples.

    >>> tabulate({"accuracy": 0.5, "n": 2, "per_category": {"swap": {"accuracy": 1.0, "n": 1}}})
    (['', 'accuracy', 'n'], [['swap', 1.0, 1], ['all', 0.5, 2]])
    """
    parts = [part for key, value in result.items() if key.startswith("per_") for part in value.items()]
    lines = [*parts, ("all", result)]
    keys = [
        key
        for key in dict.fromkeys(key for _, line in lines for key in line)
        if any(isinstance(line.get(key), int | float) for _, line in lines)
    ]
    return ["", *keys], [[name, *(_rounded(line.get(key)) for key in keys)] for name, line in lines]


def read_card(folder: Path) -> tuple[str, str]:
    """The title of a metric's card, and the card without its front matter."""
    front, text = (folder / "README.md").read_text(encoding="utf-8").split("\n---\n", maxsplit=1)
    return next(line.removeprefix("title: ") for line in front.splitlines() if line.startswith("title: ")), text


def _cell(number: int, name: str, kind: str, text: str) -> Any:
    if kind == "text" and not text:
        raise ScoresError(f"row {number} has no {name}; fill it in")
    if kind in ("label", "text"):
        return text
    value: Any = None
    with suppress(ValueError, RecursionError):
        value = json.loads(text or "[]") if kind == "list" else float(text)
    if kind == "list" and not isinstance(value, list):
        raise ScoresError(f"row {number}: the {name} are {text!r}; fill in a list, such as [1, 2], or nothing")
    if kind == "number" and not (isinstance(value, float) and math.isfinite(value)):
        raise ScoresError(f"row {number}: the {name} is {text!r}; fill in a finite number")
    return value


def _columns(place: Any) -> Iterator[InputColumn]:
    if isinstance(place, InputColumn):
        yield place
    else:
        for part in place.values() if isinstance(place, Mapping) else place:
            yield from _columns(part)


def _arrange(place: Any, row: Mapping[Any, Any]) -> Any:
    """Return `place`, nested lists and mappings of keys of `row`, with their values in `row`."""
    if isinstance(place, str | InputColumn):
        return row[place]
    if isinstance(place, Mapping):
        return {key: _arrange(part, row) for key, part in place.items()}
    return [_arrange(part, row) for part in place]


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value
