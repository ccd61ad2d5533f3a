"""The task of VisMin and its metrics: text, image and group score, by what was changed."""

from .. import Benchmark
from ..core.benchmarks import group_task

_SKILLS = {"object": "object", "attribute": "attribute", "counting": "count", "relation": "spatial"}
BENCHMARK = Benchmark(
    tasks=(
        group_task("groups", "group_match", configs=("vismin",), category="category", skills=_SKILLS),
        # The same rows by their released order of captions: if the solutions are right, accuracy is similar in both.
        group_task("pairing", "group_match", configs=("vismin",), category="order", by_default=False),
    ),
    summary="minimal changes of an image",
    source="huggingface.co/datasets/mair-lab/vismin-bench as Parquet (1.5 GB), or --data-dir",
    caution=(
        "Which caption belongs to which image is as the authors' file of solutions says, and was not checked on the "
        "images: if the task `pairing` has one order far below chance, it is wrong."
    ),
)
