"""How the rows of BiVLC are scored and evaluated: text, image and group score, by what was changed."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="groups",
            configs=("bivlc",),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1"),
            category="category",
            metrics={"group_match": {}},
        ),
    ),
    summary="SugarCrepe in both directions",
    source="huggingface.co/datasets/imirandam/BiVLC (540 MB), or --data-dir",
)
