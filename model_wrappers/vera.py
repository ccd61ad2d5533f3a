"""Vera: how plausible a statement is, by the T5 encoder of its authors (``liujch1998/vera``), blind to any image.

The release is a `T5EncoderModel` whose head is hidden in rows of the word embeddings that stand for sentinels: row
32099 is the weight of a linear layer with one output, the first number of row 32098 its bias, the first number of row
32097 the temperature. The layer reads the last hidden state of the end token; its output divided by the temperature
is the calibrated logit. The setting ``score`` is

- ``probability``: the logistic function of the calibrated logit, as SugarCrepe's ``text_model_eval.py`` and the
  authors' demonstration give it;
- ``logit``: the calibrated logit.

Captions are cut to 128 tokens, as there. A plain T5 has rows of these numbers too: one with a decoder, or whose
temperature is not positive, is refused.

Source: Vera (Liu et al., EMNLP 2023), section 3; SugarCrepe (Hsieh et al., NeurIPS 2023), sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import T5EncoderModel

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

MODEL_TYPES = ("t5",)
CHECKPOINTS = ("liujch1998/vera",)

SETTINGS = {"score": ("probability", "logit")}

_WEIGHT, _BIAS, _TEMPERATURE = 32099, 32098, 32097
_MAX_TOKENS = 128


class Encoder(T5EncoderModel):
    """A `T5EncoderModel` that reports a decoder in the file instead of passing over it: Vera's has none."""

    _keys_to_ignore_on_load_unexpected = None


class Vera(TorchModel):
    """Vera as a text scorer."""

    max_tokens = _MAX_TOKENS

    def __init__(self, model: Any, tokenizer: Any, info: ModelInfo) -> None:
        super().__init__(model, info)
        self._tokenizer = tokenizer
        self._score = info.settings["score"]

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """The token ids of each caption, with the end token."""
        return self._tokenizer(list(captions), verbose=False)["input_ids"] if captions else []

    @torch.inference_mode()
    def score_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Plausibility (n,), float64: a probability, or a calibrated logit; higher is more plausible."""
        if not captions:
            return np.empty(0)
        model = self.chosen(exact)
        rows = [cut_tokens(ids, self.max_tokens) for ids in captions]
        ids, mask = pad_right(rows, self._tokenizer.pad_token_id, model.device)
        states = model(input_ids=ids, attention_mask=mask).last_hidden_state
        last = states[torch.arange(len(rows), device=states.device), mask.sum(1) - 1].cpu().double()
        head = model.shared.weight[_TEMPERATURE : _WEIGHT + 1].cpu().double()
        temperature, bias, weight = head[0, 0], head[1, 0], head[2]
        logits = (last @ weight + bias) / temperature
        return (logits.sigmoid() if self._score == "probability" else logits).numpy()


def load(checkpoint: str, options: LoadOptions) -> Vera:
    """Load Vera.

    Raises:
        ModelError: not found, of another type (the message names its family), a T5 that is not Vera, without a
            tokenizer, or with weights missing or of another shape.
        UnknownNameError: an unknown setting.
    """
    settings = choose("vera", options, SETTINGS)
    config = load_config(checkpoint, options, "vera", MODEL_TYPES)
    model = load_model_class(Encoder, checkpoint, options, "vera")
    rows = model.shared.weight.detach()
    if len(rows) <= _WEIGHT or not 0 < float(rows[_TEMPERATURE, 0]) < float("inf"):
        temperature = f"a temperature of {float(rows[_TEMPERATURE, 0]):.3g}" if len(rows) > _WEIGHT else "no such row"
        raise ModelError(
            f"{checkpoint} is a T5 encoder but not Vera, which keeps its head in rows {_TEMPERATURE} to {_WEIGHT} of "
            f"the word embeddings: {len(rows)} rows, {temperature}. Vera is liujch1998/vera"
        )
    tokenizer = load_tokenizer(checkpoint, options, "vera")
    return Vera(model, tokenizer, model_info(checkpoint, options, "vera", model, config, settings=settings))
