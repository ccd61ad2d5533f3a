"""Builders of tiny random checkpoints, each saved to a folder as a user would have one."""

from .blind import tiny_cola, tiny_gpt2, tiny_vera
from .detectors import tiny_grounding_dino, tiny_owlvit
from .dual_encoders import (
    tiny_align,
    tiny_altclip,
    tiny_chinese_clip,
    tiny_flava,
    tiny_metaclip_2,
    tiny_siglip,
    tiny_siglip2,
)
from .fused import tiny_blip, tiny_blip2, tiny_bridgetower, tiny_vilt
from .generative import tiny_idefics3, tiny_llava, tiny_llava_next, tiny_qwen2_vl
from .parts import bert_words, bpe_words, gemma_words, ordinary_weights, save_parts, save_tiny, xlmr_words

__all__ = [
    "bert_words",
    "bpe_words",
    "gemma_words",
    "ordinary_weights",
    "save_parts",
    "save_tiny",
    "tiny_align",
    "tiny_altclip",
    "tiny_blip",
    "tiny_blip2",
    "tiny_bridgetower",
    "tiny_chinese_clip",
    "tiny_cola",
    "tiny_flava",
    "tiny_gpt2",
    "tiny_grounding_dino",
    "tiny_idefics3",
    "tiny_llava",
    "tiny_llava_next",
    "tiny_metaclip_2",
    "tiny_owlvit",
    "tiny_qwen2_vl",
    "tiny_siglip",
    "tiny_siglip2",
    "tiny_vera",
    "tiny_vilt",
    "xlmr_words",
]
