"""Retrieval of texts and of images."""

from ..contract.spec import MetricSpec, ScoreSpec
from ..functional.retrieval import retrieval_recall

SPEC = MetricSpec(
    retrieval_recall,
    "retrieval",
    (
        ScoreSpec("text_recall_at_*"),
        ScoreSpec("image_recall_at_*"),
        ScoreSpec("recall_at_*"),
        *(
            ScoreSpec(f"{side}{rank}_rank", higher_is_better=False, in_tables=False)
            for side in ("text_", "image_", "")
            for rank in ("mean", "median")
        ),
    ),
)
