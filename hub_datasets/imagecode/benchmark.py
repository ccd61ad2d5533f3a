"""The task of ImageCoDe: the description has to prefer the image that it was written for."""

from .. import Benchmark, Task


def _task(config: str, *, by_default: bool) -> Task:
    return Task(
        name=config,
        images=tuple(f"image_{index}" for index in range(10)),
        captions=("caption",),
        category="category",
        cluster="set",
        metrics={"itm_accuracy": {}},
        split={"valid": "validation"}.get(config, config),
        by_default=by_default,
    )


BENCHMARK = Benchmark(
    tasks=(_task("valid", by_default=True), _task("train", by_default=False)),
    split="validation",
    summary="one of ten similar images",
    source="github.com/McGill-NLP/imagecode and image-sets.zip of Zenodo 6518944 (some 14 GB), or --data-dir",
)
