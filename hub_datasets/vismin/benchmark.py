"""How the rows of VisMin are scored and evaluated: text, image and group score, by what was changed."""

from typing import Any

from .. import Benchmark, Task


def _task(name: str, category: str, **more: Any) -> Task:
    return Task(
        name=name,
        configs=("vismin",),
        images=("image_0", "image_1"),
        captions=("caption_0", "caption_1"),
        category=category,
        metrics={"group_match": {}},
        **more,
    )


_SKILLS = {"object": "object", "attribute": "attribute", "counting": "count", "relation": "spatial"}
BENCHMARK = Benchmark(
    tasks=(
        _task("groups", "category", skills=_SKILLS),
        # The same rows by the order that their captions had: whether the solutions fit the images shows in both alike.
        _task("pairing", "order", by_default=False),
    ),
    summary="minimal changes of an image",
    source="huggingface.co/datasets/mair-lab/vismin-bench as Parquet (1.5 GB), or --data-dir",
    caution=(
        "Which caption belongs to which image is as the authors' file of solutions says, and was not checked on the "
        "images: if the task `pairing` has one order far below chance, it is wrong."
    ),
)
