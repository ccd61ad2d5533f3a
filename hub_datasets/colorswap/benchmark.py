"""The task of ColorSwap and its metrics: text, image and group score, as Winoground's."""

from .. import Benchmark
from ..core.benchmarks import group_task

BENCHMARK = Benchmark(
    tasks=(
        group_task("groups", "group_match", configs=("test",), skills="binding"),
        # For fine-tuning in the paper: scored only by who asks for it.
        group_task("train_groups", "group_match", configs=("train",), skills="binding", by_default=False),
    ),
    summary="colours of the right object",
    source="huggingface.co/datasets/stanfordnlp/colorswap, with the access that you asked for there, or --data-dir",
)
