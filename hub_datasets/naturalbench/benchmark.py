"""The tasks of NaturalBench and their metrics: its four accuracies, and groups of images and captions."""

from .. import Benchmark, Task
from ..core.benchmarks import group_task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="questions",
            configs=("vqa",),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1", "other_caption_0", "other_caption_1"),
            positives=4,  # the other answer to a question is right for the other image
            category="category",
            metrics={"paired_question_accuracy": {}},
        ),
        # Not by default, as it has other images, a download of its own.
        group_task("groups", "group_match", configs=("retrieval",), by_default=False),
    ),
    summary="two questions, two photographs",
    source="huggingface.co/datasets/BaiqiL/NaturalBench (1.1 GB; retrieval: 0.3 GB), or --data-dir",
)
