"""The tasks of Hard Positives and their metrics (The Hard Positive Truth, section 4.1)."""

from .. import Benchmark, Task

_REPLACE = ("replace_relations", "replace_attributes")
_REPLACE_CLEAN = tuple(f"{config}_clean" for config in _REPLACE)


def _task(name: str, configs: tuple[str, ...], *, category: str | None = None, by_default: bool = False) -> Task:
    return Task(
        name=name,
        configs=configs,
        captions=("caption", "positive_caption", "negative_caption"),
        category=category,
        positives=2,
        metrics={"augmented_accuracy": {}, "brittleness": {}},
        skills="paraphrase",
        by_default=by_default,
    )


BENCHMARK = Benchmark(
    # Without a category a row counts for its configuration: the two halves of Table 7, and REPLACE over both.
    tasks=(
        _task("replace", _REPLACE, by_default=True),
        _task("swap", ("swap",), by_default=True),
        _task("replace_clean", _REPLACE_CLEAN),
        _task("swap_clean", ("swap_clean",)),
        _task("replace_kinds", _REPLACE, category="category"),
    ),
    summary="changed captions that stay true",
    source="--data-dir: a clone of github.com/amitakamath/hard_positives; Visual Genome's images are fetched",
    # The paper's point: accuracy on hard negatives means little without the hard positives.
    main_scores=tuple(
        (task, metric, metric) for task in ("replace", "swap") for metric in ("augmented_accuracy", "brittleness")
    ),
)
