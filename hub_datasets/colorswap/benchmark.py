"""How the rows of ColorSwap are scored and evaluated: text, image and group score, as Winoground's."""

from .. import Benchmark
from ..winoground.benchmark import group_task

BENCHMARK = Benchmark(
    tasks=(
        group_task("groups", configs=("test",), skills="binding"),
        # For fine-tuning in the paper: scored only by who asks for it.
        group_task("train_groups", configs=("train",), skills="binding", by_default=False),
    ),
    summary="colours of the right object",
    source="huggingface.co/datasets/stanfordnlp/colorswap, with the access that you asked for there, or --data-dir",
)
