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
            metrics={"sugarcrepe_itm": {}},
        ),
        Task(
            name="hard_positives",
            configs=("hard_positives",),
            images=("image",),
            captions=("caption", "positive_caption", "negative_caption"),
            category="category",
            metrics={"augmented_accuracy": {}, "brittleness": {}},
        ),
        Task(
            name="order",
            configs=("order",),
            images=("image",),
            captions=("caption", "negative_captions"),
            metrics={"aro_itm": {"task": "order"}},
        ),
        Task(
            name="groups",
            configs=("groups",),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1"),
            category="tag",
            metrics={"group_match": {}},
        ),
    ),
    # Validation and test are all that a score needs.
    scoring_options={"train_scenes": 0},
)
