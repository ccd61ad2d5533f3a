"""The tasks of toy_scenes and their metrics."""

from .. import Benchmark, Task
from ..core.benchmarks import group_task, retrieval_task

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
            category="category",
            metrics={"sugarcrepe_itm": {}},
            skills=_SKILLS,
        ),
        Task(
            name="hard_positives",
            captions=("caption", "positive_caption", "negative_caption"),
            category="category",
            positives=2,
            metrics={"augmented_accuracy": {}, "brittleness": {}},
            skills="paraphrase",
        ),
        Task(
            name="order",
            captions=("caption", "negative_captions"),
            metrics={"itm_accuracy": {}},
            skills="order",
        ),
        group_task("groups", "group_match", category="tag", skills="binding"),
        Task(
            name="detection",
            task_type="detection",
            captions=("caption",),
            category="type",
            cluster="pair_id",
            metrics={"cpd_ap": {}, "grounding_recall": {}, "group_recall_at_1": {}},
        ),
        Task(
            name="vqa",
            task_type="vqa",
            captions=("question",),
            category="type",
            cluster="pair_id",
            metrics={"yes_no_f1": {}},
            skills=_SKILLS,
        ),
        retrieval_task("retrieval", "retrieval_recall", by_default=False),
        Task(
            name="paraphrases",
            configs=("hard_positives",),
            task_type="text_similarity",
            images=(),
            captions=("caption", "positive_caption", "negative_caption"),
            category="category",
            cluster="filename",
            metrics={"itm_accuracy": {}},
            by_default=False,
        ),
        Task(
            name="sets",
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
