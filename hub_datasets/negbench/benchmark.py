"""The tasks of NegBench: the questions by the template of the right caption, and two retrieval sets."""

from .. import Benchmark, Task
from ..core.benchmarks import retrieval_task

BENCHMARK = Benchmark(
    tasks=(
        *(
            Task(
                name=f"{config}_mcq",
                configs=(config,),
                captions=("caption", "negative_captions"),
                category="category",
                metrics={"itm_accuracy": {}},
                skills="negation",
            )
            for config in ("coco", "voc2007")
        ),
        retrieval_task("coco_retrieval", "retrieval_recall"),
        retrieval_task("coco_negated_retrieval", "retrieval_recall"),
    ),
    summary="negation: questions and retrieval",
    source="--data-dir only: the CSV files of github.com/m1k2zoo/negbench's Drive folder; COCO's images are fetched",
)
