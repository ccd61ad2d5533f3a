"""The page of errors: a summary, and the examples as cards, which a script shows on demand."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from ...common.documents import to_html
from .cards import cards_html, environment, styles
from .outcomes import EVERY, FILTERS, TaskErrors, Thumbnail
from .summary import Summary

MOST_EXAMPLES = 10_000
# Of thumbnails, in all: with Base64 a third more. A page beyond opens slowly, and mail refuses it.
MOST_IMAGE_BYTES = 30_000_000
_TOKENS = Path(__file__).parents[2] / "common" / "tokens.css"


def page_html(summaries: Sequence[Summary], notes: Sequence[str], *, limit: int) -> str:
    """Render one HTML page over all tasks.

    Args:
        summaries: one for each task.
        notes: what is missing.
        limit: how many examples of each task it holds at most, the most confident errors first.
    """
    images = _Images()
    tasks, left_out = [], []
    for summary in summaries:
        task, numbers = summary.task, summary.task.select(EVERY)[:limit]
        if len(numbers) < len(task):
            left_out.append(
                f"{task.where}: the page holds {len(numbers):,} of {len(task):,} examples, the most confident errors "
                "first; the numbers are of all."
            )
        tasks.append(_task_data(task, numbers, images.of(task, numbers)))
        if images.left_out:
            size = MOST_IMAGE_BYTES // 10**6
            left_out.append(f"{task.where}: {images.left_out:,} images beyond {size} MB are not shown.")
    models = list(dict.fromkeys(label for summary in summaries for label in summary.task.labels))
    values = {
        "title": f"Errors of {', '.join(models[:3])}{' and others' if len(models) > 3 else ''}",
        "summaries": [
            {"where": summary.task.where, "sentences": summary.sentences, "html": Markup(to_html(summary.tables, 3))}
            for summary in summaries
        ],
        "notes": [*left_out, *notes],
        "tasks": Markup(_json(tasks)),
        "images": Markup(_json(images.addresses)),
        "filters": list(FILTERS.items()),
        "tokens": Markup(_TOKENS.read_text(encoding="utf-8")),
        "styles": Markup(styles()),
    }
    return environment().get_template("page.html").render(values)


class _Images:
    """The thumbnails of all tasks, each once, within a number of bytes."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.left_out = 0
        self._known: dict[str, Thumbnail] = {}
        self._size = 0

    def of(self, task: TaskErrors, numbers: np.ndarray[Any, Any]) -> Mapping[str, Thumbnail]:
        """Return the images of some examples; an image's address is its index in `addresses`."""
        keys = dict.fromkeys(key for number in numbers.tolist() for key in task.image_keys(task.rows[number]))
        self.left_out = 0
        for key, picture in task.data.thumbnails([key for key in keys if key not in self._known]).items():
            self._size += len(picture.address)
            if self._size > MOST_IMAGE_BYTES:
                self.left_out += 1
                continue
            self._known[key] = picture._replace(address=str(len(self.addresses)))
            self.addresses.append(picture.address)
        return self._known


def _task_data(task: TaskErrors, numbers: np.ndarray[Any, Any], pictures: Mapping[str, Thumbnail]) -> dict[str, Any]:
    """Return the data of a task for the page's script: names, compressed cards, and their keys to filter and sort."""
    severity = np.stack([model.severity[numbers] for model in task.models], axis=1)
    category_index = {name: position for position, name in enumerate(task.category_names)}
    cards = json.dumps(list(cards_html(task, numbers, pictures, is_lazy=True)), ensure_ascii=False)
    return {
        "where": task.where,
        "models": [f"{letter} {label}".strip() for letter, label in zip(task.letters, task.labels, strict=True)],
        "categories": task.category_names,
        # Whole numbers: above 0 an error, below 0 none, 0 without prediction.
        "severity": np.nan_to_num(np.round(1000 * severity)).astype(int).tolist(),
        "in": [[category_index[name] for name in task.categories[number]] for number in numbers.tolist()],
        "cards": base64.b64encode(gzip.compress(cards.encode(), 6, mtime=0)).decode("ascii"),
    }


def _json(value: Any) -> str:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
