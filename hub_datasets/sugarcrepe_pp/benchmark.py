"""How the rows of SugarCrepe++ are scored and evaluated (section 4.1): both positives have to beat the negative."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="itt",
            configs=("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj"),
            images=("image",),
            captions=("caption", "positive_caption", "negative_caption"),
            category="category",
            metrics={"augmented_accuracy": {}, "brittleness": {}},
            skills="paraphrase",
        ),
    ),
    summary="two true captions in other words",
    source="github.com/Sri-Harsha/scpp and COCO val2017 (of which only what is needed), or --data-dir",
)
