"""Grammar models: classifiers of linguistic acceptability trained on CoLA, blind to any image.

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

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

from ..metrics.errors import ModelError
from ._loading import (
    TorchModel,
    choose,
    cut_tokens,
    load_config,
    load_model_class,
    load_tokenizer,
    model_info,
    pad_right,
)
from ._protocol import LoadOptions, ModelInfo

MODEL_TYPES = ("distilbert",)
CHECKPOINTS = ("textattack/distilbert-base-uncased-CoLA", "textattack/roberta-base-CoLA")

SETTINGS = {"score": ("probability", "logit")}


class ColaGrammar(TorchModel):
    """A classifier of acceptability as a text scorer."""

    def __init__(self, model: Any, tokenizer: Any, acceptable: int, info: ModelInfo) -> None:
        super().__init__(model, info)
        limits = (getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length)
        self.max_tokens = min(int(limit) for limit in limits if limit)
        self._tokenizer = tokenizer
        self._acceptable = acceptable
        self._score = info.settings["score"]

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """The token ids of each caption, with start and end token."""
        return self._tokenizer(list(captions), verbose=False)["input_ids"] if captions else []

    @torch.inference_mode()
    def score_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Acceptability (n,), float64: a probability, or its log-odds; higher is more acceptable."""
        if not captions:
            return np.empty(0)
        model = self.chosen(exact)
        rows = [cut_tokens(ids, self.max_tokens) for ids in captions]
        ids, mask = pad_right(rows, self._tokenizer.pad_token_id, model.device)
        logits = model(input_ids=ids, attention_mask=mask).logits.cpu().double()
        odds = logits[:, self._acceptable] - logits[:, 1 - self._acceptable]
        return (odds.sigmoid() if self._score == "probability" else odds).numpy()


def load(checkpoint: str, options: LoadOptions) -> ColaGrammar:
    """Load a grammar model.

    Raises:
        ModelError: not found, of another kind (the message names its family), with other classes, without a
            tokenizer, or with weights missing or of another shape.
        UnknownNameError: an unknown setting.
    """
    settings = choose("cola_grammar", options, SETTINGS)
    types = tuple(MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES)
    config = load_config(checkpoint, options, "cola_grammar", types, "such as distilbert, bert, roberta")
    acceptable = _acceptable(checkpoint, config.id2label)
    model = load_model_class(AutoModelForSequenceClassification, checkpoint, options, "cola_grammar")
    tokenizer = load_tokenizer(checkpoint, options, "cola_grammar")
    info = model_info(checkpoint, options, "cola_grammar", model, config, settings=settings)
    return ColaGrammar(model, tokenizer, acceptable, info)


def _acceptable(checkpoint: str, labels: dict[int, str]) -> int:
    """The number of the class "acceptable"; another pair of classes, such as sentiment, would score nonsense."""
    names = {str(name).lower(): number for number, name in labels.items()}
    if names.keys() == {"label_0", "label_1"}:
        return names["label_1"]
    if len(names) == 2 and "acceptable" in names:
        return names["acceptable"]
    raise ModelError(
        f"{checkpoint} tells apart {', '.join(map(str, labels.values()))}, not what is acceptable: a grammar model has "
        "LABEL_0 and LABEL_1, or unacceptable and acceptable"
    )
