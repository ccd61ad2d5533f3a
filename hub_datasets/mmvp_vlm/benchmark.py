"""The task of MMVP-VLM and its metrics: its pair accuracy is the image score of a group."""

from .. import Benchmark
from ..core.benchmarks import group_task

BENCHMARK = Benchmark(
    tasks=(
        group_task(
            "pairs",
            "group_match",
            category="category",
            skills={"Color": "attribute", "Presence": "existence", "Quantity": "count", "Spatial": "spatial"},
        ),
    ),
    summary="pairs that CLIP confuses",
    source="huggingface.co/datasets/MMVP/MMVP_VLM, or --data-dir",
    main_scores=(("pairs", "group_match", "image_score"),),
)
