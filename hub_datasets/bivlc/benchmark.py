"""The task of BiVLC and its metrics: text, image and group score, by what was changed."""

from .. import Benchmark
from ..core.benchmarks import group_task
from ..sugarcrepe.benchmark import SKILLS

BENCHMARK = Benchmark(
    tasks=(
        # Its categories are SugarCrepe's.
        group_task("groups", "group_match", configs=("bivlc",), category="category", skills=SKILLS),
    ),
    summary="SugarCrepe in both directions",
    source="huggingface.co/datasets/imirandam/BiVLC (540 MB), or --data-dir",
)
