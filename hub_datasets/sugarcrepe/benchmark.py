"""How the rows of SugarCrepe are scored and evaluated (SugarCrepe, section 5)."""

from .. import Benchmark, Task

_CATEGORIES = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")


def _task(name: str, prefix: str, *, by_default: bool) -> Task:
    return Task(
        name=name,
        configs=tuple(prefix + category for category in _CATEGORIES),
        images=("image",),
        captions=("caption", "negative_caption"),
        category="category",
        metrics={"sugarcrepe_itm": {}},
        by_default=by_default,
    )


BENCHMARK = Benchmark(
    tasks=(_task("itm", "", by_default=True), _task("unrefined", "unrefined_", by_default=False)),
    summary="fluent captions with one change",
    source="github.com/RAIVNLab/sugar-crepe and COCO val2017 (1 GB), or --data-dir",
    main_scores=(("itm", "sugarcrepe_itm", "macro_accuracy"),),
)
