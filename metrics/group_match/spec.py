"""Groups of two images and two captions."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.groups import group_match

SPEC = MetricSpec(
    group_match,
    "groups",
    (
        ScoreSpec("text_score", chance=1 / 4, meaning="How often both images prefer their own caption."),
        ScoreSpec("image_score", chance=1 / 4, meaning="How often both captions prefer their own image."),
        ScoreSpec("group_score", chance=1 / 6, meaning="How often all of that is right in a group."),
    ),
    main_score="group_score",
    is_joint=True,
)
