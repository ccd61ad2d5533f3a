"""How the rows of Winoground are scored and evaluated: its text, image and group score, by both sets of tags."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="groups",
            configs=("winoground",),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1"),
            category="category",
            tags="tags",
            metrics={"group_match": {}},
            skills="binding",
        ),
    ),
    summary="the same words in another order",
    source="huggingface.co/datasets/facebook/winoground, with the access that you asked for there, or --data-dir",
)
