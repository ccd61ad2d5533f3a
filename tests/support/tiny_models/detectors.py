"""Tiny checkpoints that find phrases in images."""

from __future__ import annotations

from argparse import Namespace

import torch
import transformers
from plain_mdetr import shapes

from .parts import TOWER, drawn, roberta_letters, save_tiny


def _text_of(tokenizer, positions):
    """The configuration of CLIP's text tower for a tokenizer."""
    ends = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    return TOWER | ends | {"vocab_size": len(tokenizer), "max_position_embeddings": positions}


def tiny_owlvit(folder, kind="owlvit"):
    """An OWL-ViT (or, with ``"owlv2"``, OWLv2) of 36 patches: pictures of 48 pixels, phrases of up to 12 tokens."""
    from vl_assay.model_wrappers.demo_clip.train import build_tokenizer

    prefix = {"owlvit": "OwlViT", "owlv2": "Owlv2"}[kind]
    tokenizer = build_tokenizer()
    text = _text_of(tokenizer, 12)
    vision = {"image_size": 48, "patch_size": 8}
    config = getattr(transformers, f"{prefix}Config")(text_config=text, vision_config=TOWER | vision, projection_dim=32)
    model = getattr(transformers, f"{prefix}ForObjectDetection")(config)
    processor = getattr(transformers, f"{prefix}ImageProcessorPil")(size={"height": 48, "width": 48})
    return save_tiny(folder, model, tokenizer, processor)


def tiny_grounding_dino(folder, kind="grounding-dino"):
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
    config = getattr(transformers, f"{prefix}Config")(**small)
    model = getattr(transformers, f"{prefix}ForObjectDetection")(config)
    processor = transformers.GroundingDinoImageProcessorPil(size={"shortest_edge": 96, "longest_edge": 128})
    return save_tiny(folder, model, tokenizer, processor, std=0.06)


def tiny_omdet_turbo(folder):
    """An OmDet-Turbo that draws 20 boxes, with a Swin transformer of transformers."""
    from vl_assay.model_wrappers.demo_clip.train import build_tokenizer

    tokenizer = build_tokenizer()
    text = transformers.CLIPTextConfig(**_text_of(tokenizer, 16))
    sizes = {"image_size": 64, "patch_size": 4, "embed_dim": 16, "window_size": 4}
    backbone = transformers.SwinConfig(
        **sizes, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 2], out_features=["stage2", "stage3", "stage4"]
    )
    config = transformers.OmDetTurboConfig(
        text_config=text,
        backbone_config=backbone,
        apply_layernorm_after_vision_backbone=False,
        image_size=64,
        text_projection_in_dim=32,
        text_projection_out_dim=32,
        task_encoder_hidden_dim=32,
        class_embed_dim=32,
        num_queries=20,
        encoder_hidden_dim=16,
        vision_features_channels=[16, 16, 16],
        encoder_in_channels=[32, 64, 128],
        encoder_attention_heads=2,
        encoder_dim_feedforward=32,
        decoder_hidden_dim=16,
        decoder_num_heads=2,
        decoder_num_layers=2,
        decoder_dim_feedforward=32,
    )
    torch.manual_seed(0)  # biases keep what they begin with
    model = transformers.OmDetTurboForObjectDetection(config)
    processor = transformers.DetrImageProcessorPil(size={"height": 64, "width": 64}, do_pad=False)
    return save_tiny(folder, model, tokenizer, processor, std=0.1)


def tiny_mdetr(folder):
    """A file of MDETR with a small ResNet, in its authors' layout; RoBERTa's tokenizer is beside it."""
    tokenizer = roberta_letters()
    tokenizer.save_pretrained(folder)
    sizes = {"stem": 4, "depths": (1, 1, 2, 1), "d": 32, "layers": 2, "queries": 20, "hidden": 128, "read": 2}
    tensors = drawn(shapes(**sizes, words=len(tokenizer), positions=34), std=0.15)
    for name in tensors:  # boxes that look at unlike places
        if name in ("query_embed.weight", "class_embed.weight") or name.endswith("in_proj_weight"):
            tensors[name] *= 5
    tensors["class_embed.bias"][30:255] -= 9  # and few texts have so many tokens
    other = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    torch.save({"model": other, "model_ema": tensors, "args": Namespace(ema=True)}, folder / "tiny.pth")
    return folder
