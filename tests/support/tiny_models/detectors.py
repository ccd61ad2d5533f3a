"""Tiny checkpoints that find phrases in images."""

from __future__ import annotations

import transformers

from .parts import TOWER, save_tiny


def tiny_owlvit(folder, kind="owlvit"):
    """An OWL-ViT (or, with ``"owlv2"``, OWLv2) of 36 patches: pictures of 48 pixels, phrases of up to 12 tokens."""
    from vl_assay.model_wrappers.demo_clip.train import build_tokenizer

    prefix = {"owlvit": "OwlViT", "owlv2": "Owlv2"}[kind]
    tokenizer = build_tokenizer()
    text = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 12,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    vision = {"image_size": 48, "patch_size": 8}
    config = getattr(transformers, f"{prefix}Config")(
        text_config=TOWER | text, vision_config=TOWER | vision, projection_dim=32
    )
    model = getattr(transformers, f"{prefix}ForObjectDetection")(config)
    processor = getattr(transformers, f"{prefix}ImageProcessorPil")(size={"height": 48, "width": 48})
    return save_tiny(folder, model, tokenizer, processor)


def tiny_grounding_dino(folder, kind="grounding-dino", **changes):
    """A Grounding DINO (or, with ``"mm-grounding-dino"``, an MM Grounding DINO) that draws 20 boxes.

    Its tokens that end a sentence have the ids of BERT's vocabulary, which the model knows by number.
    """
    places = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103, ".": 1012, "?": 1029}
    words = ["a", "red", "blue", "big", "small", "cat", "dog", "box", "left", "of", "the", "##s", "on", "man", "two"]
    places |= {word: 1100 + number for number, word in enumerate(words)}
    names = {number: word for word, number in places.items()}
    vocabulary = {names.get(number, f"[unused{number}]"): number for number in range(1100 + len(words))}
    tokenizer = transformers.BertTokenizer(vocab=vocabulary, model_max_length=512)
    text = transformers.BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **TOWER)
    backbone = transformers.SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 2],
        window_size=4,
        out_features=["stage2", "stage3", "stage4"],
    )
    small = {
        "d_model": 64,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "num_queries": 20,
        "max_text_len": 24,
        "text_config": text,
        "backbone_config": backbone,
    }
    prefix = {"grounding-dino": "GroundingDino", "mm-grounding-dino": "MMGroundingDino"}[kind]
    config = getattr(transformers, f"{prefix}Config")(**small | changes)
    model = getattr(transformers, f"{prefix}ForObjectDetection")(config)
    processor = transformers.GroundingDinoImageProcessorPil(size={"shortest_edge": 96, "longest_edge": 128})
    return save_tiny(folder, model, tokenizer, processor, std=0.06)
