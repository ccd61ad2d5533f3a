"""Tiny checkpoints that look at an image and a caption together."""

from __future__ import annotations

import torch
import transformers
from plain_xvlm import shapes

from .parts import TOWER, bert_words, drawn, roberta_letters, save_tiny


def tiny_blip(folder, **changes):
    """A `BlipForImageTextRetrieval`; [DEC] and [ENC] follow the tokenizer's words, which are all that it knows."""
    tokenizer = bert_words()
    text = {
        "vocab_size": len(tokenizer) + 2,
        "bos_token_id": len(tokenizer),
        "sep_token_id": 3,
        "eos_token_id": 3,
        "pad_token_id": 0,
        "encoder_hidden_size": 32,
        "max_position_embeddings": 40,
        "is_decoder": True,
    }
    vision = TOWER | {"image_size": 32, "patch_size": 8}
    config = transformers.BlipConfig(
        text_config=TOWER | text | changes, vision_config=vision, image_text_hidden_size=16
    )
    processor = transformers.BlipImageProcessor(size={"height": 32, "width": 32})
    return save_tiny(folder, transformers.BlipForImageTextRetrieval(config), tokenizer, processor)


def tiny_blip2(folder, **changes):
    """A `Blip2ForImageTextRetrieval` of four query tokens."""
    tokenizer = bert_words()
    qformer = {"vocab_size": len(tokenizer) + 1, "max_position_embeddings": 24, "use_qformer_text_input": True}
    config = transformers.Blip2Config(
        vision_config=TOWER | {"image_size": 32, "patch_size": 8},
        qformer_config=TOWER | qformer,
        text_config={"model_type": "opt", "vocab_size": 8, "num_hidden_layers": 1, "hidden_size": 8, "ffn_dim": 8},
        num_query_tokens=4,
        image_text_hidden_size=16,
        **changes,
    )
    processor = transformers.BlipImageProcessor(size={"height": 32, "width": 32})
    return save_tiny(folder, transformers.Blip2ForImageTextRetrieval(config), tokenizer, processor)


def tiny_vilt(folder, **changes):
    """A `ViltForImageAndTextRetrieval` that keeps the shape of images, 32 pixels the shorter side."""
    tokenizer = bert_words()
    config = transformers.ViltConfig(
        vocab_size=len(tokenizer),
        **TOWER,
        image_size=32,
        patch_size=8,
        max_position_embeddings=24,
        **changes,
    )
    processor = transformers.ViltImageProcessor(size={"shortest_edge": 32}, size_divisor=8)
    return save_tiny(folder, transformers.ViltForImageAndTextRetrieval(config), tokenizer, processor)


def tiny_bridgetower(folder, **changes):
    """A `BridgeTowerForImageAndTextRetrieval` of towers of four layers, the last two of which are joined."""
    tokenizer = roberta_letters()
    config = transformers.BridgeTowerConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "num_hidden_layers": 4,
            "num_attention_heads": 2,
            "intermediate_size": 96,
            "max_position_embeddings": 66,
        },
        vision_config={"hidden_size": 64, "num_hidden_layers": 4, "image_size": 32, "patch_size": 8},
        **changes,
    )
    processor = transformers.BridgeTowerImageProcessor(
        size={"shortest_edge": 32}, crop_size={"shortest_edge": 32}, size_divisor=8
    )
    return save_tiny(folder, transformers.BridgeTowerForImageAndTextRetrieval(config), tokenizer, processor, std=0.1)


def tiny_xvlm(folder):
    """A file of X-VLM for images of 32 pixels, in its authors' layout; BERT's tokenizer is beside it."""
    tokenizer = bert_words()
    tokenizer.save_pretrained(folder)
    sizes = {"width": 32, "depths": (2, 2), "heads": (2, 4), "window": 4, "hidden": 128, "layers": 4, "e": 16}
    tensors = drawn(shapes(**sizes, words=len(tokenizer)), std=0.1)
    torch.save({"model": tensors, "config": {"image_res": 32, "temp": 0.07}}, folder / "tiny.th")
    return folder
