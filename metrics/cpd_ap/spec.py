"""Average precision of contextual phrase detection."""

from ..contract.spec import MetricSpec, ScoreSpec
from ..functional.cpd import cpd_ap
from ..functional.detection import TIES

SPEC = MetricSpec(
    cpd_ap,
    "detection",
    (ScoreSpec("ap"), ScoreSpec("ap50"), ScoreSpec("ap75", in_tables=False), ScoreSpec("ap_positives")),
    tie_policies=TIES,
    label="CPD",
)
