"""The tasks of What'sUp: each set of questions by itself, by the relation of the right caption."""

from .. import Benchmark, Task

# What the two relations of a pair are called; the photographs of two objects are a set (section 3.1).
_PAIRS = {
    "controlled_a": [["left_of", "right_of"], ["on", "under"]],
    "controlled_b": [["left_of", "right_of"], ["in-front_of", "behind"]],
}

BENCHMARK = Benchmark(
    tasks=tuple(
        Task(
            name=config,
            captions=("caption", "negative_captions"),
            category="category",
            cluster="objects" if config in _PAIRS else None,
            metrics={"set_accuracy": {"pairs": _PAIRS[config]}} if config in _PAIRS else {"itm_accuracy": {}},
            skills="spatial",
        )
        for config in ("controlled_a", "controlled_b", "coco_one", "coco_two", "vg_one", "vg_two")
    ),
    summary="left or right, on or under",
    source="github.com/amitakamath/whatsup_vlms on Google Drive, and images of COCO and VG as needed, or --data-dir",
)
