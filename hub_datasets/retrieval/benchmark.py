"""The tasks of retrieval and their metrics: each condition is a separate retrieval set (ARO, section 3.1)."""

from .. import Benchmark
from ..authoring.text.shuffles import CONDITIONS
from ..core.benchmarks import retrieval_task

BENCHMARK = Benchmark(
    tasks=tuple(
        task
        for name in ("coco", "flickr30k")
        for task in (
            retrieval_task(name, "retrieval_recall"),
            *(
                retrieval_task(f"{name}_{condition}", "retrieval_recall", by_default=False)
                for condition in CONDITIONS[1:]
            ),
            retrieval_task(f"{name}_validation", "retrieval_recall", by_default=False, split="validation"),
        )
    ),
    summary="retrieval, also of shuffled words",
    source=(
        "COCO val2014 (800 MB of it) and huggingface.co/datasets/mteb/ARO-Flickr-Order for Flickr30k's test split, or "
        "--data-dir"
    ),
)
