"""The task of COCO-Counterfactuals and its metrics: as groups, by Winoground's three scores."""

from .. import Benchmark
from ..core.benchmarks import group_task

BENCHMARK = Benchmark(
    tasks=(group_task("pairs", "group_match", skills="object"),),
    summary="one noun changed, generated",
    source="huggingface.co/datasets/Intel/COCO-Counterfactuals (6.4 GB), or --data-dir",
)
