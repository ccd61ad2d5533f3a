"""The task of ConMe and its metrics: the right answer against the wrong one."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="itm",
            configs=("replace_att", "replace_obj", "replace_rel"),
            category="category",
            metrics={"itm_accuracy": {}},
            skills={"replace_obj": "object", "replace_att": "attribute", "replace_rel": "relation"},
        ),
    ),
    summary="wrong answers that fool VLMs",
    source="huggingface.co/conme/ConMe, or --data-dir",
)
