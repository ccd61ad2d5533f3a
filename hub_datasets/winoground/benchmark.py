"""The task of Winoground and its metrics: its text, image and group score, by both sets of tags."""

from .. import Benchmark
from ..core.benchmarks import group_task

BENCHMARK = Benchmark(
    tasks=(
        group_task(
            "groups", "group_match", configs=("winoground",), category="category", tags="tags", skills="binding"
        ),
    ),
    summary="the same words in another order",
    source="huggingface.co/datasets/facebook/winoground, with the access that you asked for there, or --data-dir",
)
