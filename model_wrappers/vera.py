"""Vera: how plausible a statement is, by the T5 encoder of its authors (``liujch1998/vera``), without the image.

The release is a `T5EncoderModel` that stores its head in the rows of the word embeddings for sentinel tokens: row 32099
is the weight of a linear layer with one output, the first number of row 32098 its bias, the first number of row
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

import torch
from transformers import T5EncoderModel

from ..metrics.common.errors import ModelError
from .engine.protocol import LoadOptions
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import Checkpoint, TextScorerModel, wide


class VeraEncoder(T5EncoderModel):
    """A `T5EncoderModel` that reports a decoder in the file instead of passing over it: Vera's has none."""

    _keys_to_ignore_on_load_unexpected = None


_CLASSES = {"t5": VeraEncoder}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = ("liujch1998/vera",)
SETTINGS = {"score": ("probability", "logit")}

_WEIGHT, _BIAS, _TEMPERATURE = 32099, 32098, 32097
_MAX_TOKENS = 128


class Vera(TextScorerModel):
    """Vera as a text scorer."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint, _MAX_TOKENS)

    def plausibility(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return plausibility (n,), float64: a probability, or a calibrated logit; higher is more plausible."""
        ids, mask = self.batch_tokens(captions, model)
        states = model(input_ids=ids, attention_mask=mask).last_hidden_state
        last = wide(states[torch.arange(len(ids), device=states.device), mask.sum(1) - 1])
        head = wide(model.shared.weight[_TEMPERATURE : _WEIGHT + 1])
        temperature, bias, weight = head[0, 0], head[1, 0], head[2]
        logits = (last @ weight + bias) / temperature
        return logits.sigmoid() if self.info.settings["score"] == "probability" else logits


def load(checkpoint: str, options: LoadOptions) -> Vera:
    """Load Vera; raises as `load_checkpoint`, also for a T5 that is not Vera."""
    loaded = load_checkpoint("vera", checkpoint, options, _CLASSES, SETTINGS, processor_class=None)
    rows = loaded.model.shared.weight.detach()
    if len(rows) <= _WEIGHT or not 0 < float(rows[_TEMPERATURE, 0]) < float("inf"):
        temperature = f"a temperature of {float(rows[_TEMPERATURE, 0]):.3g}" if len(rows) > _WEIGHT else "no such row"
        raise ModelError(
            f"{checkpoint} is a T5 encoder but not Vera, which keeps its head in rows {_TEMPERATURE} to {_WEIGHT} of "
            f"the word embeddings: {len(rows)} rows, {temperature}. Vera is liujch1998/vera"
        )
    return Vera(loaded)
