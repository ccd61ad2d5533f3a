"""The task of Cola and its metrics: Winoground's three scores, of which the image score is Cola's own."""

from .. import Benchmark
from ..core.benchmarks import group_task

BENCHMARK = Benchmark(
    tasks=(group_task("groups", "group_match", configs=("multiobjects",), skills="binding"),),
    summary="attributes of the right object",
    source="github.com/arijitray1993/COLA and its 218 images on cs-people.bu.edu, or --data-dir",
)
