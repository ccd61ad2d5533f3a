"""How the rows of NegBench are scored: each set of questions by itself, by the template of the right caption."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=tuple(
        Task(
            name=f"{config}_mcq",
            configs=(config,),
            images=("image",),
            captions=("caption", "negative_captions"),
            category="category",
            metrics={"aro_itm": {"task": "order"}},
        )
        for config in ("coco", "voc2007")
    ),
    summary="negation, one of four captions",
    source="--data-dir only: the CSV files of github.com/m1k2zoo/negbench's Drive folder; COCO's images are fetched",
)
