"""Small pictures of a benchmark's examples, for pages, where their licence lets anyone pass them on."""

from __future__ import annotations

import base64
import io
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

from ...hub_datasets import get_benchmark
from ...hub_datasets.core.image_keys import MISSING
from ...metrics.common.errors import VLAssayError

if TYPE_CHECKING:
    from ...hub_datasets import Example, TaskData

NOT_SHOWN = "Its images are others' photographs, whose licences do not let a leaderboard pass them on: none is shown."
_SIDE = 128


def may_show(benchmark: str) -> bool:
    """Whether the images are this project's own, made on the spot: all other benchmarks have photographs of others."""
    return not get_benchmark(benchmark).source


def pictures_html(data: TaskData, example: Example) -> str:
    """The images of an example as HTML, each in at most 128 × 128 pixels; nothing for those that are not to be had."""
    if not may_show(data.benchmark):
        return ""
    found = (_data_uri(data, key) for key in example.images if key != MISSING)
    text = escape(f"image of {example.id}", quote=True)
    return "".join(f"<img src='{uri}' alt='{text}' width='64' style='display: inline'>" for uri in found if uri)


def _data_uri(data: TaskData, key: str) -> str:
    try:
        return _small(data.image_bytes(key))
    except (VLAssayError, OSError, SyntaxError):  # Pillow raises the latter two for a file that is damaged
        return ""


@lru_cache(maxsize=512)
def _small(content: bytes) -> str:
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        image.thumbnail((_SIDE, _SIDE))
        file = io.BytesIO()
        image.convert("RGB").save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
