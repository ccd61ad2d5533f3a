"""How the rows of Winoground are scored and evaluated: its text, image and group score, by both sets of tags."""

from typing import Any

from .. import Benchmark, Task


def group_task(name: str, **options: Any) -> Task:
    """A task of groups: two images and two captions, each true of its own image only; scored as Winoground's."""
    images, captions = (tuple(f"{column}_{side}" for side in "01") for column in ("image", "caption"))
    return Task(name, {"group_match": {}}, images=images, captions=captions, **options)


BENCHMARK = Benchmark(
    tasks=(group_task("groups", configs=("winoground",), category="category", tags="tags", skills="binding"),),
    summary="the same words in another order",
    source="huggingface.co/datasets/facebook/winoground, with the access that you asked for there, or --data-dir",
)
