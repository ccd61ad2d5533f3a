"""Causal language models: any `transformers` checkpoint for `AutoModelForCausalLM`, by name.

A text-only baseline: the score of a caption is its log-likelihood. Each token is scored given those before it. The
first one follows the tokenizer's start token or, without one (Qwen2), its end token, as in EleutherAI's evaluation
harness; this token itself is not scored. An end token that the tokenizer appends is scored, and none is added.
The setting ``normalise`` is

- ``tokens``: the mean log-probability of a token (nats), so that longer captions are not less likely for their length;
- ``none``: the sum, the log-likelihood of the caption.

A caption without tokens scores NaN. These checkpoints have many model types, so write ``causal_lm:`` before the name.

Source: language priors as baselines for compositionality: SugarCrepe (Hsieh et al., NeurIPS 2023), section 3;
VisualGPTScore (Lin et al., 2023), section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from ..metrics.common.errors import ModelError
from .engine.protocol import LoadOptions
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import Checkpoint, TextScorerModel, cut_tokens, log_likelihoods, pad_right, text_limit

MODEL_TYPES = ()
OTHERS = "language models, as text-only baselines"
CHECKPOINTS = ("openai-community/gpt2", "Qwen/Qwen2.5-0.5B", "EleutherAI/pythia-410m")

SETTINGS = {"normalise": ("tokens", "none")}


class CausalLm(TextScorerModel):
    """A causal language model as a text scorer."""

    def __init__(self, checkpoint: Checkpoint, start: int) -> None:
        super().__init__(checkpoint, text_limit(checkpoint))
        self._start = start
        self._closes = self._tokenizer("one")["input_ids"][-1] == self._tokenizer.eos_token_id
        self._normalise = checkpoint.info.settings["normalise"]

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each caption, after the start token."""
        rows = super().prepare_captions(captions)
        return [ids if ids[:1] == [self._start] else [self._start, *ids] for ids in rows]

    def plausibility(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return log-likelihoods (n,), float64, in nats; higher is likelier. NaN for a caption without tokens."""
        rows = [cut_tokens(ids, self.max_tokens) if self._closes else list(ids[: self.max_tokens]) for ids in captions]
        ids, mask = pad_right(rows, self._start, model.device)
        logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        logs = [log_likelihoods(values[: len(row) - 1], row[1:]) for values, row in zip(logits, rows, strict=True)]
        # The mean of no tokens is NaN.
        is_mean = self._normalise == "tokens"
        return torch.stack([values.mean() if is_mean or not len(values) else values.sum() for values in logs])


def load(checkpoint: str, options: LoadOptions) -> CausalLm:
    """Load a model; raises as `load_checkpoint`, also if it is bidirectional or has no start token."""
    loaded = load_checkpoint(
        "causal_lm",
        checkpoint,
        options,
        dict.fromkeys(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, AutoModelForCausalLM),
        SETTINGS,
        described="such as gpt2, llama, qwen2",
        processor_class=None,
    )
    model, tokenizer = loaded.model, loaded.tokenizer
    start = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    if start is None:
        raise ModelError(f"the tokenizer of {checkpoint} has neither a start nor an end token: nothing comes first")
    if _reads_ahead(model, [start, *tokenizer("one two", add_special_tokens=False)["input_ids"]][:3]):
        raise ModelError(
            f"{checkpoint} is a {model.config.model_type!r} checkpoint that reads from both sides: the probability of "
            "a token would depend on itself. causal_lm needs a model that reads from left to right"
        )
    return CausalLm(loaded, start)


@torch.inference_mode()
def _reads_ahead(model: Any, ids: Sequence[int]) -> bool:
    """Return whether the last token changes the first one's logits, as in BERT, which `transformers` loads, too."""
    pair = torch.tensor([list(ids), [*ids[:-1], ids[0]]], device=model.device)
    first, second = model(input_ids=pair, attention_mask=torch.ones_like(pair), use_cache=False).logits[:, 0].float()
    return bool((first - second).abs().max() > 1e-4 * first.abs().max())
