"""The artefact gap: how far a benchmark can be solved from its captions, without images."""

from ..estimation.spec import MetricSpec, ScoreSpec
from ..functional.symmetry import artifact_gap

SPEC = MetricSpec(
    artifact_gap,
    "text",
    # Of a benchmark, not of a model: the higher, the more do captions give away.
    (
        ScoreSpec("accuracy", False, 1 / 2, meaning="How often captions alone give the positive one away."),
        ScoreSpec("auc", False, 1 / 2, meaning="How well captions alone rank positive ones above negatives."),
    ),
    version=2,
)
