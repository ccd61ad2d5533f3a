"""The tasks of TRICD and their metrics: `val` by boxes, `vqa` by answers, the groups by matching."""

from .. import Benchmark, Task
from ..core.benchmarks import group_task

_SKILLS = {"object": "object", "relation": "relation"}

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="val",
            task_type="detection",
            captions=("caption",),
            category="type",
            cluster="pair_id",
            metrics={"cpd_ap": {}, "grounding_recall": {}, "group_recall_at_1": {}},
        ),
        Task(
            name="vqa",
            task_type="vqa",
            captions=("question",),
            category="type",
            metrics={"yes_no_f1": {}},
            skills=_SKILLS,
        ),
        group_task("groups", "group_match", category="type", skills=_SKILLS),
    ),
    split="validation",
    summary="phrases only in the right context",
    source="github.com/ashkamath/TRICD and COCO val2017 (of which only what is needed), or --data-dir",
)
