"""How the rows of Cola are scored and evaluated: Winoground's three scores, of which the image score is Cola's own."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="groups",
            configs=("multiobjects",),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1"),
            metrics={"group_match": {}},
            skills="binding",
        ),
    ),
    summary="attributes of the right object",
    source="github.com/arijitray1993/COLA and its 218 images on cs-people.bu.edu, or --data-dir",
)
