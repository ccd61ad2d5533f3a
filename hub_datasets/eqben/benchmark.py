"""The tasks of EqBen and their metrics: Winoground's three scores, for each subset."""

from .. import Benchmark
from ..core.benchmarks import group_task

BENCHMARK = Benchmark(
    tasks=(
        group_task(
            "groups",
            "group_match",
            configs=(
                "eqbenag",
                "eqbenyoucook2",
                "eqbengebc",
                "eqbenkubric_loc",
                "eqbenkubric_attr",
                "eqbenkubric_cnt",
                "eqbensd",
            ),
            skills={"eqbenkubric_loc": "spatial", "eqbenkubric_attr": "attribute", "eqbenkubric_cnt": "count"},
        ),
    ),
    summary="small changes of an image",
    source="the 10 % subset of github.com/Wangt-CN/EqBen on Google Drive (some 10 GB), or --data-dir",
)
