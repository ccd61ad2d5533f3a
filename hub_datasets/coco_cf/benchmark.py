"""How the rows of COCO-Counterfactuals are scored and evaluated: as groups, by Winoground's three scores."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="pairs",
            configs=("pairs",),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1"),
            metrics={"group_match": {}},
        ),
    ),
    summary="one noun changed, generated",
    source="--data-dir: Intel/COCO-Counterfactuals from the Hub (hf download)",
)
