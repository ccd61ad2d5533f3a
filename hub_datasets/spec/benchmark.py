"""The tasks of SPEC: each subset by itself, over captions (`_i2t`) and over images (`_t2i`)."""

from .. import Benchmark, Task
from .subsets import SUBSETS

_SKILLS = {
    "existence": "existence",
    "relative_spatial": "spatial",
    "absolute_size": "attribute",
    "relative_size": "attribute",
    "count": "count",
    "absolute_spatial": "spatial",
}
_METRICS = {"itm_accuracy": {}}
_OVER_CAPTIONS = tuple(
    Task(
        name=f"{subset}_i2t",
        captions=("caption", "negative_captions"),
        metrics=_METRICS,
        skills=_SKILLS[subset],
    )
    for subset in SUBSETS
)
_OVER_IMAGES = tuple(
    Task(
        name=f"{subset}_t2i",
        images=tuple(f"image_{number}" for number in range(count)),
        captions=("caption",),
        metrics=_METRICS,
        skills=_SKILLS[subset],
    )
    for subset, count in SUBSETS.items()
)

BENCHMARK = Benchmark(
    tasks=_OVER_CAPTIONS + _OVER_IMAGES,
    summary="size, place, count, existence",
    source="data.zip of huggingface.co/datasets/wjpoom/SPEC (1.6 GB), or --data-dir",
)
