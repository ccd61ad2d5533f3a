"""Average precision of contextual phrase detection."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.cpd import cpd_ap
from ..functional.detection import TIES

SPEC = MetricSpec(
    cpd_ap,
    "detection",
    (
        ScoreSpec(
            "ap", meaning="Average precision of boxes for phrases, with captions that are false; IoU 0.5 to 0.95."
        ),
        ScoreSpec("ap50", meaning="The same at IoU 0.5."),
        ScoreSpec("ap75", in_tables=False, meaning="The same at IoU 0.75."),
        ScoreSpec("ap_positives", meaning="The same with true captions only."),
    ),
    tie_policies=TIES,
    label="CPD",
)
