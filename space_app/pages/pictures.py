"""Thumbnails of a benchmark's images, if their licence allows redistribution."""

from __future__ import annotations

import base64
import io
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from ...hub_datasets import get_benchmark
from ...hub_datasets.core.image_keys import MISSING
from ...hub_datasets.core.images import DECODING_ERRORS, decode
from ...metrics.common.errors import VLAssayError

if TYPE_CHECKING:
    from ...hub_datasets import Example, TaskData

NOT_SHOWN = "Its images are photographs of others, whose licences do not allow a leaderboard to show them."
_SIDE = 128


def may_show(benchmark: str) -> bool:
    """Whether the images were rendered by this project; those of all other benchmarks are photographs of others."""
    return not get_benchmark(benchmark).source


def pictures_html(data: TaskData, example: Example) -> Markup:
    """The images of an example in at most 128 × 128 pixels; without those that are missing or may not be shown."""
    if not may_show(data.benchmark):
        return Markup("")
    shown = Markup("")
    for key in example.images:
        if key != MISSING:
            with suppress(VLAssayError, *DECODING_ERRORS):
                shown += picture_html(data.image_bytes(key), f"image of {example.id}")
    return shown


def picture_html(content: bytes, alt: str) -> Markup:
    """An image in at most 128 × 128 pixels; one of `DECODING_ERRORS` if it is damaged."""
    return Markup('<img src="{}" alt="{}" width="64">').format(_thumbnail(content), alt)


@lru_cache(maxsize=512)
def _thumbnail(content: bytes) -> str:
    image = decode(content)
    image.thumbnail((_SIDE, _SIDE))
    file = io.BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
