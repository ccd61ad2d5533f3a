"""The tasks of SugarCrepe and their metrics (SugarCrepe, section 5)."""

from typing import Any

from .. import Benchmark, Task
from .v2 import IDS, NAME

# Of each category.
SKILLS = {
    "add_att": "attribute",
    "add_obj": "object",
    "replace_att": "attribute",
    "replace_obj": "object",
    "replace_rel": "relation",
    "swap_att": "binding",
    "swap_obj": "binding",
}


def _task(name: str, configs: tuple[str, ...], **options: Any) -> Task:
    return Task(
        name=name,
        configs=configs,
        category="category",
        metrics={"sugarcrepe_itm": {}},
        skills=SKILLS,
        **options,
    )


BENCHMARK = Benchmark(
    tasks=(
        _task("itm", tuple(SKILLS)),
        # Reported with each `itm`, from the same predictions.
        _task(NAME, (NAME,), by_default=False, part_of="itm", ids=IDS),
        _task("unrefined", tuple(f"unrefined_{category}" for category in SKILLS), by_default=False),
    ),
    summary="fluent captions with one change",
    source="github.com/RAIVNLab/sugar-crepe and COCO val2017 (250 MB of it), or --data-dir",
    main_scores=(("itm", "sugarcrepe_itm", "macro_accuracy"),),
)
