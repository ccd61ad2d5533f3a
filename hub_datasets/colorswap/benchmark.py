"""How the rows of ColorSwap are scored and evaluated: text, image and group score, as Winoground's."""

from .. import Benchmark, Task


def _task(name: str, config: str, *, by_default: bool) -> Task:
    return Task(
        name=name,
        configs=(config,),
        images=("image_0", "image_1"),
        captions=("caption_0", "caption_1"),
        metrics={"group_match": {}},
        skills="binding",
        by_default=by_default,
    )


BENCHMARK = Benchmark(
    tasks=(
        _task("groups", "test", by_default=True),
        # For fine-tuning in the paper: scored only by who asks for it.
        _task("train_groups", "train", by_default=False),
    ),
    summary="colours of the right object",
    source="huggingface.co/datasets/stanfordnlp/colorswap, with the access that you asked for there, or --data-dir",
)
