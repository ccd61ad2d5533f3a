"""The tasks of toy_order and their metrics: each condition is a separate retrieval set (ARO, section 3.1)."""

from .. import Benchmark, Task
from ..authoring.text.shuffles import CONDITIONS
from ..core.benchmarks import retrieval_task

BENCHMARK = Benchmark(
    tasks=(
        retrieval_task("retrieval", "retrieval_recall"),
        *(
            retrieval_task(f"retrieval_{condition}", "retrieval_recall", by_default=False)
            for condition in CONDITIONS[1:]
        ),
        Task(
            name="order",
            captions=("caption", "negative_captions"),
            metrics={"itm_accuracy": {}},
            skills="order",
        ),
    ),
    summary="toy_scenes without order, offline",
)
