"""How toy_order is scored and evaluated: each condition of retrieval is a set of its own (ARO, section 3.1)."""

from .. import Benchmark, Task

# As in `builder.py`, which needs `datasets`.
_CONDITIONS = (
    "retrieval",
    "retrieval_cleaned",
    "retrieval_shuffle_nouns_and_adjectives",
    "retrieval_shuffle_all_but_nouns_and_adjectives",
    "retrieval_shuffle_within_trigrams",
    "retrieval_shuffle_trigrams",
    "retrieval_shuffle_all_words",
    "retrieval_shuffle_rows_4",
    "retrieval_shuffle_columns_4",
    "retrieval_shuffle_patches_9",
)

BENCHMARK = Benchmark(
    tasks=(
        *(
            Task(
                name=config,
                task_type="retrieval",
                captions=("captions",),
                metrics={"retrieval_recall": {"pool": "shared", "ks": [1, 5, 10]}},
                by_default=config == "retrieval",
            )
            for config in _CONDITIONS
        ),
        Task(
            name="order",
            captions=("caption", "negative_captions"),
            metrics={"aro_itm": {"task": "order"}},
            skills="order",
        ),
    ),
    summary="toy_scenes without order, offline",
    imports=("authoring/text",),
)
