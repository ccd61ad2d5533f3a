"""Items of the papers that are no table of models: figures and sums, from printed values, data or predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....metrics.common.documents import Part
from . import aro, hard_positives, sugarcrepe, tricd
from .material import Material

# By the paper and the table or figure that an analysis belongs to.
ANALYSES: Mapping[tuple[str, str], Callable[[Material], list[Part]]] = {
    ("aro", "Table 1"): aro.perturbations,
    ("aro", "Figure 2"): aro.retrieval_without_order,
    ("aro", "Figure 3"): aro.negclip_profile,
    ("hard-positives", "Table 1"): hard_positives.ranking,
    ("sugarcrepe", "Figure 1"): sugarcrepe.existing_gaps,
    ("sugarcrepe", "Figure 2"): sugarcrepe.blind_against_clip,
    ("sugarcrepe", "Figure 4"): sugarcrepe.refinement_gaps,
    ("sugarcrepe", "Figure 5"): sugarcrepe.imagenet_correlation,
    ("tricd", "Figure 5"): tricd.boxes,
    ("tricd", "Figure 8"): tricd.phrase_words,
}
