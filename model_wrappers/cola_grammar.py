"""Grammar models: classifiers of linguistic acceptability trained on CoLA, which see no image.

``textattack/distilbert-base-uncased-CoLA`` is the grammar model of SugarCrepe; any other `transformers` checkpoint for
`AutoModelForSequenceClassification` with the two classes of CoLA does, by name (``cola_grammar:…``). The setting
``score`` is

- ``probability``: of the class "acceptable", ``LABEL_1``, as SugarCrepe's ``text_model_eval.py`` takes it;
- ``logit``: its log-odds.

Source: SugarCrepe (Hsieh et al., NeurIPS 2023), sections 3 and 4; CoLA (Warstadt et al., 2019); TextAttack (Morris et
al., 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

from ..metrics.common.errors import ModelError
from .engine.protocol import LoadOptions
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import Checkpoint, TextScorerModel, text_limit, wide

MODEL_TYPES = ("distilbert",)
CHECKPOINTS = ("textattack/distilbert-base-uncased-CoLA", "textattack/roberta-base-CoLA")

SETTINGS = {"score": ("probability", "logit")}


class ColaGrammar(TextScorerModel):
    """A classifier of acceptability as a text scorer."""

    def __init__(self, checkpoint: Checkpoint, acceptable: int) -> None:
        super().__init__(checkpoint, text_limit(checkpoint))
        self._acceptable = acceptable

    def plausibility(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return acceptability (n,), float64: a probability, or its log-odds; higher is more acceptable."""
        ids, mask = self.batch_tokens(captions, model)
        logits = wide(model(input_ids=ids, attention_mask=mask).logits)
        odds = logits[:, self._acceptable] - logits[:, 1 - self._acceptable]
        return odds.sigmoid() if self.info.settings["score"] == "probability" else odds


def load(checkpoint: str, options: LoadOptions) -> ColaGrammar:
    """Load a grammar model; raises as `load_checkpoint`, also for classes other than CoLA's."""
    loaded = load_checkpoint(
        "cola_grammar",
        checkpoint,
        options,
        dict.fromkeys(MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES, AutoModelForSequenceClassification),
        SETTINGS,
        described="such as distilbert, bert, roberta",
        processor_class=None,
    )
    return ColaGrammar(loaded, _acceptable(checkpoint, loaded.model.config.id2label))


def _acceptable(checkpoint: str, labels: dict[int, str]) -> int:
    """Return the number of the class "acceptable"; another pair of classes, such as sentiment, would score nonsense."""
    names = {str(name).lower(): number for number, name in labels.items()}
    if names.keys() == {"label_0", "label_1"}:
        return names["label_1"]
    if len(names) == 2 and "acceptable" in names:
        return names["acceptable"]
    raise ModelError(
        f"{checkpoint} tells apart {', '.join(map(str, labels.values()))}, not what is acceptable: a grammar model has "
        "LABEL_0 and LABEL_1, or unacceptable and acceptable"
    )
