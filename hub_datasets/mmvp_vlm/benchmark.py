"""How the rows of MMVP-VLM are scored and evaluated: its pair accuracy is the image score of a group."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="pairs",
            configs=("pairs",),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1"),
            category="category",
            metrics={"group_match": {}},
        ),
    ),
    summary="pairs that CLIP confuses",
    source="--data-dir: MMVP/MMVP_VLM from the Hub (hf download)",
    main_scores=(("pairs", "group_match", "image_score"),),
)
