"""How the rows of NaturalBench are scored and evaluated: its four accuracies, and groups of images and captions."""

from .. import Benchmark, Task

_IMAGES, _CAPTIONS = ("image_0", "image_1"), ("caption_0", "caption_1")

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="questions",
            configs=("vqa",),
            images=_IMAGES,
            captions=(*_CAPTIONS, "other_caption_0", "other_caption_1"),
            category="category",
            metrics={"paired_question_accuracy": {}},
        ),
        Task(
            name="groups",
            configs=("retrieval",),
            images=_IMAGES,
            captions=_CAPTIONS,
            metrics={"group_match": {}},
            by_default=False,  # its images have to be the user's own copy
        ),
    ),
    summary="two questions, two photographs",
    source="huggingface.co/datasets/BaiqiL/NaturalBench (1.1 GB), or --data-dir; retrieval: --data-dir",
)
