"""The tasks of zero-shot classification and their metrics: each image with the prompts of all classes."""

from .. import Benchmark, Task
from .labelled_sets import SETS, VTAB


def _task(config: str) -> Task:
    return Task(
        name=config,
        task_type="retrieval",
        captions=("caption",),
        label="label",
        metrics={"zero_shot_accuracy": {}},
        # `shapes` is generated and needs no data; the other sets need the user's copy.
        by_default=config == "shapes",
    )


BENCHMARK = Benchmark(
    tasks=tuple(_task(config) for config in (*SETS, "shapes")),
    summary="zero-shot recognition of images",
    source="as --data-dir: a folder of images for each label (the card says where sets are); or -o dataset=OWNER/NAME",
    generated=("shapes",),
    suites={"vtab": VTAB},
    main_scores=(("imagenet", "zero_shot_accuracy", "acc_at_1"),),
)
