"""How the rows of NegBench are scored: the questions by the template of the right caption, and two retrieval sets."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=tuple(
        Task(
            name=f"{config}_mcq",
            configs=(config,),
            captions=("caption", "negative_captions"),
            category="category",
            metrics={"aro_itm": {"task": "order"}},
            skills="negation",
        )
        for config in ("coco", "voc2007")
    )
    + tuple(
        Task(
            name=config,
            task_type="retrieval",
            captions=("captions",),
            metrics={"retrieval_recall": {"pool": "shared", "ks": [1, 5, 10]}},
        )
        for config in ("coco_retrieval", "coco_negated_retrieval")
    ),
    summary="negation: questions and retrieval",
    source="--data-dir only: the CSV files of github.com/m1k2zoo/negbench's Drive folder; COCO's images are fetched",
)
