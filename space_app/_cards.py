"""What the Benchmarks page shows of a benchmark: its card, and a few of its examples where the data are at hand."""

from __future__ import annotations

import re
from html import escape
from itertools import islice

from ..hub_datasets import benchmark_names, get_benchmark, load_examples
from ..hub_datasets._benchmarks import get_card
from ..metrics.errors import VLAssayError

_MOST_EXAMPLES = 5
_MOST_TEXTS = 6


def titles() -> dict[str, str]:
    """The benchmarks' names by what their cards call them, in the order of the names."""
    return {_pretty(name): name for name in benchmark_names()}


def card(name: str) -> tuple[str, str]:
    """The card of a benchmark as Markdown: what it is, and all the rest from its first section on."""
    text = get_card(name).split("---", 2)[2].strip()
    essentials, section, rest = text.partition("\n## ")
    return essentials, section.strip() + " " + rest


def examples_html(name: str) -> str:
    """The texts of the first examples of each task that is scored by default, as an HTML table.

    Where the sources are neither here nor to be had, it says so in a line.
    """
    tasks = [task.name for task in get_benchmark(name).tasks if task.by_default]
    try:
        loaded = [data for task in tasks for data in load_examples(f"{name}/{task}", needs_images=False)]
    except (VLAssayError, OSError) as error:
        return f"<p class='assay-legend'>Its examples are not on this server: {escape(str(error)[:300])}</p>"
    rows = [
        f"<tr><th scope='row'>{escape(example.id)}</th><td>{escape(data.task.name)}</td><td>{escape(example.category)}"
        f"</td><td class='wide'>{'<br>'.join(map(escape, example.captions[:_MOST_TEXTS]))}</td></tr>"
        for data in loaded
        for example in islice(data.examples, _MOST_EXAMPLES)
    ]
    heads = "".join(f"<th scope='col'>{text}</th>" for text in ("example", "task", "category"))
    head = f"<tr>{heads}<th scope='col' class='wide'>texts, the right one first</th></tr>"
    return f"<div class='assay-board'><table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table></div>"


def _pretty(name: str) -> str:
    [title] = re.findall(r"^pretty_name: (.+)$", get_card(name), re.MULTILINE)
    return title
