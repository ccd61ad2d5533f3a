"""How TRICD is scored and judged: the groups by matching; the rows of `val` wait for a detector's boxes."""

from ..benchmarks import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="groups",
            configs=("groups",),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1"),
            category="type",
            metrics={"group_match": {}},
        ),
    ),
    split="validation",
    source="your own copy (--data-dir): github.com/ashkamath/TRICD and COCO val2017 (1 GB)",
)
