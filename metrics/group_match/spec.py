"""Groups of two images and two captions."""

from ..contract.spec import MetricSpec, ScoreSpec
from ..functional.groups import group_match

SPEC = MetricSpec(
    group_match,
    "groups",
    (
        ScoreSpec("text_score", chance=1 / 4),
        ScoreSpec("image_score", chance=1 / 4),
        ScoreSpec("group_score", chance=1 / 6),
    ),
    main_score="group_score",
)
