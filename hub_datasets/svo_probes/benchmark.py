"""The task of SVO-Probes: the sentence has to prefer the image that it is true of."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="svo",
            images=("image_0", "image_1"),
            captions=("caption",),
            category="category",
            metrics={"itm_accuracy": {}},
            skills={"subj": "object", "verb": "action", "obj": "object"},
        ),
    ),
    summary="another subject, verb or object",
    source="your own copy of svo_probes.csv with its images (--data-dir)",
)
