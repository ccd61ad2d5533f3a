"""How the rows of VisMin are scored and evaluated: text, image and group score, by what was changed."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="groups",
            configs=("vismin",),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1"),
            category="category",
            tags="tags",
            metrics={"group_match": {}},
            skills={"object": "object", "attribute": "attribute", "counting": "count", "relation": "spatial"},
        ),
    ),
    summary="minimal changes of an image",
    source="huggingface.co/datasets/mair-lab/vismin-bench as Parquet (1.5 GB), or --data-dir",
    caution=(
        "Which caption belongs to which image is as the authors' file of solutions says, and was not checked on the "
        "images: compare the tags `released order` and `exchanged`; if one is far below chance, the pairing is wrong."
    ),
)
