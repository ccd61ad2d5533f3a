"""How the rows of What'sUp are scored: each set of questions by itself, by the relation of the right caption."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=tuple(
        Task(
            name=config,
            configs=(config,),
            images=("image",),
            captions=("caption", "negative_captions"),
            category="category",
            metrics={"aro_itm": {"task": "order"}},
            skills="spatial",
        )
        for config in ("controlled_a", "controlled_b", "coco_one", "coco_two", "vg_one", "vg_two")
    ),
    summary="left or right, on or under",
    source="--data-dir: the files of github.com/amitakamath/whatsup_vlms; images of COCO and VG are fetched",
)
