"""The task of ARO+CREPE, scored as SugarCrepe's: against one hard negative each (SugarCrepe, section 5)."""

from .. import Benchmark, Task

_KINDS = ("replace", "swap", "negate", "shuffle")

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="itm",
            configs=_KINDS,
            category="category",
            metrics={"sugarcrepe_itm": {"forms": {kind: kind.upper() for kind in _KINDS}}},
            # "replace" changes words of every kind.
            skills={"swap": "binding", "negate": "negation", "shuffle": "order"},
        ),
    ),
    summary="negatives made by rule",
    source="github.com/RAIVNLab/sugar-crepe and COCO val2017 (250 MB of it), or --data-dir",
)
