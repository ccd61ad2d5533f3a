"""The tasks of SugarCrepe++ and their metrics (section 4.1): with the image (ITT), and as texts (TOT)."""

from .. import Benchmark, Task

_CONFIGS = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
_CAPTIONS = ("caption", "positive_caption", "negative_caption")

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="itt",
            configs=_CONFIGS,
            captions=_CAPTIONS,
            category="category",
            positives=2,
            metrics={"augmented_accuracy": {}, "brittleness": {}},
            skills="paraphrase",
        ),
        Task(
            name="tot",
            configs=_CONFIGS,
            task_type="text_similarity",
            images=(),
            captions=_CAPTIONS,
            category="category",
            cluster="filename",
            metrics={"itm_accuracy": {}},
        ),
    ),
    summary="two true captions in other words",
    source="github.com/Sri-Harsha/scpp and COCO val2017 (of which only what is needed), or --data-dir",
)
