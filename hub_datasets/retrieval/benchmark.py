"""How retrieval is scored and evaluated: each condition is a pool of its own (ARO, section 3.1)."""

from .. import Benchmark, Task
from .conditions import CONDITIONS


def retrieval_task(config: str, *, by_default: bool = True, split: str | None = None) -> Task:
    """A task of the configuration's images with the captions of all of them, for other benchmarks too."""
    return Task(
        name=config,
        task_type="retrieval",
        captions=("captions",),
        metrics={"retrieval_recall": {"pool": "shared", "ks": [1, 5, 10]}},
        by_default=by_default,
        split=split,
    )


BENCHMARK = Benchmark(
    tasks=tuple(
        task
        for name in ("coco", "flickr30k")
        for task in (
            retrieval_task(name),
            *(retrieval_task(f"{name}_{condition}", by_default=False) for condition in CONDITIONS[1:]),
            retrieval_task(f"{name}_validation", by_default=False, split="validation"),
        )
    ),
    summary="retrieval, also of shuffled words",
    source=(
        "COCO val2014 (800 MB of it) and huggingface.co/datasets/mteb/ARO-Flickr-Order for Flickr30k's test split, or "
        "--data-dir"
    ),
    imports=("authoring/text",),
)
