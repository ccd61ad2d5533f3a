"""How retrieval is scored and evaluated: each condition is a pool of its own (ARO, section 3.1)."""

from .. import Benchmark, Task

_CONDITIONS = (
    "cleaned",
    "shuffle_nouns_and_adjectives",
    "shuffle_all_but_nouns_and_adjectives",
    "shuffle_within_trigrams",
    "shuffle_trigrams",
    "shuffle_all_words",
    "shuffle_rows_4",
    "shuffle_columns_4",
    "shuffle_patches_9",
)


def _task(config: str, *, by_default: bool = False, split: str | None = None) -> Task:
    return Task(
        name=config,
        task_type="retrieval",
        captions=("captions",),
        metrics={"retrieval_recall": {"pool": "shared", "ks": [1, 5, 10]}},
        by_default=by_default,
        split=split,
    )


BENCHMARK = Benchmark(
    tasks=tuple(
        task
        for name in ("coco", "flickr30k")
        for task in (
            _task(name, by_default=True),
            *(_task(f"{name}_{condition}") for condition in _CONDITIONS),
            _task(f"{name}_validation", split="validation"),
        )
    ),
    summary="retrieval, also of shuffled words",
    source=(
        "COCO val2014 (800 MB of it) and huggingface.co/datasets/mteb/ARO-Flickr-Order for Flickr30k's test split, or "
        "--data-dir"
    ),
    imports=("authoring/text",),
)
