"""How the rows of toy_scenes are scored and judged."""

from ..benchmarks import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="itm",
            configs=("itm",),
            images=("image",),
            captions=("caption", "negative_caption"),
            category="category",
            metric="sugarcrepe_itm",
        ),
    ),
    # Validation and test are all that a score needs.
    scoring_options={"train_scenes": 0},
)
