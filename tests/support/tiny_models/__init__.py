"""Builders of tiny random checkpoints, each saved to a folder as a user would have one; `CHECKPOINTS` lists them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock
from safetensors.torch import load_file, save_file

from .blind import tiny_cola, tiny_gpt2, tiny_vera
from .detectors import tiny_grounding_dino, tiny_mdetr, tiny_omdet_turbo, tiny_owlvit
from .dual_encoders import (
    tiny_align,
    tiny_altclip,
    tiny_chinese_clip,
    tiny_clip,
    tiny_flava,
    tiny_metaclip_2,
    tiny_siglip,
    tiny_siglip2,
    tiny_tipsv2,
)
from .fused import tiny_blip, tiny_blip2, tiny_bridgetower, tiny_vilt, tiny_xvlm
from .generative import shrunken, tiny_llava
from .parts import bert_words as bert_words
from .parts import bpe_words as bpe_words
from .parts import gemma_words as gemma_words
from .parts import ordinary_weights as ordinary_weights
from .parts import save_parts as save_parts
from .parts import xlmr_words as xlmr_words

MATCHES = ("matching", "retrieval")
EMBEDS = (*MATCHES, "text_similarity")
DETECTS = ("detection",)
ANSWERS = ("matching", "retrieval", "vqa")


class Tiny(NamedTuple):
    """A checkpoint's family and builder, its abilities, a suffix of one of its weights, and its token limit.

    `file` is the name of the weights in their authors' format, which is loaded instead of the folder.
    """

    family: str
    build: Callable[[Any], Any]
    abilities: tuple[str, ...]
    weight: str
    max_tokens: int | None = None
    file: str = ""

    def weights(self, folder):
        """The weights by name."""
        return _state(torch.load(folder / self.file, weights_only=False)) if self.file else load_file(folder / _WEIGHTS)

    def write(self, folder, weights):
        """Replace the weights."""
        if not self.file:
            save_file(weights, folder / _WEIGHTS, {"format": "pt"})
            return
        content = torch.load(folder / self.file, weights_only=False)
        state = _state(content)
        state.clear()
        state.update(weights)
        torch.save(content, folder / self.file)


def _state(content):
    return content.get("model_ema", content["model"])


_WEIGHTS = "model.safetensors"
_NORM, _BERT_NORM = "text_model.final_layer_norm.weight", "embeddings.LayerNorm.weight"
_MERGER, _PROJECTOR = "merger.ln_q.weight", "multi_modal_projector.linear_1.weight"
_DINO = "model.text_projection.weight"
CHECKPOINTS = {
    "clip": Tiny("clip", tiny_clip, EMBEDS, _NORM, 32),
    "metaclip_2": Tiny("clip", tiny_metaclip_2, EMBEDS, _NORM, 12),
    "align": Tiny("clip", tiny_align, EMBEDS, _BERT_NORM, 14),
    # 16 positions, of which RoBERTa leaves 0 and 1, of the padding, unused; with BridgeTower's 66 it is the same.
    "altclip": Tiny("clip", tiny_altclip, EMBEDS, _BERT_NORM, 14),
    "chinese_clip": Tiny("clip", tiny_chinese_clip, EMBEDS, _BERT_NORM, 14),
    "siglip": Tiny("siglip", tiny_siglip, EMBEDS, _NORM, 20),
    "siglip2": Tiny("siglip", tiny_siglip2, EMBEDS, _NORM, 20),
    "tipsv2": Tiny("tipsv2", tiny_tipsv2, EMBEDS, "token_embedding.weight", 20),
    "blip": Tiny("blip", tiny_blip, MATCHES, "itm_head.weight", 40),
    "blip2": Tiny("blip2", tiny_blip2, MATCHES, "text_projection.weight", 24),
    "bridgetower": Tiny("bridgetower", tiny_bridgetower, MATCHES, "itm_score.fc.bias", 64),
    "flava": Tiny("flava", tiny_flava, EMBEDS, "text_projection.weight", 24),
    "vilt": Tiny("vilt", tiny_vilt, MATCHES, "rank_output.weight", 24),
    "xvlm": Tiny("xvlm", tiny_xvlm, MATCHES, "itm_head.3.weight", 40, "tiny.th"),
    "owlvit": Tiny("owlvit", tiny_owlvit, DETECTS, "box_head.dense1.weight", 12),
    "owlv2": Tiny("owlvit", partial(tiny_owlvit, kind="owlv2"), DETECTS, "box_head.dense1.weight", 12),
    "grounding-dino": Tiny("grounding_dino", tiny_grounding_dino, DETECTS, _DINO, 24),
    "mm-grounding-dino": Tiny(
        "grounding_dino", partial(tiny_grounding_dino, kind="mm-grounding-dino"), DETECTS, _DINO, 24
    ),
    "omdet-turbo": Tiny("omdet_turbo", tiny_omdet_turbo, DETECTS, "decoder.task_project.weight", 16),
    "mdetr": Tiny("mdetr", tiny_mdetr, DETECTS, "resizer.fc.weight", 32, "tiny.pth"),
    "vera": Tiny("vera", tiny_vera, MATCHES, "encoder.block.1.layer.0.SelfAttention.q.weight", 128),
    "cola": Tiny("cola_grammar", tiny_cola, MATCHES, "pre_classifier.weight", 24),
    "gpt2": Tiny("causal_lm", tiny_gpt2, MATCHES, "transformer.h.1.ln_1.weight", 48),
    "llava": Tiny("vqascore", tiny_llava, ANSWERS, _PROJECTOR),
    "idefics3": Tiny("vqascore", partial(shrunken, model_type="idefics3"), ANSWERS, "modality_projection.proj.weight"),
    "qwen2_vl": Tiny("vqascore", partial(shrunken, model_type="qwen2_vl"), ANSWERS, _MERGER),
}


def checkpoint(name):
    """Return the folder of a checkpoint, built once for all processes of the tests, which must not change it."""
    home = Path(os.environ["VL_ASSAY_TESTS_HOME"], "checkpoints")
    folder = home / name
    home.mkdir(exist_ok=True)
    with FileLock(home / f"{name}.lock"):
        if not folder.exists():
            (unfinished := home / f"{name}.unfinished").mkdir(exist_ok=True)
            CHECKPOINTS[name].build(unfinished)
            unfinished.rename(folder)
    return folder
