"""How the rows of BiVLC are scored and evaluated: text, image and group score, by what was changed."""

from .. import Benchmark, Task

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="groups",
            configs=("bivlc",),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1"),
            category="category",
            metrics={"group_match": {}},
            skills={
                "replace_obj": "object",
                "add_obj": "object",
                "replace_att": "attribute",
                "add_att": "attribute",
                "replace_rel": "relation",
                "swap_obj": "binding",
                "swap_att": "binding",
            },
        ),
    ),
    summary="SugarCrepe in both directions",
    source="huggingface.co/datasets/imirandam/BiVLC (540 MB), or --data-dir",
)
