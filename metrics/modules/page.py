"""The page of a metric's Space: a table of examples and the computed scores. ``page.yaml`` has the initial rows."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ..common.errors import ScoresError, VLAssayError
from ..estimation.spec import MetricSpec
from ..functional.boxes import FORMATS
from .discovery import describe, get_spec


@dataclass(frozen=True)
class Page:
    """The page of a metric: a table with a column for each argument, with JSON or text in its cells.

    Args:
        app: path of the ``app.py``, in the folder of the metric's card; the page has the title of the card.
        spec: the metric's specification; its function computes the scores.
        example: the columns that the page opens with, by the argument of the function.
        options: arguments that the page offers, with their choices; the first is the default. The tie policies, and
            for detection the box formats, are offered anyway.
        settings: further arguments, which are fixed.
    """

    app: str
    spec: MetricSpec
    example: Mapping[str, Sequence[Any]]
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> list[list[str]]:
        """The rows of the example as cells."""
        columns = ([cell if isinstance(cell, str) else json.dumps(cell) for cell in c] for c in self.example.values())
        return [list(row) for row in zip(*columns, strict=True)]

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
            rows: cells in the order of the example's columns; empty rows are left out, and so are empty columns of
                options, such as the categories.
            chosen: a choice for each of `choices`, in their order.

        Returns:
            What the metric returns.

        Raises:
            ScoresError: no rows, a row of another length, an empty cell, or a cell without valid JSON; the message
                names the row, counted from 1 as on the page. Also the errors of the metric, which count examples from
                0.
        """
        texts = [["" if cell is None else str(cell).strip() for cell in row] for row in rows]
        filled = {number: row for number, row in enumerate(texts, start=1) if any(row)}
        if not filled:
            raise ScoresError("the table is empty; fill in at least one row")
        for number, row in filled.items():
            if len(row) != len(self.example):
                columns = f"{len(self.example)} columns: {', '.join(self.example)}"
                raise ScoresError(f"row {number} has {len(row)} cells; the table has {columns}")
        parameters = inspect.signature(self.spec.function).parameters
        arguments = {}
        for name, column in zip(self.example, zip(*filled.values(), strict=True), strict=True):
            is_needed = name in parameters and parameters[name].default is inspect.Parameter.empty
            if any(column) or is_needed:
                empty = [number for number, cell in zip(filled, column, strict=True) if not cell]
                if empty:
                    raise ScoresError(f"row {empty[0]} has no {name}; fill it in")
                arguments[name] = [_value(number, name, cell) for number, cell in zip(filled, column, strict=True)]
        return self.spec.function(**arguments, **self.settings, **dict(zip(self.choices, chosen, strict=True)))

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
                value=self.rows,
                headers=list(self.example),
                datatype="str",
                type="array",
                column_count=len(self.example),
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
    """Return the page of a metric; the ``page.yaml`` next to its ``app.py`` has the last fields of `Page`."""
    return Page(app, get_spec(metric), **yaml.safe_load((Path(app).parent / "page.yaml").read_text(encoding="utf-8")))


def tabulate(result: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """Return headers and lines of a result's table: its categories and other parts, then all examples.

    >>> tabulate({"accuracy": 0.5, "n": 2, "per_category": {"swap": {"accuracy": 1.0, "n": 1}}})
    (['', 'accuracy', 'n'], [['swap', 1.0, 1], ['all', 0.5, 2]])
    """
    parts = [group for key, value in result.items() if key.startswith("per_") for group in value.items()]
    lines = [*parts, ("all", result)]
    keys = [
        key
        for key in dict.fromkeys(key for _, line in lines for key in line)
        if any(isinstance(line.get(key), int | float) for _, line in lines)
    ]
    return ["", *keys], [[name, *(_rounded(line.get(key)) for key in keys)] for name, line in lines]


def read_card(folder: Path) -> tuple[str, str]:
    """Return the title of a metric's card, and the card without its front matter."""
    front, text = (folder / "README.md").read_text(encoding="utf-8").split("\n---\n", maxsplit=1)
    return next(line.removeprefix("title: ") for line in front.splitlines() if line.startswith("title: ")), text


def _value(number: int, name: str, cell: str) -> Any:
    """Return the value of a cell in a row and column: JSON, or else its text."""
    try:
        return json.loads(cell)
    except (ValueError, RecursionError) as error:
        if cell.startswith(("[", "{")):
            raise ScoresError(f"row {number}: the {name} are {cell!r}; fill in JSON, such as [1, 2]") from error
        return cell


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value
