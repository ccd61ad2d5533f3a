"""How the rows of toy_scenes are scored and evaluated."""

from .. import Benchmark, Task

_SKILLS = {
    "add_att": "attribute",
    "add_obj": "object",
    "replace_att": "attribute",
    "replace_obj": "object",
    "replace_rel": "spatial",
    "swap_att": "binding",
    "swap_obj": "binding",
}

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="itm",
            configs=("itm",),
            images=("image",),
            captions=("caption", "negative_caption"),
            category="category",
            metrics={"sugarcrepe_itm": {}},
            skills=_SKILLS,
        ),
        Task(
            name="hard_positives",
            configs=("hard_positives",),
            images=("image",),
            captions=("caption", "positive_caption", "negative_caption"),
            category="category",
            metrics={"augmented_accuracy": {}, "brittleness": {}},
            skills="paraphrase",
        ),
        Task(
            name="order",
            configs=("order",),
            images=("image",),
            captions=("caption", "negative_captions"),
            metrics={"aro_itm": {"task": "order"}},
            skills="order",
        ),
        Task(
            name="groups",
            configs=("groups",),
            images=("image_0", "image_1"),
            captions=("caption_0", "caption_1"),
            category="tag",
            metrics={"group_match": {}},
            skills="binding",
        ),
        Task(
            name="detection",
            configs=("detection",),
            task_type="detection",
            images=("image",),
            captions=("caption",),
            category="type",
            cluster="pair_id",
            metrics={"cpd_ap": {}, "grounding_recall": {}, "group_recall_at_1": {}},
        ),
        Task(
            name="vqa",
            configs=("vqa",),
            task_type="vqa",
            images=("image",),
            captions=("question",),
            category="type",
            cluster="pair_id",
            metrics={"yes_no_f1": {}},
            skills=_SKILLS,
        ),
        Task(
            name="retrieval",
            configs=("retrieval",),
            task_type="retrieval",
            images=("image",),
            captions=("captions",),
            metrics={"retrieval_recall": {"pool": "shared", "ks": [1, 5, 10]}},
            by_default=False,
        ),
        Task(
            name="sets",
            configs=("sets",),
            images=("image",),
            captions=("caption", "hard_negatives"),
            category="category",
            metrics={"retrieval_recall": {"pool": "own", "ks": [1, 3, 5]}},
            by_default=False,
        ),
    ),
    summary="every task, rendered, offline",
    # Validation and test are all that a score needs.
    scoring_options={"train_scenes": 0},
)
