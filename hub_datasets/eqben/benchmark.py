"""How the rows of EqBen are scored and evaluated: Winoground's three scores, for each subset."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="groups",
            configs=(
                "eqbenag",
                "eqbenyoucook2",
                "eqbengebc",
                "eqbenkubric_loc",
                "eqbenkubric_attr",
                "eqbenkubric_cnt",
                "eqbensd",
            ),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1"),
            metrics={"group_match": {}},
        ),
    ),
    summary="small changes of an image",
    source="--data-dir: the 10 % subset (or all) of github.com/Wangt-CN/EqBen, by gdown",
)
