"""The page of the metric's Space: a table of scores in, accuracies out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gradio as gr

from vl_assay.metrics.errors import ScoresError, VLAssayError
from vl_assay.metrics.kernels import TIES
from vl_assay.metrics.matching import matching_accuracy

INPUT_HEADERS = ["score of caption 0", "score of caption 1", "correct caption", "category (optional)"]
OUTPUT_HEADERS = ["category", "accuracy", "tie rate", "examples"]
EXAMPLE = [
    ["0.31", "0.27", "0", "swap_obj"],
    ["0.25", "0.22", "0", "swap_obj"],
    ["0.22", "0.25", "0", "swap_obj"],
    ["0.30", "0.30", "0", "swap_att"],
]


def judge_table(rows: list[list[Any]], ties: str) -> tuple[list[list[Any]], dict[str, Any]]:
    """Judge the rows of the page's table; empty rows are left out.

    Args:
        rows: cells under ``INPUT_HEADERS``, as text or numbers.
        ties: a tie policy, one of ``kernels.TIES``.

    Returns:
        Rows under ``OUTPUT_HEADERS``, and the metric's full result.

    Raises:
        ScoresError: no rows, a score that is no finite number, a correct caption other than 0 or 1, or a
            category given for some rows only; the message names the row, counted from 1 as on the page.
        UnknownNameError: ``ties`` is no tie policy.
    """
    filled = _filled_rows(rows)
    scores = [[_score(number, cells, column) for column in (0, 1)] for number, cells in filled]
    correct = [_correct(number, cells) for number, cells in filled]
    result = matching_accuracy(scores, correct, categories=_categories(filled), ties=ties)
    return _summary(result), result


def _filled_rows(rows: list[list[Any]]) -> list[tuple[int, list[str]]]:
    texts = [["" if cell is None else str(cell).strip() for cell in row] for row in rows]
    filled = [(number, cells) for number, cells in enumerate(texts, start=1) if any(cells)]
    if not filled:
        raise ScoresError("the table is empty; fill in at least one row")
    for number, cells in filled:
        if len(cells) != len(INPUT_HEADERS):
            columns = f"{len(INPUT_HEADERS)} columns: {', '.join(INPUT_HEADERS)}"
            raise ScoresError(f"row {number} has {len(cells)} cells; the table has {columns}")
    return filled


def _score(number: int, cells: list[str], column: int) -> float:
    try:
        score = float(cells[column])
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise ScoresError(f"row {number}: the {INPUT_HEADERS[column]} is {cells[column]!r}; fill in a finite number")
    return score


def _correct(number: int, cells: list[str]) -> int:
    if cells[2] not in ("0", "1"):
        raise ScoresError(f"row {number}: the correct caption is {cells[2]!r}; fill in 0 or 1")
    return int(cells[2])


def _categories(filled: list[tuple[int, list[str]]]) -> list[str] | None:
    categories = [cells[3] for _, cells in filled]
    if not any(categories):
        return None
    missing = [number for number, cells in filled if not cells[3]]
    if missing:
        raise ScoresError(f"row {missing[0]} has no category; give every row one, or none at all")
    return categories


def _summary(result: dict[str, Any]) -> list[list[Any]]:
    categories = [
        [name, round(part["accuracy"], 4), round(part["tie_rate"], 4), part["n"]]
        for name, part in result["per_category"].items()
    ]
    return [
        *categories,
        ["all (micro)", round(result["accuracy"], 4), round(result["tie_rate"], 4), result["n"]],
        ["all (macro)", round(result["macro_accuracy"], 4), None, result["n"]],
    ]


def _description() -> str:
    """The card without its front matter."""
    card = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    return card.split("\n---\n", maxsplit=1)[1]


def _answer(rows: list[list[Any]], ties: str) -> tuple[list[list[Any]], dict[str, Any]]:
    try:
        return judge_table(rows, ties)
    except VLAssayError as error:
        raise gr.Error(str(error), duration=None, print_exception=False) from error


def build() -> gr.Blocks:
    """Lay out the page."""
    with gr.Blocks(title="SugarCrepe ITM") as page:
        table = gr.Dataframe(
            value=EXAMPLE,
            headers=INPUT_HEADERS,
            datatype="str",
            type="array",
            column_count=len(INPUT_HEADERS),
            show_row_numbers=True,
            interactive=True,
            label="Scores: one row per example",
        )
        ties = gr.Radio(list(TIES), value=TIES[0], label="A tie for the highest score counts as")
        button = gr.Button("Compute", variant="primary")
        summary = gr.Dataframe(headers=OUTPUT_HEADERS, interactive=False, label="Accuracy (higher is better)")
        details = gr.JSON(label="Full result")
        button.click(_answer, inputs=[table, ties], outputs=[summary, details], api_name="score")
        gr.Markdown(_description())
    return page


if __name__ == "__main__":
    demo = build()
    demo.launch()
