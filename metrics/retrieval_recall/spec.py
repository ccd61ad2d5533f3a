"""Retrieval of texts and of images."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.retrieval import retrieval_recall

SPEC = MetricSpec(
    retrieval_recall,
    "retrieval",
    (
        ScoreSpec("text_recall_at_*", meaning="How often one of an image's captions is among the k found."),
        ScoreSpec("image_recall_at_*", meaning="How often the image of a caption is among the k found."),
        ScoreSpec("recall_at_*", meaning="How often the positive caption is among the k highest."),
        *(
            ScoreSpec(f"{side}{rank}_rank", higher_is_better=False, in_tables=False)
            for side in ("text_", "image_", "")
            for rank in ("mean", "median")
        ),
    ),
)
