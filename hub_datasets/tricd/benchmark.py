"""How TRICD is scored and evaluated: `val` by boxes, `vqa` by answers, the groups by matching."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="val",
            configs=("val",),
            task_type="detection",
            images=("image",),
            captions=("caption",),
            category="type",
            cluster="pair_id",
            metrics={"cpd_ap": {}, "grounding_recall": {}, "group_recall_at_1": {}},
        ),
        Task(
            name="vqa",
            configs=("vqa",),
            task_type="vqa",
            images=("image",),
            captions=("question",),
            category="type",
            metrics={"yes_no_f1": {}},
            skills={"object": "object", "relation": "relation"},
        ),
        Task(
            name="groups",
            configs=("groups",),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1"),
            category="type",
            metrics={"group_match": {}},
            skills={"object": "object", "relation": "relation"},
        ),
    ),
    split="validation",
    summary="phrases only in the right context",
    source="your own copy of github.com/ashkamath/TRICD (--data-dir); images of COCO val2017 are fetched",
)
