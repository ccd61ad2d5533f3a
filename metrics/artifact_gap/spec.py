"""What captions alone give away."""

from ..contract.spec import MetricSpec, ScoreSpec
from ..functional.symmetry import artifact_gap

SPEC = MetricSpec(
    artifact_gap,
    "text",
    # Of a benchmark, not of a model: the higher, the more do captions give away.
    (
        ScoreSpec("accuracy", higher_is_better=False, chance=1 / 2),
        ScoreSpec("auc", higher_is_better=False, chance=1 / 2),
    ),
)
